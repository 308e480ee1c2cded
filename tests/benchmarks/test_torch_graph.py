"""Networks as PyTorch modules give what the packer's reference gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.deep import BUILDERS, pruned
from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.passes import optimize

torch = pytest.importorskip("torch")


def agree(graph: Graph) -> None:
    from benchmarks.gpu.torch_graph import module_of

    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(graph.type(name).shape) for name in graph.inputs}
    want = evaluate(graph, inputs, np.float64)
    found = module_of(graph).double()(*(torch.from_numpy(x) for x in inputs.values()))
    for name, y in zip(graph.outputs, found, strict=True):
        np.testing.assert_allclose(y.numpy(), want[name], rtol=1e-9, atol=1e-12)


def test_the_small_network() -> None:
    model = pruned(BUILDERS["small"](), 0.5)
    agree(optimize(import_onnx(model, shapes={}, constants={})))


@pytest.mark.parametrize("name", ["squeezenet_dc", "mobilenet_v2_dequant", "mlperf_resnet8_cifar10", "mnist-8"])
def test_real_networks(name: str, models: Path) -> None:
    agree(optimize(import_onnx(models / "onnx" / f"{name}.onnx", shapes={}, constants={})))


def test_pruned_layers_have_exactly_that_many_zeros() -> None:
    from onnx import numpy_helper

    for tensor in pruned(BUILDERS["small"](), 0.75).graph.initializer:
        weights = numpy_helper.to_array(tensor)
        if weights.ndim > 1:
            assert np.count_nonzero(weights == 0) == int(0.75 * weights.size)
