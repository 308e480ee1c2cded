"""pool and max_unpool on every instruction set against their references."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import MaxUnpool, Pool
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, isas, random_array, run_step


def check_both(op: Pool, x: np.ndarray, tolerance: float = 0.0) -> None:
    """The first output, in both layouts: the reference's, and the same bits."""
    check_op(op, [x], "pool", tolerance, outputs=1)
    check_op(op, [x], "pool", tolerance, outputs=1, layouts=Layout.BLOCK16)
    types = [op.infer([TensorType(DType.F32, x.shape)])[0]]
    for isa in isas():
        planar, blocked = (
            run_step("pool", [x], types, attributes_of(op), layouts, isa) for layouts in (Layout.PLANAR, Layout.BLOCK16)
        )
        assert planar[0].tobytes() == blocked[0].tobytes(), f"not the bits of blocks on {isa}: {op}, {x.shape}"


def random_pool(rng: np.random.Generator, kind: str, spatial: tuple[int, ...]) -> Pool:
    """Windows that fit the padded input, with any stride, dilation and padding."""
    kernel, pads, dilations = [], [], []
    for n in spatial:
        begin, end = rng.integers(0, 3, 2)
        k = int(rng.integers(1, min(5, n + begin + end) + 1))
        kernel.append(k)
        pads.append((int(begin), int(end)))
        dilations.append(int(rng.integers(1, (n + begin + end - 1) // max(k - 1, 1) + 1)) if k > 1 else 1)
    dilations = [min(d, 3) for d in dilations]
    strides = tuple(int(s) for s in rng.integers(1, 4, len(spatial)))
    flat = tuple(b for b, _ in pads) + tuple(e for _, e in pads)
    flags = [bool(b) for b in rng.integers(0, 2, 3)]
    return Pool(
        kind, tuple(kernel), strides, flat, tuple(dilations), flags[0], flags[1], int(rng.integers(1, 4)), flags[2]
    )


@pytest.mark.parametrize("kind", ["max", "average", "lp"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_random_windows(kind: str, rank: int) -> None:
    rng = np.random.default_rng(rank)
    for _ in range(25):
        spatial = tuple(int(n) for n in rng.integers(1, 24 if rank < 3 else 9, rank))
        x = random_array(rng, (int(rng.integers(1, 3)), int(rng.integers(1, 36)), *spatial), DType.F32)
        op = random_pool(rng, kind, spatial)
        tolerance = 0.0 if kind == "max" else 2e-6
        check_both(op, x, tolerance)


@pytest.mark.parametrize("dtype", [DType.F32, DType.I8, DType.U8])
def test_indices_of_maxima(dtype: DType) -> None:
    rng = np.random.default_rng(4)
    for rank in (1, 2, 3):
        for _ in range(10):
            spatial = tuple(int(n) for n in rng.integers(1, 9, rank))
            x = random_array(rng, (2, 3, *spatial), dtype)
            if dtype is DType.F32:
                x = np.round(x)  # ties
            op = random_pool(rng, "max", spatial)
            check_op(op, [x], "pool", outputs=2)
            check_op(op, [x], "pool", outputs=1)


def test_wide_rows_of_usual_networks() -> None:
    rng = np.random.default_rng(5)
    x = random_array(rng, (1, 18, 33, 130), DType.F32)
    for kind in ("max", "average"):
        for kernel, stride, pad in ((3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2), (2, 1, 0)):
            op = Pool(kind, (kernel,) * 2, (stride,) * 2, (pad,) * 4, (1, 1), ceil_mode=True)
            check_both(op, x, 0.0 if kind == "max" else 1e-6)


def test_windows_that_slide_in_registers() -> None:
    """Rows longer than a vector, padded at either end or both, of whole vectors or not; one channel and several."""
    rng = np.random.default_rng(8)
    for kind in ("max", "average"):
        for kernel, stride in ((3, 2), (2, 2), (3, 1)):
            for width, channels in ((17, 3), (32, 1), (33, 2), (50, 3)):
                for begin, end in ((0, 0), (1, 0), (0, 1), (1, 1)):
                    x = random_array(rng, (1, channels, 5, width), DType.F32)
                    op = Pool(kind, (kernel,) * 2, (stride,) * 2, (begin, begin, end, end), (1, 1), ceil_mode=True)
                    check_both(op, x, 0.0 if kind == "max" else 1e-6)
    x[0, 1, 2, 20] = np.nan
    check_op(Pool("max", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), [x], "pool", outputs=1)


def test_narrow_rows() -> None:
    """Up to 16 outputs of up to 31 columns: one row or two to a vector, one channel and several."""
    rng = np.random.default_rng(9)
    windows = (3, 1, 1), (2, 2, 0), (3, 2, 0), (3, 2, 1), (5, 1, 2), (5, 3, 0), (4, 3, 1), (13, 1, 6)
    for kind in ("max", "average"):
        for kernel, stride, pad in windows:
            for height, width in ((5, 5), (7, 7), (6, 8), (14, 14), (13, 16), (9, 27), (5, 31), (5, 32)):
                x = random_array(rng, (2, int(rng.integers(1, 4)), height, width), DType.F32)
                if min(x.shape[2:]) + 2 * pad >= kernel:
                    include = bool(rng.integers(2))
                    op = Pool(kind, (kernel,) * 2, (stride,) * 2, (pad,) * 4, (1, 1), True, include)
                    check_both(op, x, 0.0 if kind == "max" else 1e-6)
    x[0, 0, 2, 3], x[0, 0, 1, 1] = np.nan, np.inf
    check_op(Pool("max", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), [x], "pool", outputs=1)


def test_nan_infinity_and_windows_of_padding() -> None:
    x = np.full((1, 2, 4, 4), -np.inf, np.float32)
    x[0, 0, 1, 2] = np.nan
    x[0, 1, 0, 0] = np.inf
    op = Pool("max", (2, 2), (1, 1), (2, 2, 2, 2), (1, 1))
    with np.errstate(invalid="ignore"):
        check_op(op, [x], "pool", outputs=2)
        check_op(op, [x], "pool", outputs=1, layouts=Layout.BLOCK16)
        x = np.ones((1, 2, 4, 4), np.float32)
        for include in (False, True):
            op = Pool("average", (2, 2), (1, 1), (2, 2, 2, 2), (1, 1), count_include_pad=include)
            check_both(op, x)


def test_much_padding() -> None:
    rng = np.random.default_rng(6)
    x = random_array(rng, (1, 2, 3, 5), DType.F32)
    check_both(Pool("max", (2, 3000), (1, 7), (0, 2999, 0, 2999), (1, 1)), x)
    for kind in ("max", "average"):
        check_both(Pool(kind, (2, 2), (1, 7000), (0, 69999, 0, 69999), (1, 70000)), x, 1e-6)


def test_rows_longer_than_scratch() -> None:
    x = random_array(np.random.default_rng(7), (1, 1, 2, 70000), DType.F32)
    for kind in ("max", "average"):
        for stride, dilation in ((2, 1), (700, 32000)):
            check_op(Pool(kind, (2, 3), (1, stride), (1, 1, 1, 1), (1, dilation)), [x], "pool", 1e-6, outputs=1)


def test_extents_must_be_those_of_the_windows() -> None:
    op = Pool("max", (3,), (1,), (0, 0), (1,))
    x = np.zeros((1, 1, 6), np.float32)
    for n in (3, 5):
        with pytest.raises(Rejected, match="extent"):
            run_step("pool", [x], [TensorType(DType.F32, (1, 1, n))], attributes_of(op))
    with pytest.raises(Rejected):
        run_step("pool", [x], [TensorType(DType.F32, (1, 2, 4))], attributes_of(op))
    with pytest.raises(Rejected, match="element type"):
        run_step("pool", [x.astype(np.int32)], [TensorType(DType.I32, (1, 1, 4))], attributes_of(op))


def test_max_unpool() -> None:
    rng = np.random.default_rng(7)
    for dtype in (DType.F32, DType.I64, DType.U8, DType.I16):
        x = random_array(rng, (2, 3, 4, 4), dtype)
        indices = rng.integers(-10, 2 * 3 * 8 * 8 + 10, x.shape).astype(np.int64)
        _, first = np.unique(np.clip(indices, 0, 2 * 3 * 8 * 8 - 1)[::-1], return_index=True)
        assert first.size > 1
        check_op(MaxUnpool((2, 3, 9, 10), (2, 3, 8, 8)), [x, indices], "max_unpool")
    smaller = MaxUnpool((2, 3, 7, 10), (2, 3, 8, 8))
    with pytest.raises(Rejected):
        run_step("max_unpool", [x, indices], [TensorType(DType.I16, (2, 3, 7, 10))], attributes_of(smaller))
