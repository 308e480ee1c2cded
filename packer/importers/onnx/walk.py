"""Imports nodes in order, through functions and subgraphs, and collects everything that is not supported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

import onnx

from packer.errors import ModelError, UnsupportedOperator, UnsupportedOperators
from packer.importers.onnx import registry
from packer.importers.onnx.builder import Builder, Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.load import opsets_of
from packer.importers.onnx.tensors import Store

__all__ = ["LARGEST_DEPTH", "LARGEST_NODES", "Scope", "Walker"]

LARGEST_DEPTH = 24  # functions and subgraphs inside each other
LARGEST_NODES = 500_000  # after expansion of functions and loops


class Scope:
    """The names visible to the nodes of one graph or function body; None is the result of an unsupported node."""

    def __init__(
        self,
        parent: Scope | None,
        prefix: str,
        opsets: Mapping[str, int],
        attributes: Mapping[str, onnx.AttributeProto] | None = None,
    ) -> None:
        self.parent = parent
        self.prefix = prefix
        self.opsets = opsets
        self.depth: int = 0
        self._attributes = attributes
        self._tensors: dict[str, Tensor | None] = {}

    def define(self, name: str, tensor: Tensor | None) -> None:
        self._tensors[name] = tensor

    def find(self, name: str) -> Tensor | None:
        """What `name` stands for; raises KeyError when it is not defined."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._tensors:
                return scope._tensors[name]
            scope = scope.parent
        raise KeyError(name)

    def attributes_of(self, node: onnx.NodeProto) -> list[onnx.AttributeProto]:
        """The node's attributes, where references to those of the function around it are replaced or dropped."""
        found = []
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                found.append(attribute)
                continue
            given = self.reference(attribute.ref_attr_name)
            if given is not None:
                renamed = onnx.AttributeProto()
                renamed.CopyFrom(given)
                renamed.name = attribute.name
                found.append(renamed)
        return found

    def reference(self, name: str) -> onnx.AttributeProto | None:
        """An attribute of the innermost function around, or None."""
        scope: Scope | None = self
        while scope is not None and scope._attributes is None:
            scope = scope.parent
        return None if scope is None or scope._attributes is None else scope._attributes.get(name)


