"""Any plan gives the bits of the unsplit plan with the same algorithms, unless it splits input channels: random plans
of random networks and of real ones, on 2 to 5 cores, run by as many threads and by fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgert
from packer.bundle.model import Bundle
from packer.bundle.writer import write_bundle
from packer.importers import import_onnx
from packer.ir import Graph, whole
from packer.ir.evaluate import evaluate
from packer.passes import optimize
from packer.planner import Plan, make_plans
from packer.planner.choices import Choice
from packer.planner.costs import Costs, Signature, signature, work_of
from packer.planner.problem import Problem, build
from packer.planner.schedule import schedule
from packer.planner.select import exact, sample
from packer.planner.split import NONE, Piece, Split
from targets.base import resolve
from tests.e2e.random_networks import random_network
from tests.packer.planner.random_bands import random_bands, random_inputs

TARGET = resolve("cpu")
Arrays = dict[str, np.ndarray]


def problem_of(
    graph: Graph, cores: int, partial_sums: bool = False, records: Mapping[Signature, float] | None = None
) -> Problem:
    costs = Costs(TARGET.on(TARGET.machine.sized(cores)), records or {})
    return build(graph, costs, cores, partial_sums=partial_sums)


def run(graph: Graph, choices: list[Choice], cores: int, path: Path, inputs: Arrays, threads: int) -> Arrays:
    program = schedule(graph, TARGET.on(TARGET.machine.sized(cores)), choices, cores)
    write_bundle(Bundle("test", graph.name, (program,), ()), path)
    with edgert.load(path, threads=threads) as session:
        return session.run(inputs)


def unsplit(graph: Graph, choices: list[Choice]) -> list[Choice]:
    """The same forms on one core."""
    return [
        replace(
            choice, split=Split(NONE, (Piece(0, whole(graph.type(node.outputs[0]))),)), parts=(None,), terms=(),
            takes=(), streams_out=False, banded=False,
        )
        for node, choice in zip(graph.nodes, choices, strict=True)
    ]  # fmt: skip


def by_patches(graph: Graph, cores: int) -> dict[str, float]:
    """Records of convolutions by patches that take next to nothing in what one of `cores` cores computes."""
    found = {}
    for node, choices in zip(graph.nodes, problem_of(graph, cores).choices, strict=True):
        for choice in choices:
            for form in TARGET.forms(graph, node):
                if form.arithmetic and choice.parts != (None,):
                    found.update({signature(work_of(graph, node, part), form): 1e-9 for part in choice.parts})
    return found


def expect_close(got: Arrays, want: Arrays) -> None:
    for name, expected in want.items():
        scale = max(1.0, float(np.abs(expected).max(initial=0))) if expected.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(got[name], expected, rtol=0, atol=1e-4 * scale, err_msg=name)


def expect_same_bits(
    graph: Graph,
    problem: Problem,
    seed: int,
    folder: Path,
    inputs: Arrays,
    outputs: Arrays | None = None,
    weights: Sequence[np.ndarray] | None = None,
) -> str:
    """A random plan against the unsplit one, and that against the right outputs; the splits that it used, "=" behind
    those in bands."""
    solution = sample(problem, np.random.default_rng(seed), weights)
    choices = [own[i] for own, i in zip(problem.choices, solution.chosen, strict=True)]
    want = run(graph, unsplit(graph, choices), 1, folder / "one.edge", inputs, 1)
    expect_close(want, outputs or {})
    for threads in sorted({1, min(2, problem.cores), problem.cores}):
        got = run(graph, choices, problem.cores, folder / "split.edge", inputs, threads)
        for name, expected in want.items():
            assert got[name].tobytes() == expected.tobytes(), f"{name}: {problem.cores} cores, {threads} threads"
    return " ".join(choice.split.name + "=" * choice.banded for choice in choices)


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("seed", range(60))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    network = random_network(seed)
    graph = optimize(import_onnx(network.model))
    expect_same_bits(graph, problem_of(graph, 2 + seed % 4), seed, tmp_path, network.inputs, network.outputs)


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("seeds", [range(60, 80), range(80, 100), (1017, 1050, 1167, 1218)])
def test_random_networks_in_tiles(seeds: Sequence[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches so small that whatever can be computed in tiles is worth it."""
    used = ""
    for seed in seeds:
        cores = (replace(core, l2_bytes=[128, 512, 2048][seed % 3]) for core in TARGET.machine.cores)
        with monkeypatch.context() as patch:
            patch.setattr("tests.e2e.test_plans.TARGET", TARGET.on(replace(TARGET.machine, cores=tuple(cores))))
            network = random_network(seed)
            graph = optimize(import_onnx(network.model))
            problem = problem_of(graph, 1 + seed % 3)
            for plan in range(3):
                used += expect_same_bits(graph, problem, 7 * seed + plan, tmp_path, network.inputs, network.outputs)
    assert "/" in used


