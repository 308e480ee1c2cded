"""Scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from packer.ir.ops.base import Dependence, Op, Part
from packer.ir.ops.region import broadcast_box, full_along
from packer.ir.ops.shape import broadcast, expect, expect_dtype, operands, with_shape
from packer.ir.types import Box, DType, TensorType

__all__ = ["Attention"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Attention(Op):
    """`y = softmax(scale * q @ k^T + mask) @ v`, along the keys, with numpy's batch broadcasting; f32.

    q: [..., rows, depth], k: [..., keys, depth], v: [..., keys, columns], all of one rank, and an optional mask that
    broadcasts to [..., rows, keys]; y: [..., rows, columns]. All but the mask are stored in any order of dimensions:
    q is seen as transpose(q, q_axes), and so on; transpose(y, y_axes) is the product.
    `zeroed`: weights that are no numbers, as those of a row whose mask leaves no key are, count as 0.
    Attention(Q, K, V) of Vaswani et al., 2017; https://onnx.ai/onnx/operators/onnx__Attention.html without its caches.
    """

    scale: float
    q_axes: tuple[int, ...]
    k_axes: tuple[int, ...]
    v_axes: tuple[int, ...]
    y_axes: tuple[int, ...]
    zeroed: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        (q, k, v), (mask,) = operands(inputs, 3, 1)
        for name, type, axes in zip("qkv", (q, k, v), (self.q_axes, self.k_axes, self.v_axes), strict=True):
            expect_dtype(name, type, DType.F32)
            expect(sorted(axes) == list(range(type.rank)), f"{name}_axes that order {type.rank} dimensions", axes)
        expect(len(q.shape) == len(k.shape) == len(v.shape) > 1, "matrices of one rank", f"{q}, {k} and {v}")
        rows, keys, values = _seen(q.shape, self.q_axes), _seen(k.shape, self.k_axes), _seen(v.shape, self.v_axes)
        expect(rows[-1] == keys[-1], "as many columns in q as in k", f"{rows} and {keys}")
        expect(keys[-2] == values[-2] > 0, "as many rows in k as in v, and some", f"{keys} and {values}")
        scores = (*broadcast(broadcast(rows[:-2], keys[:-2]), values[:-2]), rows[-2], keys[-2])
        if mask is not None:
            expect_dtype("mask", mask, DType.F32)
            expect(broadcast(scores, mask.shape) == scores, f"a mask that broadcasts to {scores}", mask)
        expect(sorted(self.y_axes) == list(range(q.rank)), f"y_axes that order {q.rank} dimensions", self.y_axes)
        return (with_shape(q, _stored((*scores[:-1], values[-1]), self.y_axes)),)

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        return full_along((self.y_axes[-1],), len(self.y_axes))

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        (q, k, v), (mask,) = operands(inputs, 3, 1)
        *batch, rows, _ = _seen(box, self.y_axes)
        reads: list[Box | None] = []
        for type, axes, own in ((q, self.q_axes, rows), (k, self.k_axes, None), (v, self.v_axes, None)):
            shape = _seen(type.shape, axes)
            row = (0, shape[-2]) if own is None else own
            reads.append(_stored((*broadcast_box(tuple(batch), shape[:-2]), row, (0, shape[-1])), axes))
        if mask is not None:
            keys = _seen(k.shape, self.k_axes)[-2]
            reads.append(broadcast_box((*batch, rows, (0, keys)), mask.shape))
        return Part(self, (*reads, None)[: len(inputs)], box)

    @np.errstate(all="ignore")
    def reference(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        keys = np.swapaxes(k.transpose(self.k_axes), -1, -2)
        scores = np.matmul(q.transpose(self.q_axes) * q.dtype.type(self.scale), keys)
        scores = scores if mask is None else scores + mask
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        weights = powers / powers.sum(-1, keepdims=True)
        if self.zeroed:
            weights[np.isnan(weights)] = 0
        y = np.matmul(weights, v.transpose(self.v_axes))
        return (np.ascontiguousarray(y.transpose(np.argsort(self.y_axes))),)


def _seen(stored: Sequence[_T], axes: Sequence[int]) -> tuple[_T, ...]:
    return tuple(stored[axis] for axis in axes)


def _stored(seen: Sequence[_T], axes: Sequence[int]) -> tuple[_T, ...]:
    return tuple(seen[axes.index(axis)] for axis in range(len(axes)))
