"""Random networks through packer, bundle and C runtime on every instruction set here, against onnx.reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir import ops
from packer.passes import optimize
from packer.planner import prepared
from targets.base import resolve
from tests.e2e.random_networks import random_network

Arrays = dict[str, np.ndarray]
SEEDS = 140


def poison(inputs: Arrays) -> Arrays:
    """Other inputs: NaN wherever there can be one, so that what stays behind in the arena is NaN."""
    return {n: np.full_like(a, np.nan) if a.dtype.kind == "f" else np.zeros_like(a) for n, a in inputs.items()}


def expect_close(got: Arrays, want: Arrays, what: str) -> None:
    assert list(got) == list(want)
    for name, expected in want.items():
        assert (got[name].dtype, got[name].shape) == (expected.dtype, expected.shape), (what, name)
        scale = max(1.0, float(np.abs(expected).max(initial=0))) if expected.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=1e-4 * scale, err_msg=f"{what}: {name}")


def run_everywhere(path: Path, inputs: Arrays, wanted: Arrays) -> None:
    """On each instruction set and with 1 to 3 threads: right, and the same bits whatever ran before."""
    for isa in this_machine().isas:
        for threads in (1, 2, 3):
            what = f"{isa}, {threads} threads"
            with edgert.load(path, isa=isa, threads=threads) as session:
                first = session.run(inputs)
                expect_close(first, wanted, what)
                session.run(poison(inputs))
                for name, again in session.run(inputs).items():
                    assert again.tobytes() == first[name].tobytes(), f"{what}: {name} depends on what ran before"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_operators(seed: int, tmp_path: Path) -> None:
    network = random_network(seed)
    pack(network.model, tmp_path / "model.edge", golden=False)
    run_everywhere(tmp_path / "model.edge", network.inputs, network.outputs)


def test_the_networks_use_every_operator() -> None:
    used: set[str] = set()
    for seed in range(SEEDS):
        graph = prepared(optimize(import_onnx(random_network(seed).model)), resolve("cpu"))
        used.update(type(node.op).__name__ for node in graph.nodes)
    assert set(ops.__all__) - used == {"Activation", "Dependence", "Op", "Part", "ShapeError"}
