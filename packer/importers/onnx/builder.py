"""The graph while it grows: emits nodes, folds what is constant, names values, and follows data-dependent extents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.errors import ModelError
from packer.importers.onnx import extents
from packer.importers.onnx.fold import Folder
from packer.importers.onnx.numeric import dtype_of
from packer.ir import DType, Extent, Graph, Node, TensorType, Value
from packer.ir.ops import DequantizeLinear, Op, ShapeError, Unary

__all__ = ["Builder", "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """What an ONNX name stands for: a value of the graph, or a constant that enters the graph when a node reads it.

    `data` may be float64 where `type` says F32, or of fewer bits than an integer `type`; it is converted on entering.
    """

    name: str
    type: TensorType
    data: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def rank(self) -> int:
        return self.type.rank

    def wide(self) -> np.ndarray | None:
        """The data of a constant in the dtype of `type`, or float64."""
        if self.data is None or self.data.dtype == np.float64:
            return self.data
        return self.data.astype(self.dtype.numpy, copy=False)


class Builder:
    """A graph under construction. `reserved` are names that only `bind`, `input` and `literal` callers may give out."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.nodes: list[Node] = []
        self.folder = Folder()
        self._values: dict[str, Value] = {}
        self._inputs: list[str] = []
        self._extents: dict[str, extents.Extents] = {}
        self._used = set(reserved)
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """`wanted`, or with the first number behind it that makes it new."""
        name = wanted
        while name in self._used:
            self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}.{self._next[wanted]}"
        self._used.add(name)
        return name

    def input(self, name: str, type: TensorType) -> Tensor:
        """A new input of the graph."""
        self._values[name] = Value(name, type)
        self._inputs.append(name)
        return Tensor(name, type)

    def literal(self, name: str, data: np.ndarray) -> Tensor:
        """A constant; it becomes part of the graph when a node or output uses it."""
        dtype = dtype_of(data)
        assert dtype is not None, f"constants of {data.dtype} are refused where they are read"
        return Tensor(name, TensorType(dtype, data.shape), data)

    def emit(self, op: Op, inputs: Sequence[Tensor | None], outputs: int, name: str, source: str) -> tuple[Tensor, ...]:
        """Apply `op`: folded when every input is constant (a DequantizeLinear is not), else a node. Result names start
        with `name`.

        Raises ModelError naming `source` when the operands do not fit.
        """
        try:
            types = op.infer([None if tensor is None else tensor.type for tensor in inputs])[:outputs]
        except ShapeError as error:
            raise ModelError(
                f"the operands of a node do not fit, or are of a type that is not supported: {error}",
                where=f"node '{source}'",
                hint="check the model with onnx.checker.check_model",
            ) from error
        kept = isinstance(op, DequantizeLinear)  # as a node, for passes that compute with its integers
        if all(tensor is None or tensor.data is not None for tensor in inputs) and not kept:
            arrays = self.folder.fold(
                op, [None if tensor is None else tensor.wide() for tensor in inputs], types, source
            )
            return tuple(self.literal(self.unique(name), array) for array in arrays)
        found = extents.propagate(op, [self._operand(tensor) for tensor in inputs], types, source)
        operands = tuple(None if tensor is None else self._enter(tensor) for tensor in inputs)
        names = tuple(self.unique(name) for _ in types)
        for output, type in zip(names, types, strict=True):
            self._values[output] = Value(output, type)
            if found:
                self._extents[output] = dict(found)
        self.nodes.append(Node(op, operands, names, (source,)))
        return tuple(Tensor(output, type) for output, type in zip(names, types, strict=True))

    def limit(self, tensor: Tensor, axis: int, count: Tensor) -> None:
        """Only the first `count` entries of `tensor` along `axis` are meaningful."""
        self._extents[tensor.name] = {axis: count.name}

    def partial_axes(self, tensor: Tensor) -> set[int]:
        """The axes along which the real size of the tensor depends on data."""
        return set(self._extents.get(tensor.name, ()))

    def rename(self, tensor: Tensor, name: str, start: int) -> Tensor:
        """Give a value written by a node at or behind position `start` another name."""
        old = tensor.name
        self._values[name] = replace(self._values.pop(old), name=name)
        for index in range(start, len(self.nodes)):
            node = self.nodes[index]
            if old in node.inputs or old in node.outputs:
                swap = {old: name}
                self.nodes[index] = replace(
                    node,
                    inputs=tuple(None if n is None else swap.get(n, n) for n in node.inputs),
                    outputs=tuple(swap.get(n, n) for n in node.outputs),
                )
        if old in self._extents:
            self._extents[name] = self._extents.pop(old)
        for counts in self._extents.values():
            counts.update({axis: name for axis, count in counts.items() if count == old})
        return replace(tensor, name=name)

    def written_since(self, start: int) -> set[str]:
        """The values that nodes at or behind position `start` write."""
        return {name for node in self.nodes[start:] for name in node.outputs}

    def ancestors(self, tensor: Tensor) -> list[str]:
        """The graph inputs a value depends on, in order."""
        producers = {name: node for node in self.nodes for name in node.outputs}
        seen, pending = set[str](), [tensor.name]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                if name in producers:
                    pending.extend(n for n in producers[name].inputs if n is not None)
        return [name for name in self._inputs if name in seen]

    def type_of(self, name: str) -> TensorType:
        return self._values[name].type

    def finish(self, name: str, results: dict[str, Tensor]) -> Graph:
        """The validated graph with the given outputs; raises ModelError when it is not well formed."""
        moved: dict[str, str] = {}
        for output, tensor in results.items():
            source = moved.get(tensor.name, tensor.name)
            if tensor.data is not None:
                self._enter(replace(tensor, name=output))
            elif source not in (*results, *self._inputs):
                moved[source] = self.rename(tensor, output, 0).name
            elif source != output:
                self._copy(replace(tensor, name=source), output)
        extent_list = tuple(
            Extent(value, axis, count) for value, counts in self._extents.items() for axis, count in counts.items()
        )
        for output in results:
            if len(self._extents.get(output, ())) > 1:
                raise ModelError(
                    "the size of an output depends on data along more than one axis, which is not supported",
                    where=f"output '{output}'",
                    hint="cut the model before it, and do that part in the application",
                )
        graph = Graph(name, tuple(self._inputs), tuple(results), tuple(self.nodes), self._values, extent_list)
        graph = graph.replaced(list(graph.nodes))
        try:
            graph.validate()
        except ShapeError as error:
            raise ModelError("the model is not well formed", got=str(error)) from error
        return graph

    def _copy(self, tensor: Tensor, output: str) -> None:
        """Make `output` a value of its own that equals `tensor`."""
        node = Node(Unary("identity"), (tensor.name,), (output,), (output,))
        self.nodes.append(node)
        self._values[output] = Value(output, tensor.type)
        if tensor.name in self._extents:
            self._extents[output] = dict(self._extents[tensor.name])

    def _enter(self, tensor: Tensor) -> str:
        """The name of the tensor in the graph, where constants now are values."""
        if tensor.data is not None and tensor.name not in self._values:
            data = np.asarray(tensor.data, tensor.dtype.numpy, order="C").view()
            data.setflags(write=False)
            self._values[tensor.name] = Value(tensor.name, tensor.type, data)
        return tensor.name

    def _operand(self, tensor: Tensor | None) -> extents.Operand | None:
        if tensor is None:
            return None
        return extents.Operand(tensor.shape, self._extents.get(tensor.name, {}), tensor.data)
