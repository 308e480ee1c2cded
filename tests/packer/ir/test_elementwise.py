"""Pointwise operators against ONNX's reference."""

import math

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import (
    Activation,
    Binary,
    Cast,
    DequantizeLinear,
    QuantizeLinear,
    ScaleShift,
    Unary,
    Where,
)
from packer.ir.ops.elementwise import BINARY_KINDS, UNARY_KINDS
from packer.ir.ops.erf import erf, erfc
from packer.ir.ops.pointwise import ACTIVATION_KINDS, BINARY, UNARY
from packer.ir.types import VALUE_TYPES
from tests.packer.ir.oracle import check, onnx_run, run

TYPES = {
    "f": [np.float32],
    "i": [np.int8, np.int16, np.int32, np.int64],
    "u": [np.uint8, np.uint16, np.uint32, np.uint64],
    "b": [np.bool_],
}
SHAPES = [(), (0, 3), (1,), (3, 5, 2)]

# kind -> (ONNX operator, its attributes, alpha, beta)
UNARY_ONNX: dict[str, tuple[str, dict[str, object], float, float]] = {
    "identity": ("Identity", {}, 0, 0),
    "not": ("Not", {}, 0, 0),
    "bitwise_not": ("BitwiseNot", {}, 0, 0),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.3}, 0.3, 0),
    "elu": ("Elu", {"alpha": 1.7}, 1.7, 0),
    "selu": ("Selu", {"alpha": 1.5, "gamma": 1.25}, 1.5, 1.25),
    "celu": ("Celu", {"alpha": 0.75}, 0.75, 0),
    "thresholded_relu": ("ThresholdedRelu", {"alpha": 0.5}, 0.5, 0),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}, 0.3, 0.4),
    "hard_swish": ("HardSwish", {}, 1 / 6, 0.5),
    "gelu": ("Gelu", {}, 0, 0),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}, 0, 0),
    "shrink": ("Shrink", {"lambd": 1.5, "bias": 0.5}, 1.5, 0.5),
    "is_nan": ("IsNaN", {}, 0, 0),
    "is_inf": ("IsInf", {"detect_negative": 1, "detect_positive": 0}, 1, 0),
    "silu": ("Swish", {"alpha": 1.5}, 1.5, 0),
}
BINARY_ONNX = {
    "mod": ("Mod", {}), "fmod": ("Mod", {"fmod": 1}), "prelu": ("PRelu", {}),
    "less_equal": ("LessOrEqual", {}), "greater_equal": ("GreaterOrEqual", {}),
    "bitwise_and": ("BitwiseAnd", {}), "bitwise_or": ("BitwiseOr", {}), "bitwise_xor": ("BitwiseXor", {}),
    "shift_left": ("BitShift", {"direction": "LEFT"}), "shift_right": ("BitShift", {"direction": "RIGHT"}),
}  # fmt: skip


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.asarray(rng.normal(0, 2, shape), np.float32)
    if kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(0 if kind == "u" else -9, 10, shape), dtype)


def test_every_kind_has_a_function() -> None:
    assert set(UNARY) == set(UNARY_KINDS)
    assert set(BINARY) == set(BINARY_KINDS)


@pytest.mark.parametrize("kind", UNARY_KINDS)
def test_unary(kind: str) -> None:
    rng = np.random.default_rng(1)
    name, attributes, alpha, beta = UNARY_ONNX.get(kind, (kind.capitalize(), {}, 0.0, 0.0))
    for dtype in [t for letter in UNARY_KINDS[kind] for t in TYPES[letter]]:
        for shape in SHAPES:
            x = sample(rng, shape, dtype)
            if dtype is np.float32 and x.size > 2:
                x.reshape(-1)[:3] = [np.nan, np.inf, -np.inf]
            if kind == "clip":
                expected = onnx_run("Clip", [x, np.float32(-1.0), np.float32(0.5)])
                alpha, beta = -1.0, 0.5
            elif kind == "shrink" and np.dtype(dtype).kind == "u":
                expected = [np.where(x > 1.5, x - 0.5, 0).astype(dtype)]  # ONNX's reference negates an unsigned bound
            else:
                with np.errstate(all="ignore"):
                    # of rank 1 at least: some of ONNX's references fail on scalars
                    (y,) = onnx_run(name, [np.atleast_1d(x)], opset=24 if kind == "silu" else 22, **attributes)
                expected = [y.reshape(x.shape)]
            check(Unary(kind, alpha, beta), [x], expected)


