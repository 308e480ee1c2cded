"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.ir.ops.base import Activation, Dependence, Op, Part
from packer.ir.ops.pointwise import activate, expect_activation
from packer.ir.ops.region import broadcast_box, pointwise
from packer.ir.ops.shape import broadcast, expect, expect_dtype, expect_same, operands, with_shape
from packer.ir.types import Box, DType, TensorType, whole

__all__ = ["MatMul"]


@dataclass(frozen=True, slots=True)
class MatMul(Op):
    """`y = activation(a @ b + bias)` with numpy matmul semantics (batch broadcasting, 1-D operands).

    Inputs: a, b, optional bias broadcastable to y. f32, or i32/i64/u32/u64 without activation.
    Gemm's transposes are Transpose nodes, its alpha and beta are multiplied into constants or are Binary nodes.
    https://onnx.ai/onnx/operators/onnx__MatMul.html
    """

    activation: Activation | None = None

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (a, b), (bias,) = operands(inputs, 2, 1)
        expect_dtype("a", a, DType.F32, DType.I32, DType.I64, DType.U32, DType.U64)
        expect_same("b", b, a)
        expect(a.rank > 0 and b.rank > 0, "matrices or vectors", f"{a} and {b}")
        inner = b.shape[max(0, b.rank - 2)]
        expect(a.shape[-1] == inner, f"as many columns in a as rows in b ({inner})", f"{a} and {b}")
        rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
        y = with_shape(a, (*broadcast(a.shape[:-2], b.shape[:-2]), *rows, *columns))
        if bias is not None:
            expect_same("bias", bias, a)
            expect(broadcast(y.shape, bias.shape) == y.shape, f"a bias that broadcasts to {y}", bias)
        expect_activation(self.activation, y)
        return (y,)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        (a, b), _ = operands(inputs, 2, 1)
        return pointwise(max(a.rank - 2, b.rank - 2, 0) + (a.rank > 1) + (b.rank > 1))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (a, b), (bias,) = operands(inputs, 2, 1)
        inner = (0, a.shape[-1])
        columns = box[len(box) - 1 :] if b.rank > 1 else ()
        batch = box[: len(box) - len(columns)]
        rows = batch[len(batch) - 1 :] if a.rank > 1 else ()
        batch = batch[: len(batch) - len(rows)]
        reads = (
            (*broadcast_box(batch, a.shape[:-2]), *rows, inner),
            (*broadcast_box(batch, b.shape[:-2]), inner, *columns),
            None if bias is None else broadcast_box(box, bias.shape),
        )
        return Part(self, reads[: len(inputs)], box)

    def terms(self, inputs: Sequence[TensorType | None]) -> int:
        (a, _), _ = operands(inputs, 2, 1)
        return a.shape[-1]

    def partial(self, begin: int, end: int, inputs: Sequence[TensorType | None]) -> Part:
        (a, b), (bias,) = operands(inputs, 2, 1)
        row = max(0, b.rank - 2)  # b's dimension of the terms
        reads = (
            (*whole(a)[:-1], (begin, end)),
            (*whole(b)[:row], (begin, end), *whole(b)[row + 1 :]),
            None if bias is None or begin > 0 else whole(bias),
        )
        return Part(replace(self, activation=None), reads[: len(inputs)], whole(self.infer(inputs)[0]))

    @np.errstate(all="ignore")
    def reference(self, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        y = np.asarray(np.matmul(a, b))
        y = y if bias is None else np.asarray(y + bias)
        return (activate(self.activation, y),)