class Walker:
    """Carries the state of one import: the builder, the model's functions and tensors, and what was not supported."""

    def __init__(self, builder: Builder, store: Store, functions: Iterable[onnx.FunctionProto]) -> None:
        self.builder = builder
        self.store = store
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in functions}
        self._missing: dict[tuple[str, str], list[str]] = {}
        self._nodes = 0

    def raise_unsupported(self) -> None:
        """Raise UnsupportedOperators if anything was found that is not supported."""
        if self._missing:
            operators = (UnsupportedOperator(op, reason, tuple(nodes)) for (op, reason), nodes in self._missing.items())
            raise UnsupportedOperators(sorted(operators, key=lambda o: (o.op_type, o.reason)))

    def count(self, source: str) -> None:
        """Account for one more node; raises ModelError when functions and loops expand without end."""
        self._nodes += 1
        if self._nodes > LARGEST_NODES:
            raise ModelError(
                "the model expands to too many nodes", where=f"node '{source}'", expected=f"at most {LARGEST_NODES}"
            )

    def child(self, scope: Scope, parent: Scope | None, name: str, opsets: Mapping[str, int] | None = None,
              attributes: Mapping[str, onnx.AttributeProto] | None = None) -> Scope:  # fmt: skip
        """A scope for a body inside `scope`; `parent` is what the body can see (None for functions)."""
        inner = Scope(parent, f"{name}/", opsets or scope.opsets, attributes)
        inner.depth = scope.depth + 1
        if inner.depth > LARGEST_DEPTH:
            raise ModelError(
                "functions or subgraphs lie too deep inside each other",
                where=f"node '{name}'",
                expected=f"at most {LARGEST_DEPTH}",
            )
        return inner

    def constants(self, scope: Scope, graph: onnx.GraphProto) -> None:
        """Define the initialisers of a graph."""
        for tensor in graph.initializer:
            self._constant(scope, tensor.name, self.store.array(tensor, f"initializer '{tensor.name}'"))
        for sparse in graph.sparse_initializer:
            self._constant(scope, sparse.values.name, self.store.dense(sparse, f"initializer '{sparse.values.name}'"))

    def _constant(self, scope: Scope, name: str, data: object) -> None:
        scope.define(name, self.builder.literal(self._name(scope, name), data))  # type: ignore[arg-type]

    def _name(self, scope: Scope, name: str) -> str:
        """The value that a name of the model becomes; those of the top graph are reserved for it."""
        return self.builder.unique(f"{scope.prefix}{name}") if scope.depth else name

    def run(self, scope: Scope, nodes: Sequence[onnx.NodeProto], needed: Set[int] | None = None) -> None:
        """Import nodes in order, only those at the `needed` positions if given."""
        for index, node in enumerate(nodes):
            if needed is not None and index not in needed:
                continue
            name = f"{scope.prefix}{node.name or f'{node.op_type}_{index}'}"
            self.count(name)
            self._node(scope, node, name)

    def body(self, call: Call, graph: onnx.GraphProto, inputs: Sequence[Tensor], label: str) -> list[Tensor]:
        """Import a subgraph of `call` with its inputs bound; the tensors of its outputs."""
        scope = self.child(call.scope, call.scope, f"{call.name}/{label}")
        if len(graph.input) != len(inputs):
            raise call.error(
                "a subgraph has another number of inputs", expected=str(len(inputs)), got=str(len(graph.input))
            )
        self.constants(scope, graph)
        for info, tensor in zip(graph.input, inputs, strict=True):
            scope.define(info.name, tensor)
        self.run(scope, graph.node)
        return self._results(scope, [info.name for info in graph.output], call.name)

    def _results(self, scope: Scope, names: Sequence[str], source: str) -> list[Tensor]:
        results = []
        for name in names:
            try:
                tensor = scope.find(name)
            except KeyError:
                raise ModelError(
                    f"output '{name}' of a function or subgraph is never computed", where=f"node '{source}'"
                ) from None
            if tensor is None:
                raise _Unknown
            results.append(tensor)
        return results

    def _node(self, scope: Scope, node: onnx.NodeProto, name: str) -> None:
        try:
            handler, function = self._find(scope, node)
            start = len(self.builder.nodes)
            found: Tensor | tuple[Tensor | None, ...] | None
            if handler is not None:
                found = handler(Call(self, scope, node, name, self._operands(scope, node, name)))
            elif function is not None:
                found = self._expand(Call(self, scope, node, name, self._operands(scope, node, name)), function)
            else:
                raise Unsupported
        except _Unknown:
            found = None
        except Unsupported as reason:
            op_type = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            self._missing.setdefault((op_type, str(reason)), []).append(name)
            found = None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                "a node of the model is not well formed",
                where=f"{node.op_type} node '{name}'",
                got=f"{type(error).__name__}: {error}",
            ) from error
        if found is None:
            for output in node.output:
                scope.define(output, None)
            return
        results = (found,) if isinstance(found, Tensor) else found
        self._bind(scope, node, results, start, name)

    def _find(self, scope: Scope, node: onnx.NodeProto) -> tuple[registry.Handler | None, onnx.FunctionProto | None]:
        """How to import a node: by handler, or by the body of a function of the model or of the ONNX standard."""
        local = self._functions.get((node.domain, node.op_type, getattr(node, "overload", "")))
        if local is not None:
            return None, local
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = scope.opsets.get(domain, 1)
        handler = registry.find(node.op_type, version, domain)
        return handler, None if handler else self._standard(scope, node, domain, version)

    def _standard(self, scope: Scope, node: onnx.NodeProto, domain: str, version: int) -> onnx.FunctionProto | None:
        """The body that the ONNX standard gives for an operator, or None."""
        try:
            schema = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            return None
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        types = []
        for operand in node.input:
            tensor = scope.find(operand) if operand and self._defined(scope, operand) else None
            element = onnx.helper.np_dtype_to_tensor_dtype(tensor.dtype.numpy) if tensor is not None else 0
            info = onnx.helper.make_tensor_type_proto(element, tensor.shape) if tensor is not None else onnx.TypeProto()
            types.append(info.SerializeToString())
        resolved = onnx.NodeProto()
        resolved.CopyFrom(node)
        del resolved.attribute[:]
        resolved.attribute.extend(scope.attributes_of(node))
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if not versions:
            return None
        text = schema.get_context_dependent_function_with_opset_version(
            max(versions), resolved.SerializeToString(), types
        )
        return onnx.FunctionProto.FromString(text) if text else None

    def _defined(self, scope: Scope, name: str) -> bool:
        try:
            scope.find(name)
        except KeyError:
            return False
        return True

    def _operands(self, scope: Scope, node: onnx.NodeProto, name: str) -> list[Tensor | None]:
        found: list[Tensor | None] = []
        for operand in node.input:
            if not operand:
                found.append(None)
                continue
            try:
                tensor = scope.find(operand)
            except KeyError:
                raise ModelError(
                    f"input '{operand}' is used before it is defined",
                    where=f"{node.op_type} node '{name}'",
                    expected="nodes in topological order",
                    hint="check the model with onnx.checker.check_model",
                ) from None
            if tensor is None:
                raise _Unknown
            found.append(tensor)
        return found

    def _expand(self, call: Call, function: onnx.FunctionProto) -> tuple[Tensor | None, ...]:
        """Import the body of a function in place of `call`; outputs that the call does not name are None."""
        attributes = {a.name: a for a in function.attribute_proto} | self._defaults(call, function) | call.attributes
        opsets = {**call.scope.opsets, **opsets_of(function.opset_import)}
        scope = self.child(call.scope, None, call.name, opsets, attributes)
        if len(call.inputs) > len(function.input):
            raise call.error("too many inputs", expected=str(len(function.input)), got=str(len(call.inputs)))
        for index, name in enumerate(function.input):
            tensor = call.optional(index)
            if tensor is not None:
                scope.define(name, tensor)
        absent = {name for index, name in enumerate(function.input) if not call.has(index)}
        self.run(scope, _without(function.node, absent))
        wanted = [name for name, output in zip(function.output, call.outputs, strict=False) if output]
        results = dict(zip(wanted, self._results(scope, wanted, call.name), strict=True))
        return tuple(results.get(name) for name in function.output[: len(call.outputs)])

    def _defaults(self, call: Call, function: onnx.FunctionProto) -> dict[str, onnx.AttributeProto]:
        """What the ONNX standard gives for attributes that the call leaves out; nothing for functions of the model."""
        if (function.domain, function.name, getattr(function, "overload", "")) in self._functions:
            return {}
        schema = onnx.defs.get_schema(call.node.op_type, call.version, call.domain)
        defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
        return {name: value for name, value in defaults.items() if value.name}

    def _bind(
        self, scope: Scope, node: onnx.NodeProto, results: Sequence[Tensor | None], start: int, source: str
    ) -> None:
        """Give the results of a node the names that the model has for them."""
        fresh = self.builder.written_since(start)
        named: dict[str, Tensor] = {}
        for output, tensor in zip(node.output, results, strict=False):
            if not output or tensor is None:
                continue
            if tensor.name in named:
                bound = named[tensor.name]
            elif tensor.name in fresh:
                bound = self.builder.rename(tensor, self._name(scope, output), start)
            elif tensor.data is not None:
                bound = replace(tensor, name=self._name(scope, output))
            else:
                bound = tensor
            named[tensor.name] = bound
            scope.define(output, bound)
        for output in node.output[len(results) :]:
            if output:
                raise ModelError(
                    "a node has too many outputs", where=f"{node.op_type} node '{source}'", got=f"'{output}'"
                )


class _Unknown(Exception):
    """An operand is the result of an unsupported node."""


def _without(nodes: Sequence[onnx.NodeProto], absent: set[str]) -> list[onnx.NodeProto]:
    """The nodes with names of operands that were not given replaced by nothing."""
    if not absent:
        return list(nodes)
    found = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend("" if name in absent else name for name in node.input)
        found.append(copy)
    return found