def test_extreme_arguments_stay_finite() -> None:
    x = np.array([-1e4, -100.0, 100.0, 1e4])
    for kind, left, right in (("sigmoid", 0, 1), ("softplus", 0, None), ("mish", 0, None), ("silu", 0, None)):
        (y,) = Unary(kind, 1.0).reference(x)
        np.testing.assert_allclose(y[:2], left, atol=1e-30)
        np.testing.assert_allclose(y[2:], x[2:] if right is None else right)
    (y,) = Unary("gelu").reference(np.array([-8.0]))
    np.testing.assert_allclose(y, -8 * 0.5 * math.erfc(8 / math.sqrt(2)), rtol=1e-12)


def test_erf_to_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-30, 30, 20001), np.linspace(-1, 1, 20001), [1e-300, -0.0]])
    np.testing.assert_allclose(erf(x), [math.erf(v) for v in x], rtol=5e-16, atol=0)
    exact = np.array([math.erfc(v) for v in x])
    normal = exact > 1e-300
    np.testing.assert_allclose(erfc(x)[normal], exact[normal], rtol=2e-15)
    np.testing.assert_array_equal(erf(np.array([np.inf, -np.inf, np.nan])), [1, -1, np.nan])
    np.testing.assert_array_equal(erfc(np.array([np.inf, -np.inf, np.nan])), [0, 2, np.nan])


@pytest.mark.parametrize("kind", BINARY_KINDS)
def test_binary(kind: str) -> None:
    rng = np.random.default_rng(2)
    name, attributes = BINARY_ONNX.get(kind, (kind.capitalize(), {}))
    for dtype in [t for letter in BINARY_KINDS[kind] for t in TYPES[letter]]:
        for left, right in [((), ()), ((2, 1, 3), (4, 1)), ((0, 2), (1,)), ((3,), (2, 3)), ((5,), (5,))]:
            if kind == "prelu" and len(right) > len(left):
                continue  # ONNX broadcasts the slope only
            a, b = sample(rng, left, dtype), sample(rng, right, dtype)
            if kind in ("div", "mod", "fmod"):
                b = np.where(b == 0, np.ones_like(b), b)
            if kind == "pow":
                a, b = np.abs(a), np.abs(b)
            if kind in ("div", "mod") and a.dtype.kind == "i":
                quotient = np.trunc(a / b) if kind == "div" else a - np.floor(a / b) * b
                expected = [np.asarray(quotient, dtype)]  # ONNX's reference leaves rounding to numpy's floor
            elif kind == "mod" and a.dtype.kind == "f":
                expected = [np.asarray(np.mod(a, b))]  # not in ONNX: floats need fmod there
            else:
                with np.errstate(all="ignore"):
                    expected = onnx_run(name, [a, b], **attributes)
            check(Binary(kind), [a, b], expected)


def test_integer_corners() -> None:
    lowest = np.iinfo(np.int32).min
    a = np.array([7, -7, 7, -7, 5, lowest, -5], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1, 0], np.int32)

    def values(kind: str) -> list[int]:
        return Binary(kind).reference(a, b)[0].tolist()

    assert values("div") == [3, -3, -3, 3, 0, lowest, 0]
    assert values("mod") == [1, 1, -1, -1, 0, 0, 0]
    assert values("fmod") == [1, -1, 1, -1, 0, 0, 0]
    base, power = np.array([1, -1, -1, 2, 0, -2], np.int8), np.array([-3, -3, -2, -1, -1, 3], np.int8)
    assert Binary("pow").reference(base, power)[0].tolist() == [1, -1, 1, 0, 0, -8]
    assert Binary("shift_left").reference(np.uint8([1, 1]), np.uint8([7, 8]))[0].tolist() == [128, 0]


