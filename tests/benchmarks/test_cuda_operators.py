"""The ten convolutions are those of the paper as far as its figures tell."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cuda_operators import OPERATORS, layer


@pytest.mark.parametrize(
    ("name", "flops"),
    [("lenet-conv1", 36.9e6), ("lenet-conv2", 204.8e6), ("vgg-conv2", 236.8e9), ("vgg-conv3", 236.8e9)],
)
def test_operations_of_a_batch_of_64(name: str, flops: float) -> None:
    assert layer(name, 0.9, images=64).flops == pytest.approx(flops, rel=2e-3)


def test_weights_from_500_to_more_than_140_thousand() -> None:
    sizes = [layer(name, 0.5).weights.size for name in OPERATORS]
    assert (min(sizes), len(sizes)) == (500, 10)
    assert layer("vgg-conv3", 0.5).weights.size == 147_456


@pytest.mark.parametrize("sparsity", [0, 0.5, 0.9, 1])
def test_sparsity_is_exact(sparsity: float) -> None:
    weights = layer("resnet-conv1", sparsity).weights
    assert np.count_nonzero(weights == 0) == round(sparsity * weights.size)
