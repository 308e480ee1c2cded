"""Pointwise kernels and reorder on every instruction set against their references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import Activation, Binary, Cast, DequantizeLinear, QuantizeLinear, ScaleShift, Unary, Where
from packer.ir.ops.elementwise import BINARY_KINDS, UNARY_KINDS
from packer.ir.types import VALUE_TYPES, DType, TensorType
from targets.base import Attribute, Layout
from tests.runtime_c.kernels.harness import Rejected, check_op, check_step, isas, random_array, run_step

PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16
CLASSES = {
    "f": (DType.F32,),
    "i": (DType.I8, DType.I16, DType.I32, DType.I64),
    "u": (DType.U8, DType.U16, DType.U32, DType.U64),
    "b": (DType.BOOL,),
}
PARAMETERS = {"clip": (-0.5, 0.75), "hard_sigmoid": (0.2, 0.5), "hard_swish": (1 / 6, 0.5), "shrink": (0.5, 0.25)}
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 3e38, -3e38, 0.5, 1.5, 2.5, -0.5, -1.5,
                    8388607.5, 8388609, -8388607.5, 88.7, -87, 104, -104, 1, -1], np.float32)  # fmt: skip


def wide(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Values over the whole range of an integer type, its ends included."""
    if dtype is DType.F32:
        return rng.standard_normal(shape).astype(np.float32)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype.numpy)
    x = rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    pick = rng.integers(0, 8, shape)
    small = rng.integers(max(limits.min, -3), 4, shape).astype(dtype.numpy)
    ends = np.where(pick == 4, dtype.numpy.type(limits.min), dtype.numpy.type(limits.max))
    return np.where(pick < 4, small, np.where(pick < 6, ends, x)).astype(dtype.numpy)


@pytest.mark.parametrize("kind", UNARY_KINDS)
def test_unary_kinds_and_types(kind: str) -> None:
    rng = np.random.default_rng(1)
    for dtype in itertools.chain.from_iterable(CLASSES[c] for c in UNARY_KINDS[kind]):
        for shape in ((3, 5, 7), (), (0, 4), (1031,)):
            op = Unary(kind, *PARAMETERS.get(kind, (1.25, 0.75)))
            exact = dtype is not DType.F32 or kind in (
                "abs",
                "neg",
                "sign",
                "ceil",
                "floor",
                "round",
                "is_nan",
                "is_inf",
            )
            check_op(op, [wide(rng, dtype, shape)], "unary", 0.0 if exact else 4e-7)


@pytest.mark.parametrize("kind", [k for k in UNARY_KINDS if "f" in UNARY_KINDS[k]])
def test_unary_special_values(kind: str) -> None:
    op = Unary(kind, *PARAMETERS.get(kind, (1.25, 0.75)))
    want = op.reference(SPECIAL.astype(np.float64))[0].astype(DType.BOOL.numpy if "is_" in kind else np.float32)
    for isa in isas():
        types = op.infer([TensorType(DType.F32, SPECIAL.shape)])
        attributes = (
            Attribute("kind", text=kind),
            Attribute("alpha", floats=(op.alpha,)),
            Attribute("beta", floats=(op.beta,)),
        )
        (got,) = run_step("unary", [SPECIAL], types, attributes, isa=isa)
        with np.errstate(invalid="ignore"):
            close = np.isclose(got, want, rtol=2e-6, atol=1e-6, equal_nan=True)
        huge = np.abs(SPECIAL) > 1e6 if kind in ("sin", "cos", "tan") else np.zeros(SPECIAL.shape, bool)
        assert (close | huge).all(), (kind, isa, SPECIAL[~close], got[~close], want[~close])


@pytest.mark.parametrize(
    ("kind", "limit"),
    [("exp", 2), ("log", 2), ("tanh", 4), ("erf", 2), ("sigmoid", 4), ("softplus", 4), ("sin", 2), ("cos", 2)],
)
def test_transcendental_errors_in_ulps(kind: str, limit: float) -> None:
    rng = np.random.default_rng(2)
    anything = rng.integers(0, 2**32, 20000, np.uint64).astype(np.uint32).view(np.float32)
    usual = np.concatenate([rng.uniform(-100, 90, 20000), rng.standard_normal(20000)]).astype(np.float32)
    x = np.concatenate([anything[np.isfinite(anything)], usual])
    want = Unary(kind).reference(x.astype(np.float64))[0]
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    normal = np.isfinite(rounded) & (np.abs(rounded) > 1.2e-38)
    for isa in isas():
        (got,) = run_step("unary", [x], [TensorType(DType.F32, x.shape)], (Attribute("kind", text=kind),), isa=isa)
        assert (np.isnan(got) == np.isnan(want)).all()
        errors = np.abs(got - want)[normal] / np.spacing(np.abs(rounded[normal]))
        assert errors.max() <= limit, (isa, x[normal][errors.argmax()])


