"""Reduced precision on real networks: how far outputs move, the self-test's tolerance, the size of bundles."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgert
from edgert.devices import this_machine
from edgert.selftest import selftest
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.ir.rounding import nearest
from packer.ir.types import DType
from targets.base import TargetError
from tests.e2e.conftest import relative_error, tensor

PLANNED_FOR = "cpu-x86_64" if platform.machine() == "x86_64" else "cpu"  # not for the machine at hand, if possible
# The largest error of outputs over the vectors of a network, relative to their largest magnitude: measured, doubled.
ERRORS = {
    "mlperf_resnet8_cifar10": {"f16": 3e-6, "bf16": 3e-4},
    "mnist-8": {"f16": 4e-4, "bf16": 5e-3},
    "resnet20_cifar10": {"f16": 3e-4, "bf16": 1e-2},
    "squeezenet_dc": {"f16": 3e-3, "bf16": 3e-2},
    "super_resolution": {"f16": 3e-4, "bf16": 1.5e-2},
    "version-slim-320": {"f16": 1e-3, "bf16": 2e-2},
}


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize("name", ERRORS)
def test_vectors(models: Path, tmp_path: Path, name: str, precision: str) -> None:
    path = tmp_path / "model.edge"
    pack(models / "onnx" / f"{name}.onnx", path, precision=precision, targets=(PLANNED_FOR,), cores=(1, 2))
    with edgert.load(path) as session:
        for folder in sorted(p for p in (models / "vectors" / name).iterdir() if p.is_dir()):
            outputs = session.run(
                {info.name: tensor(folder / f"input_{i}.pb") for i, info in enumerate(session.inputs)}
            )
            for i, info in enumerate(session.outputs):
                want = tensor(folder / f"output_{i}.pb")
                assert relative_error(outputs[info.name], want) < ERRORS[name][precision]
                if want.size in (10, 1000):
                    assert outputs[info.name].argmax() == want.argmax()
    assert selftest(path, runs=1).passed
    pack(models / "onnx" / f"{name}.onnx", path, precision=precision, cores=(1, 2))  # as this machine would have it
    assert selftest(path, runs=1).passed


def linear(largest: float) -> ModelProto:
    """100 x 64 weights, one of which is as large as said."""
    w = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    w[3, 7] = largest
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 100])],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    ("precision", "largest", "bytes"),
    [("f32", 1.0, 4), ("f16", 1.0, 2), ("f16", 65519.0, 2), ("f16", 65520.0, 4), ("bf16", 1e38, 2)],
)
def test_weights_take_half_the_bytes_unless_one_is_too_large(
    tmp_path: Path, precision: str, largest: float, bytes: int
) -> None:
    report = pack(linear(largest), tmp_path / "model.edge", precision=precision, cores=(1,))
    assert report.programs[0].weights_bytes == 112 * 64 * bytes
    assert selftest(tmp_path / "model.edge", runs=1).passed


def test_the_tolerance_grows_with_what_is_rounded(tmp_path: Path) -> None:
    path, network = tmp_path / "model.edge", first_layer(32, 64, 3, pads=[1] * 4)
    found = []
    for form in ("packed-bf16", "bf16", "winograd2-bf16"):
        pack(network, path, precision="bf16", implementation=form, cores=(1,))
        assert selftest(path, runs=1).passed
        found.append(edgert.read(path).goldens[0].rtol)
    np.testing.assert_allclose(np.divide(found, found[0]), [1, 2**0.5, 2.4], rtol=1e-6)


def test_another_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="precision: expected f32, f16, bf16, got 'int4'"):
        pack(linear(1.0), tmp_path / "model.edge", precision="int4")


def first_layer(channels: int, filters: int, kernel: int, **attributes: object) -> ModelProto:
    """A convolution of an image of 61 x 75, and ReLU."""
    w = np.random.default_rng(0).standard_normal((filters, channels, kernel, kernel)).astype(np.float32)
    b = np.random.default_rng(1).standard_normal(filters).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])],
        "first layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 61, 75])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    ("channels", "kernel", "attributes"),
    [
        (3, 7, {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
        (1, 5, {"pads": [2, 2, 2, 2]}),
        (3, 3, {"dilations": [2, 2], "strides": [1, 2]}),
        (4, 11, {"strides": [4, 4], "pads": [2, 0, 2, 1]}),
    ],
)
def test_first_layers(tmp_path: Path, channels: int, kernel: int, attributes: dict[str, object]) -> None:
    """The same bits on any number of cores, and with every instruction set the values of rounded operands."""
    path, network = tmp_path / "model.edge", first_layer(channels, 40, kernel, **attributes)
    pack(network, path, precision="bf16", implementation="lines-bf16", cores=(1, 2, 3), golden=False)
    x = np.random.default_rng(2).standard_normal((1, channels, 61, 75)).astype(np.float32)
    network.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(nearest(numpy_helper.to_array(network.graph.initializer[0]), DType.BF16), "w")
    )
    want = evaluate(import_onnx(network), {"x": nearest(x, DType.BF16)}, np.float64)["y"]
    for isa in this_machine().isas:
        answers = []
        for threads in (1, 2, 3):
            with edgert.load(path, isa=isa, threads=threads) as session:
                assert {step.kernel for step in edgert.read(path).programs[0].steps} == {"conv_bf16"}
                answers.append(session.run({"x": x})["y"])
        assert len({answer.tobytes() for answer in answers}) == 1
        assert relative_error(answers[0], want) < 2e-6, isa


def test_first_layers_are_of_bf16_where_that_is_faster(tmp_path: Path) -> None:
    path = tmp_path / "model.edge"
    for target, faster in (("cpu-x86_64", True), ("cpu-jetson-tx2", False)):
        network = first_layer(3, 64, 7, strides=[2, 2], pads=[3, 3, 3, 3])
        pack(network, path, precision="bf16", targets=[target], cores=(1,), golden=False)
        assert ("conv_bf16" in {step.kernel for step in edgert.read(path).programs[0].steps}) == faster
