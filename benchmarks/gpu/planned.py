"""The planner judged by networks and layers that no rate of its model was fitted to: predicted times beside measured
ones, and plans made with and without those."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.packed import Entrant, Network, error_of, packed
from benchmarks.gpu.timing import walls
from benchmarks.gpu.tuned import STORAGE, Tuner
from benchmarks.gpu.unseen import TINY, UNSEEN
from benchmarks.report import geometric_mean, table
from targets.cuda.ranking import tier_of

__all__ = ["over_best", "planned", "ratios"]

_ZEROS = (0.0, 0.9)  # what dense ones leave of their time is for those after them
_SECONDS = 1.0  # of the plans of a network, in turns
_PART = 0.6  # of a network's time, in which candidates are measured; the other is for its plans


def planned(bench: Bench) -> None:
    """Rows of candidates, which have an "algorithm", and of plans, which have a "plan"; facts about all of them."""
    session, networks = bench.session, TINY if bench.session.emulated else UNSEEN
    cases = [(name, zeros) for name in networks for zeros in _ZEROS]
    seen = {(row["network"], row["zeros"]) for row in session.rows("planned")}  # before the device was lost
    with Tuner(bench) as tuner:
        try:
            for number, (name, zeros) in enumerate(cases):
                what = f"{name}, {zeros} zeros"
                if (name, zeros) in seen or session.harmful(what) or session.over(what):
                    continue
                share = session.left() / (len(cases) - number)
                with session.attempt(what):
                    network = Network.of(name, zeros, networks[name]())
                    for one in tuner.timed(network, _PART * share):
                        session.row(network=name, zeros=zeros, **asdict(one))
                    _plans(bench, network, tuner)
        finally:  # before waiting for processes
            _judge(bench)


def _plans(bench: Bench, network: Network, tuner: Tuner) -> None:
    """A row for the network as the model alone plans it, and one with what was measured."""
    with ExitStack() as stack:
        entrants, errors = dict[str, Entrant](), dict[str, float]()
        for plan, measured in (("model", None), ("records", tuner.measured())):
            one = entrants[plan] = packed(bench, network, stack, STORAGE, measured)
            errors[plan] = error_of(one, network.want)
        times = walls({plan: one.run for plan, one in entrants.items()}, _SECONDS, bench.session.emulated)
        for plan, one in entrants.items():
            facts = {"plan": plan, "error": errors[plan], **one.facts, **times[plan].asdict()}
            bench.session.row(network=network.name, zeros=network.zeros, **facts)
    bench.session.save()


def _judge(bench: Bench) -> None:
    """Facts about all rows, as tables too."""
    rows = bench.session.rows("planned")
    timed, plans = ([row for row in rows if kind in row] for kind in ("algorithm", "plan"))
    predicted, (steps, mean) = ratios(timed), over_best(timed)
    bench.session.put(predicted_over_measured=predicted, first_over_best={"steps": steps, "mean": mean})
    cells = [[f"{r['network']} {r['zeros']}", r["plan"], r["predicted"] * 1e3, r["median"] * 1e3] for r in plans]
    table("plans, milliseconds on the host", ("network", "by", "predicted", "measured"), cells)
    cells = [[tier, own["count"], own["mean"], own["factor"]] for tier, own in predicted.items()]
    table("candidates, predicted over measured", ("tier", "count", "geometric mean", "deviation"), cells)
    table("steps, the model's first over the best", ("of", "steps", "geometric mean"), [["all", steps, mean]])


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Predicted over measured times of candidates, of all and of each tier: how many, their geometric mean, and the
    factor that is their standard deviation."""
    groups: dict[str, list[float]] = {"all": []}
    for row in rows:
        for tier in ("all", tier_of(row["algorithm"])):
            groups.setdefault(tier, []).append(math.log(row["predicted"] / row["measured"]))
    return {
        tier: {"count": len(own), "mean": math.exp(np.mean(own)), "factor": math.exp(np.std(own))}
        for tier, own in groups.items()
        if own
    }


def over_best(rows: Sequence[Mapping[str, Any]]) -> tuple[int, float | None]:
    """Steps of which several candidates were measured; and how many times as long as the best of them those take that
    the model ranks first, in the geometric mean; None without such steps."""
    steps: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        steps.setdefault((row["network"], row["zeros"], row["step"]), []).append(row)
    found = [
        min(own, key=lambda row: float(row["predicted"]))["measured"] / min(row["measured"] for row in own)
        for own in steps.values()
        if len(own) > 1
    ]
    return len(found), geometric_mean(found) if found else None