@pytest.mark.parametrize("kind", ["sin", "cos"])
def test_angles_near_zeros_and_past_what_vectors_take(kind: str) -> None:
    """Multiples of right angles, where almost nothing is left of the angle, and vectors with one large angle."""
    rng = np.random.default_rng(8)
    multiples = (rng.integers(-660000, 660000, 50000) * (np.pi / 2)).astype(np.float32)
    mixed = np.where(np.arange(8000) % 37, rng.uniform(-9, 9, 8000), 2.0 ** rng.uniform(19, 100, 8000)).astype(
        np.float32
    )
    x = np.concatenate([multiples, mixed])
    want = Unary(kind).reference(x.astype(np.float64))[0]
    for isa in isas():
        (got,) = run_step("unary", [x], [TensorType(DType.F32, x.shape)], (Attribute("kind", text=kind),), isa=isa)
        errors = np.abs(got - want) / np.spacing(np.abs(want.astype(np.float32)))
        assert errors.max() <= 2, (isa, x[errors.argmax()])


@pytest.mark.parametrize("what", ["any", "near one", "denormal", "negative"])
def test_errors_of_powers_in_ulps(what: str) -> None:
    rng = np.random.default_rng(9)
    n = 40000
    a, b = {
        "any": (np.exp2(rng.uniform(-126, 127, n)), rng.uniform(-3, 3, n)),
        "near one": (rng.uniform(0.5, 2, n), rng.uniform(-120, 120, n)),
        "denormal": (np.exp2(rng.uniform(-149, -120, n)), rng.uniform(-1.2, 1.2, n)),
        "negative": (-np.exp2(rng.uniform(-10, 10, n)), rng.integers(-20, 20, n)),
    }[what]
    a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(over="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64))
        rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    attributes = (Attribute("kind", text="pow"),)
    for isa in isas():
        (got,) = run_step("binary", [a, b], [TensorType(DType.F32, a.shape)], attributes, isa=isa)
        np.testing.assert_array_equal(got[~finite], rounded[~finite])
        errors = np.abs(got - want)[finite] / np.spacing(np.abs(rounded[finite]))
        assert errors.max() <= 1, (isa, a[finite][errors.argmax()], b[finite][errors.argmax()])


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh"])
def test_linear_units_err_by_their_rounding(kind: str) -> None:
    x = np.concatenate([np.linspace(-9, 9, 60001), np.geomspace(9, 1e38, 999), -np.geomspace(9, 1e38, 999)])
    x = x.astype(np.float32)
    want = Unary(kind).reference(x.astype(np.float64))[0]
    for isa in isas():
        (got,) = run_step("unary", [x], [TensorType(DType.F32, x.shape)], (Attribute("kind", text=kind),), isa=isa)
        errors = np.abs(got - want) / np.where(x < 0, 1e-7, np.maximum(x, 1e-7) * 2e-7)
        assert errors.max() <= 1, (isa, x[errors.argmax()])


def test_unary_blocks_in_place() -> None:
    rng = np.random.default_rng(3)
    for shape in ((1, 17, 3, 5), (2, 3, 1, 1)):
        check_op(Unary("sigmoid"), [random_array(rng, shape, DType.F32)], "unary", 1e-6, layouts=BLOCK16)
        x = random_array(rng, shape, DType.F32)
        (y,) = run_step("unary", [x], [TensorType(DType.F32, shape)], (Attribute("kind", text="relu"),), inplace=0)
        np.testing.assert_array_equal(y, np.maximum(x, 0))


BROADCASTS = (
    ((), ()), ((4, 5), (4, 5)), ((4, 5), ()), ((1,), (4, 5)), ((3, 7), (7,)), ((40, 16), (16,)), ((16,), (9, 16)),
    ((700, 3), (3,)), ((3,), (700, 3)), ((2, 5, 6, 7), (5, 1, 1)), ((5, 1, 1), (2, 5, 6, 7)), ((2, 1, 3), (4, 1)),
    ((0, 3), (3,)), ((1, 3), (0, 3)), ((2, 1, 3, 1, 5, 1, 2, 1), (1, 4, 1, 2, 1, 3, 1, 2)), ((6, 64), (6, 1)),
    ((33, 100), (100,)), ((2, 3, 70, 4), (2, 1, 70, 4)), ((5000,), (5000,)), ((2, 50, 16), (2, 1, 16)),
)  # fmt: skip


@pytest.mark.parametrize("kind", BINARY_KINDS)
def test_binary_kinds_and_types(kind: str) -> None:
    rng = np.random.default_rng(4)
    for dtype in itertools.chain.from_iterable(CLASSES[c] for c in BINARY_KINDS[kind]):
        for a, b in BROADCASTS if dtype in (DType.F32, DType.I32) else BROADCASTS[:8]:
            values = [wide(rng, dtype, a), wide(rng, dtype, b)]
            if kind == "pow" and dtype is DType.F32:
                values[0] = np.abs(values[0])
            rounded = dtype is DType.F32 and kind in ("div", "mod", "fmod", "pow")
            check_op(Binary(kind), values, "binary", 3e-7 if rounded else 0.0)


def test_binary_float_special_values() -> None:
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    for kind in ("min", "max", "prelu", "equal", "less_equal", "mod", "pow", "div"):
        op = Binary(kind)
        (want,) = op.reference(a, b)
        for isa in isas():
            attributes = (Attribute("kind", text=kind),)
            (got,) = run_step("binary", [a, b], op.infer([TensorType(DType.F32, a.shape)] * 2), attributes, isa=isa)
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=f"{kind} {isa}")


