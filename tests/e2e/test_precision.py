"""Reduced precision on real networks: how far outputs move, the self-test's tolerance, the size of bundles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgert
from edgert.selftest import selftest
from packer.api import pack
from targets.base import TargetError
from tests.e2e.conftest import relative_error, tensor

# The largest error of outputs over the vectors of a network, relative to their largest magnitude: measured, doubled.
ERRORS = {
    "mlperf_resnet8_cifar10": {"f16": 3e-6, "bf16": 2e-4},
    "mnist-8": {"f16": 4e-4, "bf16": 5e-3},
    "resnet20_cifar10": {"f16": 3e-4, "bf16": 6e-3},
    "squeezenet_dc": {"f16": 3e-3, "bf16": 3e-2},
    "super_resolution": {"f16": 3e-4, "bf16": 8e-3},
    "version-slim-320": {"f16": 1e-3, "bf16": 2e-2},
}


@pytest.mark.parametrize("precision", ["f16", "bf16"])
@pytest.mark.parametrize("name", ERRORS)
def test_vectors(models: Path, tmp_path: Path, name: str, precision: str) -> None:
    path = tmp_path / "model.edge"
    pack(models / "onnx" / f"{name}.onnx", path, precision=precision, cores=(1, 2))
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


def test_another_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="precision: expected f32, f16, bf16, got 'int4'"):
        pack(linear(1.0), tmp_path / "model.edge", precision="int4")
