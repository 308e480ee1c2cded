"""Pointwise operators against their references in float64: kinds, types, broadcasting, layouts."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation, Binary, Cast, DequantizeLinear, QuantizeLinear, ScaleShift, Unary, Where
from packer.ir.ops.elementwise import BINARY_KINDS, UNARY_KINDS
from tests.targets.cuda.generic.check import check, code

RNG = np.random.default_rng(45)
CLASSES = {
    "f": [np.float32],
    "i": [np.int8, np.int16, np.int32, np.int64],
    "u": [np.uint8, np.uint16, np.uint32, np.uint64],
    "b": [np.bool_],
}
SHAPES = [
    ((2, 3, 5, 8), (2, 3, 5, 8)),
    ((2, 3, 5, 7), (1, 3, 1, 1)),
    ((1, 3, 4, 12), (2, 3, 4, 1)),
    ((4, 1, 6), (5, 1)),
    ((1000,), ()),
    ((), ()),
    ((1, 33, 2, 2), (33, 1, 1)),
    ((3, 1), (1, 300)),
]
MISSING = {("mod", "f"), ("fmod", "f"), ("pow", "i"), ("pow", "u"), ("shrink", "i"), ("shrink", "u")}


def values(dtype: type | np.dtype, shape: tuple[int, ...] = (700,)) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return RNG.uniform(-4, 4, shape).astype(np.float32)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    info = np.iinfo(dtype)
    some = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    few = RNG.integers(max(info.min, -5), 5, shape).astype(dtype)
    return np.where(RNG.random(shape) < 0.5, some, few)


def cases(kinds: dict[str, str]) -> list[tuple[str, str, type]]:
    return [(kind, letter, dtype) for kind, letters in kinds.items() for letter in letters for dtype in CLASSES[letter]]


@pytest.mark.parametrize(("kind", "letter", "dtype"), cases(UNARY_KINDS))
def test_unary(kind: str, letter: str, dtype: type) -> None:
    op = Unary(
        kind, *{"is_inf": (1.0, 0.0), "celu": (1.0, 0.0), "clip": (-1.0, 2.0), "shrink": (1.0, 0.0)}.get(kind, ())
    )
    x = values(dtype)
    if kind in ("asin", "acos", "atanh"):
        x = x / np.float32(4)
    if kind in ("is_nan", "is_inf"):
        x[::3], x[1::5], x[2::7] = np.nan, np.inf, -np.inf
    if (kind, letter) in MISSING:
        assert code(op, [x])[0] is None
    else:
        check(op, x, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize(("kind", "letter", "dtype"), cases(BINARY_KINDS))
def test_binary(kind: str, letter: str, dtype: type) -> None:
    x, y = values(dtype), values(dtype)
    if kind.startswith("shift"):
        y = y % np.array(70 if dtype is np.uint64 else 40, dtype)
    if kind in ("less_equal", "equal", "greater_equal"):
        x[::2] = y[::2]
    if (kind, letter) in MISSING:
        assert code(Binary(kind), [x, y])[0] is None
    else:
        check(Binary(kind), x, y, rtol=5e-7)


@pytest.mark.parametrize("halo", [False, True], ids=["dense", "halo"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_operands_broadcast(shapes: tuple[tuple[int, ...], tuple[int, ...]], halo: bool) -> None:
    x, y = (values(np.float32, shape) for shape in shapes)
    check(Binary("sub"), x, y, halo=halo, rtol=1e-7)
    check(Binary("sub", Activation("relu")), y, x, halo=halo, rtol=1e-7)
    check(Binary("less"), x, y, halo=halo)
    for constant in ((0,), (1,)):
        check(Binary("sub"), x, y, constant=constant, halo=halo, rtol=1e-7)
        check(Binary("sub"), x, y, constant=constant, halo=halo, half=True)
    condition = values(np.bool_, shapes[1])
    for dtype in (np.float32, np.int64, np.uint8):
        check(Where(), condition, values(dtype, shapes[0]), values(dtype, ()), constant=(2,), halo=halo)


def test_constants_of_one_element_are_immediates() -> None:
    x = values(np.float32, (2, 8))
    made, *_ = code(Binary("mul"), [x, np.full((1, 1), 3, np.float32)], constant=(1,))
    assert made is not None
    assert made.operands == (0,)
    assert "mov.f32" in made.kernels[0].ptx
    assert "ld.global.v4.f32" in made.kernels[0].ptx


@pytest.mark.parametrize("kind", ["min", "max"])
def test_the_least_and_the_largest_of_what_is_no_number_is_none(kind: str) -> None:
    x = np.array([np.nan, 1, np.nan, 2], np.float32)
    y = np.array([1, np.nan, np.nan, 3], np.float32)
    check(Binary(kind), x, y)


def test_powers() -> None:
    x = np.concatenate([RNG.uniform(0, 4, 500), 10.0 ** RNG.uniform(-37, 37, 1000), [2.0**-140] * 2]).astype(np.float32)
    y = (RNG.uniform(-86, 86, x.size) / np.maximum(1, np.abs(np.log(x)))).astype(np.float32)
    check(Binary("pow"), x, y, rtol=4e-7)
    edges = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -2.0, 0.5, 3.0], np.float32)
    powers = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -3.0, 0.5, -2.5, np.nan], np.float32)
    check(Binary("pow"), edges[:, None], powers, rtol=4e-7)
    for exponent in (2.0, 0.5, 3.0):
        check(Binary("pow"), np.abs(x[:500]), np.array(exponent, np.float32), constant=(1,), rtol=4e-7)


@pytest.mark.parametrize("source", [d for letter in "fiub" for d in CLASSES[letter]])
def test_casts(source: type) -> None:
    x = values(source)
    if source is np.float32:
        extra = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -300.7, 3e9, -3e9, 0.0, -0.0, 127.9, -128.9])
        x = np.concatenate([x * 40, extra]).astype(np.float32)
    for target in (d for letter in "fiub" for d in CLASSES[letter]):
        check(Cast(DType.of(target)), x, rtol=6e-8)


@pytest.mark.parametrize("halo", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 3, 8), (3, 6), (1, 4, 7)])
def test_scale_and_shift(shape: tuple[int, ...], halo: bool) -> None:
    x, scale, shift = values(np.float32, shape), values(np.float32, shape[1:2]), values(np.float32, shape[1:2])
    check(ScaleShift(), x, scale, shift, constant=(1, 2), halo=halo, rtol=1e-6, atol=1e-6)
    check(ScaleShift(Activation("sigmoid")), x, scale, shift, halo=halo, rtol=1e-5, atol=1e-6)
    check(
        ScaleShift(Activation("hard_swish", 1 / 6, 0.5)),
        x,
        scale,
        shift,
        constant=(1, 2),
        half=True,
        halo=halo,
        atol=2e-3,
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("each", [False, True])
def test_quantized(dtype: type, each: bool) -> None:
    shape = (5,) if each else ()
    x = (RNG.integers(-1000, 1000, (2, 5, 3, 4)) / 8).astype(np.float32)
    scale = (2.0 ** RNG.integers(-3, 2, shape)).astype(np.float32)  # exact, so that ties are
    zero = values(dtype, shape)
    (levels,) = check(QuantizeLinear(1), x, scale, zero, constant=(1, 2), halo=True)
    check(QuantizeLinear(1), x, scale, zero)
    check(DequantizeLinear(1), levels, scale, zero, constant=(1, 2), halo=True)
    check(DequantizeLinear(1), levels, scale, zero)
    check(DequantizeLinear(1), levels, scale)


def test_differences_that_32_bits_may_not_hold_are_left_to_the_processor() -> None:
    x, scale = values(np.int32), np.array(0.5, np.float32)
    check(DequantizeLinear(0), x, scale, rtol=6e-8)
    assert code(DequantizeLinear(0), [x, scale, np.array(0, np.int32)])[0] is None
