"""The planner: how fast it solves, what its plans gain over those of simpler strategies and of the learned policy, and
how well its predictions hold."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import edgert
from benchmarks.networks import NAMES, network_file
from benchmarks.report import geometric_mean, save, table
from edgert.bench import bind_all
from edgert.cli._searching import measure_programs
from edgert.fingerprint import this_device
from edgert.measure import measure_step
from packer.bundle.model import Bundle, Program
from packer.bundle.writer import write_bundle
from packer.importers import import_onnx
from packer.ir import Graph
from packer.passes import optimize
from packer.planner import Plan, make_plan
from packer.planner.costs import Costs
from packer.planner.problem import IMPOSSIBLE, Problem, build
from packer.planner.schedule import schedule
from packer.planner.select import STRATEGIES, learned, sample
from packer.tune import Campaign, Records
from targets.base import Target, resolve

__all__ = ["run"]

MEASURED = ("densenet121", "mobilenet_v2", "resnet50", "squeezenet")
SAMPLED = ("mobilenet_v2", "shufflenet", "squeezenet", "inception_v1")
CORES = 2


def run(quick: bool = False) -> None:
    """Print the tables and save results/planner.json."""
    solved = _solve(NAMES[:4] if quick else NAMES)
    compared = _compare(MEASURED[-2:] if quick else MEASURED, turns=3 if quick else 9, budget=5.0 if quick else 20.0)
    sampled = _sample(SAMPLED[-2:] if quick else SAMPLED, count=10 if quick else 60)
    save("planner", {"solve": solved, "strategies": compared, "prediction": sampled})


def _graph(name: str) -> Graph:
    return optimize(import_onnx(network_file(name), shapes={}, constants={}))


def _solve(names: Sequence[str]) -> list[dict[str, object]]:
    """Seconds of processor time on one core from the graph to the optimum."""
    target, rows = resolve("cpu"), []
    for name in names:
        graph = _graph(name)
        for cores in (1, 2, 4, 16):
            started = time.process_time()
            plan = make_plan(graph, target, cores)
            rows.append(
                {
                    "network": name,
                    "cores": cores,
                    "nodes": len(graph.nodes),
                    "states": sum(map(len, plan.problem.choices)),
                    "edges": len(plan.problem.edges),
                    "exact": plan.solution.exact,
                    "seconds": time.process_time() - started,
                }
            )
    keys = list(rows[0])
    table("planning", keys, [[row[key] for key in keys] for row in rows])
    print(f"slowest: {max(float(str(row['seconds'])) for row in rows):.2f} s")
    return rows


def _compare(names: Sequence[str], turns: int, budget: float) -> list[dict[str, object]]:
    """Each strategy's plan for 2 cores, measured in turns. `tuned` is the exact one once layers were measured for
    `budget` seconds, `policy` the best of those that the learned policy drew and measured for as long."""
    if len(os.sched_getaffinity(0)) < CORES:
        print("strategies: not measured, this machine has one core")
        return []
    target, rows = resolve("cpu"), []
    for name in names:
        graph = _graph(name)
        plans = {search: make_plan(graph, target, CORES, search=search) for search in STRATEGIES if search != "policy"}
        plans["tuned"], layers = _tuned(graph, target, budget)
        rounds: list[list[float]] = []
        if find_spec("torch"):
            plans["policy"] = _learned(graph, target, budget, rounds)
        else:
            print("policy: not measured, it needs PyTorch")
        with tempfile.TemporaryDirectory() as folder:
            paths = {
                search: _write(plan.problem, plan.solution.chosen, Path(folder) / search)
                for search, plan in plans.items()
            }
            times = _measure(list(paths.values()), turns)
        ms = {search: 1e3 * seconds for search, seconds in zip(paths, times, strict=True)}
        predicted = {search: 1e3 * plan.seconds for search, plan in plans.items()}
        found = {"budget": budget, "layers": layers, "rounds": rounds}
        rows.append({"network": name, "ms": ms, "predicted_ms": predicted, "search": found})
    table(
        f"milliseconds on {CORES} cores by strategy (predicted)",
        ["network", *ms],
        [[row["network"], *(f"{row['ms'][s]:.2f} ({row['predicted_ms'][s]:.2f})" for s in ms)] for row in rows],
    )
    for search in ms:
        mean = geometric_mean([row["ms"][search] / row["ms"]["exact"] for row in rows])
        print(f"{search}: {mean:.3f}x the time of exact by geometric mean")
    return rows


def _tuned(graph: Graph, target: Target, budget: float) -> tuple[Plan, dict[str, int]]:
    """The exact plan by what a campaign measured; and how many layers that were, and were left."""
    here = this_device()
    with tempfile.TemporaryDirectory() as folder, Records(Path(folder) / "records", create=True) as records:
        campaign = Campaign(graph, target, (CORES,), records, here.fingerprint, here.core)
        campaign.run(measure_step, "benchmark", time.monotonic() + budget)
        layers = {"measured": campaign.measured, "left": campaign.left}
        return make_plan(graph, target, CORES, records=campaign.known), layers


def _learned(graph: Graph, target: Target, budget: float, rounds: list[list[float]]) -> Plan:
    """The plan of the learned policy. `rounds` gets the seconds of all that was measured; the last ones are the best
    again."""

    def measure(programs: Sequence[Program]) -> list[float] | None:
        found = measure_programs(programs)
        rounds.append(found or [])
        return found

    return make_plan(graph, target, CORES, search=learned(measure, budget))


def _sample(names: Sequence[str], count: int) -> dict[str, object]:
    """Random plans, from near the optimum to far from it: predicted against measured time."""
    target, pairs = resolve("cpu"), []
    for name in names:
        graph = _graph(name)
        for cores in (1, CORES):
            problem = build(graph, Costs(target.on(target.machine.sized(cores))), cores)
            with tempfile.TemporaryDirectory() as folder:
                for number in range(count // 2):
                    random = np.random.default_rng(number)
                    solution = sample(problem, random, _weights(problem, 10.0 ** random.uniform(-1.5, 1.0)))
                    path = _write(problem, solution.chosen, Path(folder) / "plan.edge")
                    measured = _measure([path], 3)[0]
                    pairs.append({"network": name, "cores": cores, "predicted": solution.cost, "measured": measured})
    errors = [abs(p["predicted"] - p["measured"]) / p["measured"] for p in pairs]
    found: dict[str, object] = {
        "plans": len(pairs),
        "median_error": statistics.median(errors),
        "rank_correlation": _rank_correlation([p["predicted"] for p in pairs], [p["measured"] for p in pairs]),
        "pairs": pairs,
    }
    rows = []
    for name in names:
        for cores in (1, CORES):
            own = [p for p in pairs if (p["network"], p["cores"]) == (name, cores)]
            error = statistics.median(abs(p["predicted"] - p["measured"]) / p["measured"] for p in own)
            rank = _rank_correlation([p["predicted"] for p in own], [p["measured"] for p in own])
            rows.append([name, cores, len(own), f"{error:.1%}", rank])
    table(
        "predicted against measured time of random plans",
        ["network", "cores", "plans", "median error", "rank corr."],
        rows,
    )
    print(
        f"all {len(pairs)}: median error {found['median_error']:.1%}, rank correlation {found['rank_correlation']:.3f}"
    )
    return found


def _weights(problem: Problem, temperature: float) -> list[np.ndarray]:
    """Chances of choices: the smaller the temperature, the more the locally cheap ones are preferred."""
    found = []
    for own in problem.own:
        possible = np.where(own >= IMPOSSIBLE, np.inf, own)
        least = possible.min()
        found.append(
            np.exp(-(possible / least - 1) / temperature) + 1e-12 * (own < IMPOSSIBLE)
            if least > 0
            else np.ones(len(own))
        )
    return found


def _write(problem: Problem, chosen: Sequence[int], path: Path) -> Path:
    choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
    program = schedule(problem.graph, problem.costs.target, choices, problem.cores)
    write_bundle(Bundle("benchmark", problem.graph.name, (program,), ()), path)
    return path


def _measure(paths: Sequence[Path], turns: int) -> list[float]:
    """Median seconds of each bundle, in turns."""
    sessions = [edgert.load(path, integrity="metadata", threads=CORES) for path in paths]
    for session in sessions:
        bind_all(session)
        session.run()
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(turns):
        for session, own in zip(sessions, times, strict=True):
            session.run()
            for _ in range(4):
                begin = time.perf_counter()
                session.run()
                own.append(time.perf_counter() - begin)
    for session in sessions:
        session.close()
    return [statistics.median(own) for own in times]


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's."""
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])
