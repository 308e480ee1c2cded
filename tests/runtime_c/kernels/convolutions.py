"""Convolutions that tests of kernels run, with the reference's outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv, Op
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_step, random_array, run_step

ACTIVATIONS = (
    None,
    Activation("relu"),
    Activation("clip", -0.5, 0.7),
    Activation("leaky_relu", 0.1),
    Activation("hard_swish", 1 / 6, 0.5),
)
Operand = tuple[np.ndarray, Layout] | None


def choice(rng: np.random.Generator, *values: int) -> int:
    return int(rng.choice(values))


def exact(op: Op, *inputs: np.ndarray | None) -> np.ndarray:
    """The reference's output, computed in float64."""
    return op.reference(*(None if x is None else x.astype(np.float64) for x in inputs))[0]


def agree(
    kernel: str,
    op: Op,
    inputs: Sequence[Operand],
    want: np.ndarray,
    layout: Layout = Layout.PLANAR,
    inplace: int | None = None,
) -> None:
    """The kernel gives `want` of operands in their layouts."""
    inputs = list(inputs)
    while inputs[-1] is None:
        inputs.pop()
    arrays = [None if x is None else x[0] for x in inputs]
    layouts = [Layout.PLANAR if x is None else x[1] for x in inputs] + [layout]
    y = [TensorType(DType.of(arrays[0].dtype), want.shape)]
    check_step(kernel, arrays, [want], y, attributes_of(op), 2e-5, layouts=layouts, inplace=inplace)