def test_nan_goes_through_min_and_max() -> None:
    a, b = np.float32([np.nan, 1, 2]), np.float32([0, np.nan, 3])
    for kind in ("min", "max"):
        assert np.isnan(Binary(kind).reference(a, b)[0]).tolist() == [True, True, False]


@pytest.mark.parametrize("kind", ACTIVATION_KINDS)
def test_fused_activation_is_the_unary(kind: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 4, 3)).astype(np.float32)
    (y,) = run(Binary("add", Activation(kind, 0.5, 1.5)), a, b)
    np.testing.assert_array_equal(y, Unary(kind, 0.5, 1.5).reference(a + b)[0])


def test_where() -> None:
    rng = np.random.default_rng(4)
    for dtype in (np.float32, np.int64, np.bool_, np.uint8):
        for shapes in [((), (), ()), ((2, 1), (3,), (1, 1)), ((3,), (2, 3), ()), ((0, 1), (1, 2), (1,))]:
            inputs = [sample(rng, s, t) for s, t in zip(shapes, (np.bool_, dtype, dtype), strict=True)]
            check(Where(), inputs, onnx_run("Where", inputs))


def test_scale_shift_is_batch_normalization() -> None:
    rng = np.random.default_rng(5)
    for shape in [(2, 3), (1, 4, 5), (2, 1, 3, 3), (0, 3, 2)]:
        x = sample(rng, shape, np.float32)
        scale, bias, mean, var = (sample(rng, (shape[1],), np.float32) for _ in range(4))
        var = np.abs(var)
        expected = onnx_run("BatchNormalization", [x, scale, bias, mean, var], epsilon=1e-3)
        factor = scale / np.sqrt(var + np.float32(1e-3))
        check(ScaleShift(), [x, factor, bias - mean * factor], expected, atol=1e-4)


def test_cast() -> None:
    rng = np.random.default_rng(6)
    for source in VALUE_TYPES:
        x = (rng.random((3, 4)) * 100).astype(source.numpy)
        for to in VALUE_TYPES:
            check(Cast(to), [x], onnx_run("Cast", [x], to=int_type(to)))


def int_type(to: DType) -> int:
    import onnx.helper

    return int(onnx.helper.np_dtype_to_tensor_dtype(to.numpy))


def test_cast_saturates_floats_and_wraps_integers() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, -1.9, 1.9, 255.5, 2**31, 2**63, -0.5])
    for to in (DType.U8, DType.I8, DType.I16, DType.U32, DType.I32, DType.I64, DType.U64):
        low, high = np.iinfo(to.numpy).min, np.iinfo(to.numpy).max
        exact = [0 if np.isnan(v) else low if v < low else high if v > high else int(v) for v in x.tolist()]
        assert run(Cast(to), x)[0].tolist() == exact
    assert run(Cast(DType.BOOL), np.float32([0, -0.0, 0.1, np.nan]))[0].tolist() == [False, False, True, True]
    assert run(Cast(DType.I8), np.int32([200, -129]))[0].tolist() == [-56, 127]


def test_quantize_and_dequantize() -> None:
    rng = np.random.default_rng(7)
    x = (rng.normal(size=(2, 3, 4)) * 20).astype(np.float32)
    x[0, 0, :2] = [1e6, -1e6]
    for zero_type in (np.uint8, np.int8, np.uint16, np.int16):
        for axis, count in ((1, ()), (1, (3,)), (2, (4,))):
            scale = (rng.random(count) + 0.1).astype(np.float32)
            zero = rng.integers(0, 10, count).astype(zero_type)
            (q,) = onnx_run("QuantizeLinear", [x, scale, zero], axis=axis)
            check(QuantizeLinear(axis), [x, scale, zero], [q])
            check(DequantizeLinear(axis), [q, scale, zero], onnx_run("DequantizeLinear", [q, scale, zero], axis=axis))
            check(DequantizeLinear(axis), [q, scale], onnx_run("DequantizeLinear", [q, scale], axis=axis))
    ties = np.float32([0.5, 1.5, 2.5, -0.5, -1.5])
    assert QuantizeLinear(0).reference(ties, np.float32(1), np.int8(0))[0].tolist() == [0, 2, 2, 0, -2]
