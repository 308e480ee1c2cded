"""Whole layers with many options: recurrent and quantised ones, against onnxruntime or ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest

from packer.errors import UnsupportedOperators
from packer.importers import import_onnx
from packer.ir.ops import QuantizedConv, QuantizedMatMul
from packer.passes import optimize
from tests.packer.importers.models import check, noise, run, single

F32, I8, U8, I32 = np.float32, np.int8, np.uint8, np.int32
RNG = np.random.default_rng(7)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(
    kind: str, directions: int = 1, steps: int = 5, batch: int = 2, size: int = 3, hidden: int = 4
) -> list[np.ndarray]:
    gates = GATES[kind] * hidden
    return [noise(steps, batch, size), noise(directions, gates, size, seed=1), noise(directions, gates, hidden, seed=2)]


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent(kind: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    x, w, r = layer(kind, directions)
    more = [noise(directions, 2 * w.shape[1], seed=3), np.array([5, 3], I32), noise(directions, 2, 4, seed=4)]
    outputs = [F32] * (3 if kind == "LSTM" else 2)
    built, feeds = single(kind, [x, w, r, *more], 14, outputs, [1, 2, 3], hidden_size=4, direction=direction)
    check(built, feeds)


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_without_options(kind: str) -> None:
    built, feeds = single(kind, layer(kind), 14, [F32], [1, 2], hidden_size=4)
    check(built, feeds)


def test_recurrent_activations_take_parameters_in_order() -> None:
    names = ["HardSigmoid", "LeakyRelu", "Tanh"]
    attributes = {"activations": names, "activation_alpha": [0.3, 0.05], "activation_beta": [0.4], "clip": 0.7}
    built, feeds = single("LSTM", layer("LSTM"), 14, [F32] * 3, [1, 2], hidden_size=4, **attributes)
    check(built, feeds)


def test_gru_with_linear_before_reset() -> None:
    built, feeds = single("GRU", layer("GRU"), 14, [F32] * 2, [1, 2], hidden_size=4, linear_before_reset=1)
    check(built, feeds)


def test_activations_that_are_not_supported() -> None:
    built, _ = single("RNN", layer("RNN"), 14, [F32], hidden_size=4, activations=["Affine"])
    with pytest.raises(UnsupportedOperators, match="activation Affine"):
        import_onnx(built)


def integers(*shape: int, dtype: type = U8, low: int = 0, high: int = 256) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def scale(value: float, *shape: int) -> np.ndarray:
    return np.full(shape, value, F32) if shape else np.array(value, F32)


def test_qlinear_conv() -> None:
    inputs = [
        integers(1, 3, 7, 6), scale(0.02), np.array(120, U8),
        integers(4, 3, 3, 3, dtype=I8, low=-127, high=128), np.array([0.01, 0.02, 0.03, 0.04], F32), np.zeros(4, I8),
        scale(0.1), np.array(99, U8), integers(4, dtype=I32, low=-999, high=999),
    ]  # fmt: skip
    built, feeds = single("QLinearConv", inputs, 10, [U8], range(1, 9), pads=[1, 0, 1, 2], strides=[2, 1])
    check(built, feeds)
    assert [type(node.op) for node in optimize(import_onnx(built)).nodes] == [QuantizedConv]


def test_qlinear_matmul() -> None:
    inputs = [
        integers(5, 3), scale(0.02), np.array(120, U8), integers(3, 4, high=150), scale(0.03), np.array(33, U8),
        scale(0.1), np.array(99, U8),
    ]  # fmt: skip
    built, feeds = single("QLinearMatMul", inputs, 10, [U8], range(1, 8))
    check(built, feeds)
    assert [type(node.op) for node in optimize(import_onnx(built)).nodes] == [QuantizedMatMul]


@pytest.mark.parametrize(("w_type", "w_zero"), [(I8, 0), (I8, -3), (U8, 0), (U8, 130)])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_conv_integer(w_type: type, w_zero: int, group: int) -> None:
    info = np.iinfo(w_type)
    x, w = (
        integers(1, 4, 5, 5),
        integers(8 if group == 2 else 4, 4 // group, 3, 3, dtype=w_type, low=info.min, high=info.max + 1),
    )
    inputs = [x, w, np.array(7, U8), np.array(w_zero, w_type)]
    built, feeds = single("ConvInteger", inputs, 10, [I32], [1, 2, 3], group=group, pads=[1] * 4)
    check(built, feeds, "reference" if w_type is I8 else "onnxruntime")


def test_conv_integer_of_signed_inputs() -> None:
    x, w = integers(1, 4, 5, 5, dtype=I8, low=-128, high=128), integers(3, 4, 3, 3, dtype=I8, low=-128, high=128)
    built, feeds = single("ConvInteger", [x, w, np.array(-9, I8)], 10, [I32], [1, 2], pads=[1] * 4)
    check(built, feeds, "reference")


def test_conv_integer_of_other_weights_where_exact() -> None:
    built, feeds = single("ConvInteger", [integers(1, 2, 5, 5), integers(3, 2, 3, 3), np.array(7, U8)], 10, [I32], [2])
    check(built, feeds)
    built, _ = single("ConvInteger", [integers(1, 300, 2, 2), np.full((1, 300, 1, 1), 255, U8)], 10, [I32])
    with pytest.raises(UnsupportedOperators, match="exact"):
        import_onnx(built)


@pytest.mark.parametrize("w_zero", [np.array(130, U8), integers(5), None])
def test_matmul_integer(w_zero: np.ndarray | None) -> None:
    inputs = [integers(2, 3, 40), integers(40, 5), np.array(7, U8), w_zero]
    for constant in ([1, 3] if w_zero is not None else [1], []):
        built, feeds = single("MatMulInteger", inputs, 10, [I32], constant)
        check(built, feeds)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocked_quantisation(axis: int) -> None:
    x, shape = noise(4, 6), (2, 6) if axis == 0 else (4, 3)
    s, z = np.abs(noise(*shape, seed=1)) + F32(0.1), integers(*shape, dtype=U8, low=100, high=140)
    built, feeds = single("QuantizeLinear", [x, s, z], 21, [U8], [1, 2], axis=axis, block_size=2)
    check(built, feeds, "reference")
    built, feeds = single("DequantizeLinear", [integers(4, 6), s, z], 21, [F32], [1, 2], axis=axis, block_size=2)
    check(built, feeds, "reference")


def test_dynamic_quantize_linear() -> None:
    built, feeds = single("DynamicQuantizeLinear", [noise(3, 5)], 11, [U8, F32, U8])
    check(built, feeds)


def test_bit_shift_of_signed_integers() -> None:
    x, count = np.array([-128, -7, -1, 0, 5, 127], I8), np.array([1, 2, 3, 4, 1, 6], I8)
    for direction, want in (("RIGHT", x >> count), ("LEFT", x << count)):
        built, feeds = single("BitShift", [x, count], 21, [I8], direction=direction)
        np.testing.assert_array_equal(run(import_onnx(built), feeds)[0], want)