def test_binary_activation_and_blocks() -> None:
    rng = np.random.default_rng(5)
    for kind, activation in (("add", Activation("relu")), ("mul", Activation("sigmoid")), ("sub", None)):
        for shape in ((1, 17, 3, 5), (2, 32, 40, 9), (2, 3, 1, 1), (1, 20, 7)):
            x, y = random_array(rng, shape, DType.F32), random_array(rng, shape, DType.F32)
            channel = random_array(rng, (1, shape[1], *(1 for _ in shape[2:])), DType.F32)
            each = random_array(rng, (*shape[:2], *(1 for _ in shape[2:])), DType.F32)
            one = random_array(rng, (1,), DType.F32)
            op = Binary(kind, activation)
            for operands in ((x, y), (x, channel), (channel, x), (x, each), (each, x), (x, one), (one, x)):
                check_op(op, operands, "binary", 1e-6)
                layouts = [PLANAR if v.size == 1 else BLOCK16 for v in operands]
                check_op(op, operands, "binary", 1e-6, layouts=(*layouts, BLOCK16))


def test_binary_takes_over_either_operand() -> None:
    rng = np.random.default_rng(6)
    a, b = random_array(rng, (3, 50), DType.F32), random_array(rng, (3, 50), DType.F32)
    for i in (0, 1):
        (y,) = run_step("binary", [a, b], [TensorType(DType.F32, a.shape)], (Attribute("kind", text="sub"),), inplace=i)
        np.testing.assert_array_equal(y, a - b)


def test_where() -> None:
    rng = np.random.default_rng(7)
    for dtype in VALUE_TYPES:
        for c, a, b in (((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((), (2, 3), (3,)), ((5, 1, 2), (3, 1), (3, 2))):
            values = [random_array(rng, c, DType.BOOL), random_array(rng, a, dtype), random_array(rng, b, dtype)]
            check_op(Where(), values, "where")


@pytest.mark.parametrize("to", VALUE_TYPES)
def test_cast(to: DType) -> None:
    rng = np.random.default_rng(8)
    for dtype in VALUE_TYPES:
        check_op(Cast(to), [wide(rng, dtype, (3, 211))], "cast")
    edges = [s * (2.0**e + d) for s in (1, -1) for e in (7, 8, 15, 16, 31, 32, 63, 64) for d in (0, -1, 0.5)]
    check_op(Cast(to), [np.concatenate([SPECIAL, np.array(edges, np.float32)])], "cast")


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.U16, DType.I16])
def test_quantize_and_back(dtype: DType) -> None:
    rng = np.random.default_rng(9)
    for shape, axis in (((3, 5, 7), 1), ((300, 2), 1), ((4,), 0), ((0, 3), 1)):
        x = (random_array(rng, shape, DType.F32) * 300).astype(np.float32)
        x.reshape(-1)[: len(SPECIAL)] = SPECIAL[: x.size]
        for scale_shape, zero_shape in (((), ()), ((shape[axis],), ()), ((shape[axis],), (shape[axis],))):
            scale = np.asarray(rng.uniform(0.5, 3, scale_shape), np.float32)
            zero = np.asarray(rng.integers(0, 100, zero_shape), dtype.numpy)
            check_op(QuantizeLinear(axis), [x, scale, zero], "quantize_linear")
            q = wide(rng, dtype, shape)
            check_op(DequantizeLinear(axis), [q, scale, zero], "dequantize_linear")
            check_op(DequantizeLinear(axis), [q, scale], "dequantize_linear")


def test_dequantize_from_i32() -> None:
    x = np.array([2**31 - 1, -(2**31), 0, 5], np.int32)
    check_op(DequantizeLinear(0), [x, np.float32(0.5).reshape(()), np.int32(-7).reshape(())], "dequantize_linear")