@dataclass(frozen=True, slots=True)
class Case:
    """A convolution and its operands: x [N,C,spatial], w [K,C/group,kernel], bias [K], residual like the output."""

    op: Conv
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None = None
    residual: np.ndarray | None = None

    @property
    def want(self) -> np.ndarray:
        return exact(self.op, self.x, self.w, self.bias, self.residual)

    @property
    def output(self) -> TensorType:
        return self.op.infer([TensorType(DType.F32, self.x.shape), TensorType(DType.F32, self.w.shape)])[0]

    @property
    def grouped(self) -> tuple[np.ndarray, np.ndarray | None]:
        """w as [group,K/group,C/group,kernel] and bias as [group,K/group]."""
        groups = (self.op.group, self.w.shape[0] // self.op.group)
        return self.w.reshape(*groups, *self.w.shape[1:]), None if self.bias is None else self.bias.reshape(groups)


def random_case(rng: np.random.Generator, op: Conv, x: np.ndarray, w: np.ndarray) -> Case:
    """With a bias in most cases and a residual in some."""
    bias = random_array(rng, w.shape[:1], DType.F32) if rng.random() < 0.7 else None
    residual = random_array(rng, Case(op, x, w).output.shape, DType.F32) if rng.random() < 0.4 else None
    return Case(op, x, w, bias, residual)


def random_conv(rng: np.random.Generator, rank: int, group: int) -> tuple[Conv, tuple[int, ...], tuple[int, ...]]:
    """A convolution that has outputs, the spatial extents of its input, and its kernel."""
    kernel = tuple(choice(rng, 1, 1, 2, 3, 3, 5, 7) if rank < 3 else choice(rng, 1, 2, 3) for _ in range(rank))
    strides = tuple(choice(rng, 1, 1, 2, 3) for _ in range(rank))
    dilations = tuple(choice(rng, 1, 1, 2, 3) for _ in range(rank))
    pads = tuple(choice(rng, 0, 0, 1, 2, 3, 7) for _ in range(2 * rank))
    if rng.random() < 0.3:
        kernel, pads = (1,) * rank, (0,) * 2 * rank
    needed = [(k - 1) * d + 1 - b - e for k, d, b, e in zip(kernel, dilations, pads[:rank], pads[rank:], strict=True)]
    more = (0, 1, 3, 6, 13, 20) if rank < 3 else (0, 1, 4)
    spatial = tuple(max(n, 1) + choice(rng, *more) for n in needed)
    return Conv(strides, pads, dilations, group, ACTIVATIONS[rng.integers(len(ACTIVATIONS))]), spatial, kernel


def far_conv(rng: np.random.Generator, rank: int, group: int) -> tuple[Conv, tuple[int, ...], tuple[int, ...]]:
    """The same with taps so far apart that most outputs see padding with some."""
    kernel = tuple(choice(rng, 1, 2, 3, 3, 5, *((9,) if rank < 3 else ())) for _ in range(rank))
    spatial = tuple(choice(rng, 1, 4, 9, 16, 20) if rank < 3 else choice(rng, 1, 2, 5) for _ in range(rank))
    dilations = tuple(1 + int(rng.integers(n)) for n in spatial)
    reaches = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    begins = [int(rng.integers(reach + 1)) for reach in reaches]
    pads = (*begins, *(reach - begin for reach, begin in zip(reaches, begins, strict=True)))
    return Conv(tuple(choice(rng, 1, 1, 2) for _ in range(rank)), pads, dilations, group), spatial, kernel


def empty_cases() -> Iterator[Case]:
    """No images, no input channels, no filters, no rows."""
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    for n, c, k, h in ((0, 3, 4, 5), (1, 0, 4, 5), (1, 3, 0, 5), (1, 3, 4, 0)):
        kernel = (2, 2) if h == 0 else (3, 3)
        yield Case(op, np.ones((n, c, h, 5), np.float32), np.ones((k, c, *kernel), np.float32))


def weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random weights whose sums of products are of order one."""
    return (random_array(rng, shape, DType.F32) / np.sqrt(max(np.prod(shape[1:]), 1))).astype(np.float32)


def cases_in_parts(rng: np.random.Generator) -> Iterator[Case]:
    """Rows with so many inputs that they are cut."""
    x, w = random_array(rng, (1, 600, 1, 400), DType.F32), weights(rng, 16, 600, 1, 3)
    yield Case(Conv((1, 1), (0, 1, 0, 1), (1, 1)), x, w)
    yield Case(Conv((1, 2), (0, 3, 0, 0), (1, 2)), x, w)


def residual_cases(rng: np.random.Generator) -> Iterator[Case]:
    """One group and two, to be computed over their residuals."""
    for group, filters in ((1, 20), (2, 5)):
        op = Conv((1, 1), (1, 1, 1, 1), (1, 1), group, Activation("relu"))
        x, w = random_array(rng, (1, 8, 9, 9), DType.F32), weights(rng, group * filters, 8 // group, 3, 3)
        yield Case(op, x, w, None, random_array(rng, (1, group * filters, 9, 9), DType.F32))


PADDED = Conv((1, 1), (1, 1, 1, 1), (1, 1))


def expect_proven(kernel: str, *more: tuple[Conv, Mapping[str, object]]) -> None:
    """A convolution of packed weights takes one of these operands, and refuses changed ones, `more` among them."""
    planar, packed = Layout.PLANAR, Layout.WEIGHT16
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((1, 4, 3, 3, 3), np.float32)
    y = TensorType(DType.F32, (1, 4, 5, 5))

    def run(
        op: Conv, w: np.ndarray = w, y: TensorType = y, layouts: Sequence[Layout] = (planar, packed, planar)
    ) -> None:
        run_step(kernel, [x, w], [y], attributes_of(op), layouts)

    run(PADDED)
    for op, change in (
        (Conv((1, 1), (1, 1, 1, 0), (1, 1)), {}),
        (Conv((1, 1), (1, 1, 1, -1), (1, 1)), {}),
        (Conv((0, 1), (1, 1, 1, 1), (1, 1)), {}),
        (Conv((2, 1), (1, 1, 1, 1), (1, 1)), {}),
        (Conv((1, 1), (1, 1, 1, 1), (1, 9)), {}),
        (Conv((1, 1), (1, 1, 1, 1), (1, 1), 2), {}),
        (Conv((1,), (1, 1, 1, 1), (1, 1)), {}),
        (Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("is_nan")), {}),
        (PADDED, {"w": np.ones((1, 4, 2, 3, 3), np.float32)}),
        (PADDED, {"w": np.ones((1, 5, 3, 3, 3), np.float32)}),
        (PADDED, {"w": np.ones((1, 4, 3, 3), np.float32)}),
        (PADDED, {"y": TensorType(DType.F32, (1, 4, 5, 6))}),
        (PADDED, {"y": TensorType(DType.F32, (2, 4, 5, 5))}),
        (PADDED, {"y": TensorType(DType.I32, (1, 4, 5, 5))}),
        (PADDED, {"layouts": (planar, planar, planar)}),
        (PADDED, {"layouts": (planar, packed, Layout.DEPTH16)}),
        *more,
    ):
        with pytest.raises(Rejected):
            run(op, **change)  # type: ignore[arg-type]
