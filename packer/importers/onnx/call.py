"""What a handler sees: one ONNX node with its attributes and operands, and the means to emit IR operators for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from packer.errors import ModelError
from packer.importers.onnx.builder import Tensor
from packer.ir import DType
from packer.ir.ops import Binary, Cast, Concat, Expand, Op, Reduce, Reshape, Slice, Transpose, Unary

if TYPE_CHECKING:
    from packer.importers.onnx.walk import Scope, Walker

__all__ = ["Call", "Unsupported"]


class Unsupported(Exception):
    """The node cannot be packed; the message says which of its features is the reason."""


class Call:
    """One node being imported. Absent optional operands and outputs are None and ''."""

    def __init__(
        self, walker: Walker, scope: Scope, node: onnx.NodeProto, name: str, inputs: Sequence[Tensor | None]
    ) -> None:
        self.walker = walker
        self.scope = scope
        self.node = node
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(node.output)
        self.domain = "" if node.domain == "ai.onnx" else node.domain
        self.version = scope.opsets.get(self.domain, 1)
        self.attributes = {a.name: a for a in scope.attributes_of(node)}

    # Errors

    def error(self, what: str, **details: Any) -> ModelError:
        """A ModelError that names this node."""
        return ModelError(what, where=f"{self.node.op_type} node '{self.name}'", **details)

    # Attributes

    def number(self, name: str, default: float | None = None) -> float:
        """A float attribute; without a default it must be there."""
        found = self._attribute(name, onnx.AttributeProto.FLOAT)
        return float(self._given(name, default) if found is None else found.f)

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; without a default it must be there."""
        found = self._attribute(name, onnx.AttributeProto.INT)
        return int(self._given(name, default) if found is None else found.i)

    def text(self, name: str, default: str | None = None) -> str:
        """A string attribute; without a default it must be there."""
        found = self._attribute(name, onnx.AttributeProto.STRING)
        return str(self._given(name, default) if found is None else found.s.decode("utf-8", "replace"))

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None when it is absent."""
        found = self._attribute(name, onnx.AttributeProto.INTS)
        return None if found is None else tuple(map(int, found.ints))

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of floats, or None when it is absent."""
        found = self._attribute(name, onnx.AttributeProto.FLOATS)
        return None if found is None else tuple(map(float, found.floats))

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, or None when it is absent."""
        found = self._attribute(name, onnx.AttributeProto.STRINGS)
        return None if found is None else tuple(text.decode("utf-8", "replace") for text in found.strings)

    def graph(self, name: str) -> onnx.GraphProto:
        """A subgraph, which must be there."""
        found = self._attribute(name, onnx.AttributeProto.GRAPH)
        return self._given(name, None) if found is None else found.g

    def _given(self, name: str, default: Any) -> Any:
        if default is None:
            raise self.error(f"attribute '{name}' is missing")
        return default

    def _attribute(self, name: str, kind: int) -> onnx.AttributeProto | None:
        found = self.attributes.get(name)
        if found is not None and found.type != kind:
            names = onnx.AttributeProto.AttributeType
            raise self.error(
                f"attribute '{name}' has another type", expected=names.Name(kind), got=names.Name(found.type)
            )
        return found

    # Operands

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def optional(self, index: int) -> Tensor | None:
        """Operand `index`, or None."""
        return self.inputs[index] if index < len(self.inputs) else None

    def tensor(self, index: int) -> Tensor:
        """Operand `index`, which must be given."""
        found = self.optional(index)
        if found is None:
            raise self.error(f"input {index} is missing")
        return found

    def wants(self, output: int) -> bool:
        """Whether anybody may read output `output`."""
        return output < len(self.outputs) and self.outputs[output] != ""

    def constant(self, index: int, role: str) -> np.ndarray:
        """The values of operand `index`, which must be known at pack time; `role` says what it is."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            return tensor.data
        sources = self.walker.builder.ancestors(tensor)
        types = [self.walker.builder.type_of(name) for name in sources]
        parameters = all(not type.dtype.is_float or type.elements == 1 for type in types)
        direct = sources[0] if sources and (parameters or sources == [tensor.name]) else None
        hint = "its shape depends on data; give static input shapes (--shape NAME=...) or simplify the model"
        if direct is not None:
            hint = f"pin it: --pin {direct}=FILE.npy, or give static input shapes (--shape NAME=...)"
        raise self.error(
            f"{role} is not known at pack time",
            expected="a constant",
            got=f"input '{self.node.input[index]}', computed at run time",
            hint=hint,
            input_name=direct,
        )

    def ints(self, index: int, role: str) -> tuple[int, ...]:
        """Operand `index` as integers known at pack time (a scalar counts as one)."""
        return tuple(int(value) for value in self.constant(index, role).reshape(-1))

    def scalar(self, index: int, role: str) -> Any:
        """Operand `index` as one Python number known at pack time."""
        values = self.constant(index, role).reshape(-1)
        if values.size != 1:
            raise self.error(f"{role} is no scalar", expected="one value", got=f"{values.size} values")
        return values[0].item()

    def ints_either(self, attribute: str, index: int) -> tuple[int, ...] | None:
        """Integers from an attribute (older opsets) or operand `index` (newer ones); None when neither is there."""
        if self.has(index):
            return self.ints(index, f"'{attribute}'")
        return self.integers(attribute)

    def axis(self, value: int, rank: int) -> int:
        """A dimension counted from the front; raises ModelError outside [-rank, rank)."""
        if not -rank <= value < max(rank, 1):
            raise self.error("axis out of range", expected=f"{-rank} to {rank - 1}", got=str(value))
        return value % rank if rank else 0

    def axes(self, values: Sequence[int], rank: int) -> tuple[int, ...]:
        """Distinct dimensions counted from the front, in the order given."""
        found = tuple(self.axis(value, rank) for value in values)
        if len(set(found)) != len(found):
            raise self.error("an axis is named twice", got=str(tuple(values)))
        return found

    # Emission

    def emit(self, op: Op, *inputs: Tensor | None) -> Tensor:
        """The first result of `op`."""
        return self.emit_many(op, *inputs, outputs=1)[0]

    def emit_many(self, op: Op, *inputs: Tensor | None, outputs: int) -> tuple[Tensor, ...]:
        """The first `outputs` results of `op`."""
        return self.walker.builder.emit(op, inputs, outputs, f"{self.name}.{type(op).__name__.lower()}", self.name)

    def literal(self, values: np.ndarray) -> Tensor:
        """A constant."""
        return self.walker.builder.literal(self.walker.builder.unique(f"{self.name}.constant"), np.asarray(values))

    def like(self, value: float, tensor: Tensor) -> Tensor:
        """A constant scalar in the tensor's element type."""
        return self.literal(np.array(value, tensor.dtype.numpy))

    def unary(self, kind: str, x: Tensor, alpha: float = 0.0, beta: float = 0.0) -> Tensor:
        return self.emit(Unary(kind, alpha, beta), x)

    def binary(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        return self.emit(Binary(kind), a, b)

    def scale(self, x: Tensor, factor: float) -> Tensor:
        """`x * factor`, exact for constants; x itself for a factor of one."""
        if factor == 1.0:
            return x
        if not x.dtype.is_float and not float(factor).is_integer():
            raise Unsupported(f"integers times {factor}")
        return self.binary("mul", x, self.like(factor, x))

    def reduce(self, kind: str, x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
        return self.emit(Reduce(kind, tuple(sorted(axes)), keepdims), x)

    def cast(self, x: Tensor, to: DType) -> Tensor:
        return x if x.dtype is to else self.emit(Cast(to), x)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x if x.shape == tuple(shape) else self.emit(Reshape(tuple(shape)), x)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        return x if list(perm) == list(range(x.rank)) else self.emit(Transpose(tuple(perm)), x)

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x if x.shape == tuple(shape) else self.emit(Expand(tuple(shape)), x)

    def slice(self, x: Tensor, axis: int, start: int, size: int) -> Tensor:
        """`size` neighbours along one axis."""
        starts = tuple(start if a == axis else 0 for a in range(x.rank))
        sizes = tuple(size if a == axis else n for a, n in enumerate(x.shape))
        return x if sizes == x.shape else self.emit(Slice(starts, (1,) * x.rank, sizes), x)

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        return parts[0] if len(parts) == 1 else self.emit(Concat(axis), *parts)

    def limit(self, tensor: Tensor, axis: int, count: Tensor) -> None:
        """Only the first `count` entries of `tensor` along `axis` are meaningful."""
        self.walker.builder.limit(tensor, axis, count)

    def static_shape(self, x: Tensor) -> tuple[int, ...]:
        """The shape as a value that the model computes with; raises ModelError when it depends on data."""
        if self.walker.builder.partial_axes(x):
            raise self.error(
                "a size depends on data", hint="cut the model before this node, and do that part in the application"
            )
        return x.shape
