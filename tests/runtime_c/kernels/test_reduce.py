"""reduce, arg_reduce, cum_sum, softmax and the normalisations on every instruction set against their references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import ArgReduce, CumSum, LpNormalize, Lrn, Normalize, Reduce, Softmax
from packer.ir.ops.reduce import REDUCE_KINDS
from packer.ir.types import VALUE_TYPES, DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, isas, random_array, run_step

PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16
INTEGERS = tuple(d for d in VALUE_TYPES if d not in (DType.F32, DType.BOOL))
SHAPES = ((3, 4, 5), (1, 1, 1), (2, 1, 7), (17, 1, 33), (), (1000,), (2, 0, 3), (4, 0), (2, 3, 2, 3, 2))


def axis_sets(rank: int) -> list[tuple[int, ...]]:
    return [c for n in range(rank + 1) for c in itertools.combinations(range(rank), n)]


@pytest.mark.parametrize("kind", REDUCE_KINDS)
def test_reduce_floats(kind: str) -> None:
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        for axes in axis_sets(len(shape)):
            x = random_array(rng, shape, DType.F32)
            x = np.abs(x) if kind == "log_sum" else x
            with np.errstate(divide="ignore", invalid="ignore"):
                check_op(Reduce(kind, axes, keepdims=bool(rng.integers(2))), [x], "reduce", 2e-6)


@pytest.mark.parametrize("kind", [k for k in REDUCE_KINDS if not k.startswith("log")])
def test_reduce_integers(kind: str) -> None:
    rng = np.random.default_rng(2)
    for dtype in (*INTEGERS, *((DType.BOOL,) if kind in ("max", "min") else ())):
        for shape in ((3, 4, 5), (2, 0, 3), (40,)):
            for axes in axis_sets(len(shape)):
                check_op(Reduce(kind, axes), [random_array(rng, shape, dtype)], "reduce")


def test_reduce_large() -> None:
    rng = np.random.default_rng(3)
    for shape in ((3, 70000), (70000, 3), (300, 40, 20), (5, 300, 300)):
        x = (random_array(rng, shape, DType.F32) + 10).astype(np.float32)
        for axes in axis_sets(len(shape))[1:]:
            for kind in ("sum", "mean", "max", "l2"):
                check_op(Reduce(kind, axes), [x], "reduce", 6e-7)


def test_reduce_propagates_nan() -> None:
    for n, where in itertools.product((1, 5, 16, 100), (0, -1)):
        x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
        x[1, where] = np.nan
        for kind, axes in itertools.product(("max", "min", "sum"), ((0,), (1,), (0, 1))):
            check_op(Reduce(kind, axes), [x], "reduce")


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_reduce_blocks(kind: str) -> None:
    rng = np.random.default_rng(4)
    for shape in ((1, 16, 7, 7), (2, 17, 3, 5), (3, 5, 1, 1), (1, 50, 200), (2, 3, 2, 3, 4), (1, 16, 1)):
        x = random_array(rng, shape, DType.F32)
        op = Reduce(kind, tuple(range(2, len(shape))))
        check_op(op, [x], "reduce", 1e-6, layouts=BLOCK16)
        check_op(op, [x], "reduce", 1e-6, layouts=(BLOCK16, PLANAR))
    x, y = np.zeros((1, 16, 2, 2), np.float32), TensorType(DType.F32, (1, 16, 2, 1))
    with pytest.raises(Rejected):
        run_step("reduce", [x], [y], attributes_of(Reduce(kind, (3,))), layouts=BLOCK16)


def test_arg_reduce() -> None:
    rng = np.random.default_rng(5)
    for dtype in (DType.F32, *INTEGERS):
        for shape in ((7,), (3, 40, 5), (2, 3, 300), (1, 1)):
            x = np.round(random_array(rng, shape, dtype)).astype(dtype.numpy)  # ties
            for axis, kind, last in itertools.product(range(len(shape)), ("max", "min"), (False, True)):
                check_op(ArgReduce(kind, axis, bool(rng.integers(2)), last), [x], "arg_reduce")
    x = np.array([[1, np.nan, 3, np.nan], [4, 5, 5, 1], [-np.inf] * 4, [np.inf] * 4], np.float32)
    many = random_array(rng, (70, 200), DType.F32)
    many[::3, 130:] = np.nan
    for kind, last in itertools.product(("max", "min"), (False, True)):
        check_op(ArgReduce(kind, 1, True, last), [x], "arg_reduce")
        check_op(ArgReduce(kind, 1, True, last), [many], "arg_reduce")


def test_cum_sum() -> None:
    rng = np.random.default_rng(6)
    for dtype in (DType.F32, *INTEGERS):
        for shape in ((7,), (3, 40, 5), (2, 3, 300), (1, 1), (2, 0)):
            x = random_array(rng, shape, dtype)
            for axis, exclusive, reverse in itertools.product(range(len(shape)), (False, True), (False, True)):
                check_op(CumSum(axis, exclusive, reverse), [x], "cum_sum", 1e-6 if dtype is DType.F32 else 0.0)


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "hardmax"])
def test_softmax(kind: str) -> None:
    rng = np.random.default_rng(7)
    for shape in (
        (1, 10),
        (3, 1000),
        (2, 21, 5, 7),
        (2, 5, 300),
        (1, 1),
        (4, 2, 64),
        (0, 3),
        (1, 3, 80),
        (150, 9),
        (2, 70, 33),
    ):
        for begin, end in itertools.combinations(range(len(shape) + 1), 2):
            x = (random_array(rng, shape, DType.F32) * 30).astype(np.float32)
            check_op(Softmax(kind, tuple(range(begin, end))), [x], "softmax", 0.0 if kind == "hardmax" else 2e-6)
    x = random_array(rng, (3, 9, 4), DType.F32)
    for isa, axes in itertools.product(isas(), ((1,), (2,))):
        op = Softmax(kind, axes)
        (y,) = run_step("softmax", [x], [TensorType(DType.F32, x.shape)], attributes_of(op), isa=isa)
        (z,) = run_step("softmax", [x], [TensorType(DType.F32, x.shape)], attributes_of(op), isa=isa, inplace=0)
        np.testing.assert_array_equal(y, z)


def test_softmax_of_extremes() -> None:
    low = -np.inf
    x = np.array([[3e38, -3e38, 0, 1], [low, 0, 0, 0], [88, 89, 1000, -1000], [low, -200, -300, low]], np.float32)
    for kind in ("softmax", "log_softmax"):
        check_op(Softmax(kind, (1,)), [x], "softmax", 1e-6)
        check_op(Softmax(kind, (1,)), [np.repeat(x[:, :, None], 20, 2)], "softmax", 1e-6)


@pytest.mark.parametrize("rms", [False, True])
def test_normalize(rms: bool) -> None:
    rng = np.random.default_rng(8)
    for shape in ((3, 4, 5), (2, 6, 40), (2, 3, 70, 70), (5, 1), (1, 300), (2, 0, 3)):
        x = (random_array(rng, shape, DType.F32) + 3).astype(np.float32)
        for axes in axis_sets(len(shape)):
            with np.errstate(invalid="ignore"):
                check_op(Normalize(axes, 1e-3, rms), [x], "normalize", 3e-6)
    for offset, spread, n in ((1000, 1, 1000), (3, 1e-3, 64), (100, 1, 5000)):  # far from zero: costs no digits
        x = (random_array(rng, (5, n), DType.F32) * spread + offset).astype(np.float32)
        check_op(Normalize((1,), 1e-12, rms), [x], "normalize", 3e-6)


@pytest.mark.parametrize("rms", [False, True])
def test_normalize_with_scale_and_shift(rms: bool) -> None:
    rng = np.random.default_rng(18)
    for shape in ((7, 40), (2, 5, 3, 16), (3, 5000), (11, 1), (0, 4)):
        x, scale, shift = (random_array(rng, s, DType.F32) for s in (shape, shape[-1:], shape[-1:]))
        for inputs in ([x, scale], [x, None, shift], [x, scale, shift]):
            check_op(Normalize((len(shape) - 1,), 1e-3, rms), inputs, "normalize", 1e-5)


def test_lp_normalize() -> None:
    rng = np.random.default_rng(9)
    for shape in ((3, 4, 5), (2, 300), (2, 3, 300), (2, 0)):
        for axis, p in itertools.product(range(len(shape)), (1, 2)):
            x = random_array(rng, shape, DType.F32)
            x[..., :1] = 0
            check_op(LpNormalize(axis, p), [x], "lp_normalize", 1e-6)


def test_lrn() -> None:
    rng = np.random.default_rng(10)
    for shape in ((1, 5, 3, 3), (2, 17, 5, 7), (1, 96, 4, 70), (1, 3), (1, 16, 1, 1)):
        for size, beta, bias in ((5, 0.75, 1.0), (1, 0.5, 2.0), (4, 1.3, 0.5), (1000, 0.75, 1.0)):
            x = (random_array(rng, shape, DType.F32) * 5).astype(np.float32)
            op, y = Lrn(size, 0.1, beta, bias), [TensorType(DType.F32, shape)]
            check_op(op, [x], "lrn", 2e-6)
            check_op(op, [x], "lrn", 2e-6, layouts=BLOCK16)
            for isa in isas():
                planar, blocks = (
                    run_step("lrn", [x], y, attributes_of(op), layouts, isa) for layouts in (PLANAR, BLOCK16)
                )
                assert planar[0].tobytes() == blocks[0].tobytes(), f"not the bits of blocks on {isa}: {op}, {shape}"


def test_lrn_is_exact_to_a_few_units() -> None:
    """With the usual beta, over all magnitudes of sums, against float64: four units in the last place are 5e-7."""
    rng = np.random.default_rng(12)
    x = (rng.standard_normal((1, 8, 1, 4096)) * 10.0 ** rng.uniform(-20, 17, 4096)).astype(np.float32)
    for alpha, bias in ((1e-4, 1.0), (5.0, 2.0), (1.0, 1e-30)):
        squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), (2, 2), (0, 0), (0, 0)))
        sums = sum(squares[:, i : i + 8] for i in range(5))
        want = x * (bias + np.float64(np.float32(alpha) / np.float32(5)) * sums) ** -0.75
        for isa in isas():
            attributes = attributes_of(Lrn(5, alpha, 0.75, bias))
            (got,) = run_step("lrn", [x], [TensorType(DType.F32, x.shape)], attributes, isa=isa)
            normal = np.abs(want) > 1e-37
            error = np.abs(got - want)[normal] / np.abs(want)[normal]
            assert error.max() < 5e-7, f"{error.max()} on {isa} with alpha {alpha}, bias {bias}"


def test_lrn_between_neighbours() -> None:
    x = random_array(np.random.default_rng(11), (2, 70, 3, 5), DType.F32)
    for halo in ((0, 0), (2, 0), (0, 3), (1, 60), (35, 35)):
        check_op(Lrn(5, 0.1, 0.75, 1.0, halo), [x], "lrn", 2e-6)
    for halo in ((16, 0), (0, 3), (32, 20)):
        check_op(Lrn(5, 0.1, 0.75, 1.0, halo), [x], "lrn", 2e-6, layouts=BLOCK16)
    for halo, layout in (((2, 0), BLOCK16), ((70, 70), PLANAR), ((-1, 1), PLANAR)):
        y = TensorType(DType.F32, (2, max(0, 70 - sum(halo)), 3, 5))
        with pytest.raises(Rejected):
            run_step("lrn", [x], [y], attributes_of(Lrn(5, 0.1, 0.75, 1.0, halo)), layouts=layout)


@pytest.mark.parametrize(
    ("kernel", "shape", "attributes"),
    [
        ("reduce", (2, 3), {"kind": "sum", "axes": (1, 0)}),
        ("reduce", (2, 3), {"kind": "sum", "axes": (2,)}),
        ("reduce", (2, 3), {"kind": "sum", "axes": (0, 0)}),
        ("reduce", (2, 3), {"kind": "sum"}),
        ("softmax", (2, 3, 4), {"kind": "softmax", "axes": (0, 2)}),
        ("softmax", (2, 3, 4), {"kind": "softmax", "axes": (-1,)}),
        ("arg_reduce", (2, 3), {"kind": "max", "axis": (2,)}),
        ("cum_sum", (2, 3), {"axis": (-1,)}),
        ("lp_normalize", (2, 3), {"axis": (0,), "p": (3,)}),
        ("lrn", (2, 3), {"size": (0,)}),
        ("lrn", (2,), {"size": (3,)}),
        ("normalize", (2, 3), {"axes": (5,)}),
    ],
)
def test_prepare_rejects(kernel: str, shape: tuple[int, ...], attributes: dict[str, str | tuple[int, ...]]) -> None:
    table = [Attribute(k, text=v) if isinstance(v, str) else Attribute(k, ints=v) for k, v in attributes.items()]
    dtype = DType.I64 if kernel == "arg_reduce" else DType.F32
    with pytest.raises(Rejected):
        run_step(kernel, [np.zeros(shape, np.float32)], [TensorType(dtype, shape)], table)
