"""Joined and cut values as views give the bits that copies give, and the right ones: random graphs, with the plan
chosen by cost and with any, on 1 to 5 cores."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import edgert
from packer.bundle.model import Bundle
from packer.bundle.writer import write_bundle
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from packer.planner import make_plan
from packer.planner.choices import Choice
from packer.planner.costs import Costs
from packer.planner.places import Places
from packer.planner.problem import build
from packer.planner.select import sample
from targets.base import resolve
from tests.packer.planner.random_views import random_views

TARGET = resolve("cpu")
scheduling = importlib.import_module("packer.planner.schedule")
Arrays = dict[str, np.ndarray]


class Nowhere(Places):
    """Every value in memory of its own."""

    def _may_lie(self, *_: object, **__: object) -> bool:
        return False


def run(graph: Graph, choices: list[Choice], cores: int, folder: Path, inputs: Arrays) -> tuple[int, list[Arrays]]:
    """Elements that are copied, and the results with one thread and with several."""
    program = scheduling.schedule(graph, TARGET.on(TARGET.machine.sized(cores)), choices, cores)
    write_bundle(Bundle("test", graph.name, (program,), ()), folder / "model.edge")
    results = []
    for threads in {1, min(cores, 2)}:
        with edgert.load(folder / "model.edge", threads=threads) as session:
            results.append({name: array.copy() for name, array in session.run(inputs).items()})
    copies = [step for step in program.steps if step.kernel in ("concat", "copy")]
    return sum(program.tensors[i].type.elements for step in copies for i in step.outputs), results


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_views(seed)
    random = np.random.default_rng(seed)
    inputs = {n: (random.integers(-16, 17, graph.type(n).shape) / 8).astype(np.float32) for n in graph.inputs}
    want = evaluate(graph, inputs, np.float64)
    for cores in (1, 2 + seed % 4):
        problem = build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores)
        chosen = sample(problem, random).chosen
        for choices in (
            list(make_plan(graph, TARGET, cores).choices),
            [own[i] for own, i in zip(problem.choices, chosen, strict=True)],
        ):
            moved, results = run(graph, choices, cores, tmp_path, inputs)
            with monkeypatch.context() as patch:
                patch.setattr(scheduling, "Places", Nowhere)
                more, copied = run(graph, choices, cores, tmp_path, inputs)
            assert moved <= more
            for result in (*results, *copied):
                for name, expected in want.items():
                    scale = float(np.abs(expected).max(initial=1.0))
                    np.testing.assert_allclose(result[name], expected, rtol=0, atol=1e-5 * scale, err_msg=name)
                    assert result[name].tobytes() == copied[0][name].tobytes(), name