def test_quantize_halves_to_even() -> None:
    x = np.arange(-20, 20, dtype=np.float32) / 2
    check_op(QuantizeLinear(0), [x, np.float32(1).reshape(()), np.int8(3).reshape(())], "quantize_linear")


def test_scale_shift() -> None:
    rng = np.random.default_rng(10)
    for shape in ((2, 17, 3, 5), (3, 33), (1, 16, 70, 70), (2, 0, 3), (1, 5, 1, 1)):
        values = [random_array(rng, shape, DType.F32), *(random_array(rng, shape[1:2], DType.F32) for _ in range(2))]
        for activation in (None, Activation("clip", -0.5, 0.5)):
            check_op(ScaleShift(activation), values, "scale_shift", 1e-6)
            check_op(ScaleShift(activation), values, "scale_shift", 1e-6, layouts=(BLOCK16, PLANAR, PLANAR, BLOCK16))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sum(count: int) -> None:
    """Inputs are added in their order, so the sum is known to the bit."""
    rng = np.random.default_rng(12)
    relu = (Attribute("activation", text="relu"), Attribute("activation_parameters", floats=(0.0, 0.0)))
    for shape in ((2, 17, 3, 5), (3, 33), (1, 16, 70, 70), (2, 0, 3), ()):
        parts = [random_array(rng, shape, DType.F32) for _ in range(count)]
        want = parts[0]
        for part in parts[1:]:
            want = want + part
        types = [TensorType(DType.F32, shape)]
        for layout in (PLANAR, BLOCK16) if shape else (PLANAR,):
            check_step("sum", parts, [want], types, layouts=layout)
            check_step("sum", parts, [np.maximum(want, 0)], types, relu, layouts=layout)
        (y,) = run_step("sum", parts, types, relu, inplace=0)
        np.testing.assert_array_equal(y, np.maximum(want, 0))


def test_reorder_there_and_back() -> None:
    rng = np.random.default_rng(11)
    for shape in ((1, 16, 4, 4), (2, 17, 3, 5), (3, 5, 1, 1), (1, 50, 9, 9), (2, 3), (1, 31, 130)):
        x = random_array(rng, shape, DType.F32)
        for layouts in ((PLANAR, BLOCK16), (BLOCK16, PLANAR)):
            for workers in (1, 3):
                (y,) = run_step(
                    "reorder", [x], [TensorType(DType.F32, shape)], layouts=layouts, workers=workers, piece=1
                )
                np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("kernel", "shapes", "dtypes", "attributes"),
    [
        ("unary", [(3,), (3,)], "ff", {"kind": "not"}),
        ("unary", [(3,), (4,)], "ff", {"kind": "relu"}),
        ("unary", [(3,), (3,)], "ff", {"kind": "is_nan"}),
        ("unary", [(3,), (3,)], "ff", {"kind": "nonsense"}),
        ("binary", [(3,), (4,), (4,)], "fff", {"kind": "add"}),
        ("binary", [(3,), (1,), (1,)], "fff", {"kind": "add"}),
        ("binary", [(1,), (1,), (3,)], "fff", {"kind": "add"}),
        ("binary", [(2, 3), (3,), (3,)], "fff", {"kind": "add"}),
        ("binary", [(3,), (3,), (3,)], "fff", {"kind": "less"}),
        ("binary", [(3,), (3,), (3,)], "fff", {"kind": "and"}),
        ("where", [(3,), (3,), (3,), (3,)], "ffff", {}),
        ("cast", [(3,), (3,)], "ff", {"to": 2}),
        ("cast", [(3,), (3,)], "ff", {"to": 99}),
        ("scale_shift", [(2, 3), (2,), (3,), (2, 3)], "ffff", {}),
        ("reorder", [(2, 3), (2, 3)], "ff", {}),
        ("sum", [(2, 3), (3,), (2, 3)], "fff", {}),
        ("sum", [(2, 3), (2, 3), (2, 3)], "uuu", {}),
        ("quantize_linear", [(2, 3), (2,), (), (2, 3)], "ffuu", {"axis": 1}),
        ("quantize_linear", [(2, 3), (2,), (), (2, 3)], "ffuu", {"axis": 5}),
        ("dequantize_linear", [(2, 3), (), (2, 3)], "fff", {"axis": 0}),
    ],
)
def test_prepare_rejects(
    kernel: str, shapes: list[tuple[int, ...]], dtypes: str, attributes: dict[str, int | str]
) -> None:
    types = [TensorType(DType.F32 if d == "f" else DType.U8, s) for d, s in zip(dtypes, shapes, strict=True)]
    inputs = [np.zeros(t.shape, t.dtype.numpy) for t in types[:-1]]
    table = [Attribute(k, text=v) if isinstance(v, str) else Attribute(k, ints=(v,)) for k, v in attributes.items()]
    with pytest.raises(Rejected):
        run_step(kernel, inputs, types[-1:], table)
