"""Real networks and the light ones of the onnx package: import, evaluate, compare with their vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from packer.importers import import_onnx
from packer.ir import DType
from tests.packer.importers.models import run

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
REAL = [
    "lenet5_dense", "lenet5_dns_sparse", "mlperf_ad_autoencoder", "mlperf_kws_dscnn", "mlperf_resnet8_cifar10",
    "mlperf_vww_mobilenet_v1_025", "mnist-8", "mobilenet_v2_dequant", "mp_face_detection_full_range_dense",
    "mp_face_detection_full_range_sparse", "mp_selfie_segmentation", "resnet20_cifar10", "squeezenet1.1_webnn",
    "squeezenet_dc", "super_resolution", "version-RFB-320", "version-RFB-320_simplified", "version-slim-320",
    "yolo_fastest_1.1", "yunet_n_320_320",
]  # fmt: skip


def tensor(path: Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(str(path)))


def numbered(folder: Path, prefix: str) -> list[np.ndarray]:
    return [tensor(folder / f"{prefix}_{index}.pb") for index in range(len(list(folder.glob(f"{prefix}_*.pb"))))]


@pytest.mark.parametrize("name", REAL)
def test_real(models: Path, name: str) -> None:
    graph = import_onnx(models / "onnx" / f"{name}.onnx")
    assert {graph.type(n).dtype for node in graph.nodes for n in node.outputs} == {
        DType.F32
    }  # no shape arithmetic left
    sets = sorted((models / "vectors" / name).iterdir())
    assert sets
    for folder in sets:
        results = run(graph, dict(zip(graph.inputs, numbered(folder, "input"), strict=True)))
        for got, want in zip(results, numbered(folder, "output"), strict=True):
            assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max(), folder.name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in LIGHT.glob("light_*.onnx")))
def test_light(name: str) -> None:
    graph = import_onnx(LIGHT / f"{name}.onnx")
    (shape,) = (graph.type(n).shape for n in graph.inputs)
    count = int(np.prod(shape))
    x = (np.arange(count, dtype=np.float32) / count).reshape(shape)
    (got,) = run(graph, {graph.inputs[0]: x})
    want = tensor(LIGHT / f"{name}_output_0.pb")
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