@pytest.mark.usefixtures("planes")
@pytest.mark.parametrize("first", [0, 20, *(pytest.param(n, marks=pytest.mark.slow) for n in range(40, 120, 20))])
def test_random_networks_in_bands(first: int, tmp_path: Path) -> None:
    """Wherever rows can be stored apart they mostly are."""
    used = ""
    for seed in range(first, first + 20):
        network = random_bands(seed)
        inputs = random_inputs(network, seed)
        problem = problem_of(network, 2 + seed % 3)
        weights = [np.array([1.0 + 50.0 * choice.banded for choice in own]) for own in problem.choices]
        used += expect_same_bits(network, problem, seed, tmp_path, inputs, evaluate(network, inputs), weights)
    assert used.count("=") > 100


def test_programs_for_all_numbers_of_cores_give_the_same_bits(tmp_path: Path) -> None:
    """Even where measured times favour other algorithms on some numbers of cores."""
    favoured = 0
    for seed in range(20):
        network = random_network(seed)
        graph = optimize(import_onnx(network.model))
        records = by_patches(graph, 2 + seed % 3)
        plans = make_plans(graph, TARGET, (1, 2, 3, 4), records=records)
        assert all(plan.arithmetic == plans[0].arithmetic for plan in plans)
        write_bundle(Bundle("test", graph.name, tuple(p.program() for p in plans), ()), tmp_path / "model.edge")
        results = []
        for threads in (1, 2, 3, 4):
            with edgert.load(tmp_path / "model.edge", threads=threads) as session:
                results.append({name: array.tobytes() for name, array in session.run(network.inputs).items()})
        assert all(other == results[0] for other in results)
        free = Plan(problem := problem_of(graph, 2 + seed % 3, records=records), exact(problem))
        favoured += free.arithmetic != plans[0].arithmetic
    assert favoured >= 3


@pytest.mark.parametrize("name", ["mlperf_vww_mobilenet_v1_025", "mp_face_detection_full_range_sparse"])
def test_real_networks(models: Path, name: str, tmp_path: Path) -> None:
    graph = optimize(import_onnx(models / "onnx" / f"{name}.onnx"))
    random = np.random.default_rng(1)
    inputs = {n: random.random(graph.type(n).shape, np.float32) for n in graph.inputs}
    used = ""
    for cores in (1, 2, 3):
        problem = problem_of(graph, cores)
        used += "".join(expect_same_bits(graph, problem, seed, tmp_path, inputs) for seed in range(2))
    assert "H3" in used
    assert ("/" in used) == (name != "mlperf_vww_mobilenet_v1_025"), "only what exceeds a cache is worth tiles"


@pytest.mark.parametrize("seed", range(20))
def test_partial_sums(seed: int, tmp_path: Path) -> None:
    """Splitting input channels changes the last bits only."""
    network = random_network(seed)
    graph = optimize(import_onnx(network.model))
    problem = problem_of(graph, 2 + seed % 3, True)
    wanted = [[float(bool(c.terms)) + 1e-6 for c in own] for own in problem.choices]
    solution = sample(problem, np.random.default_rng(seed), [np.array(own) for own in wanted])
    choices = [own[i] for own, i in zip(problem.choices, solution.chosen, strict=True)]
    got = run(graph, choices, problem.cores, tmp_path / "sums.edge", network.inputs, problem.cores)
    expect_close(got, network.outputs)
