"""This program and its peers on the same networks, dense and with zeros, also quantised: speed, opening, memory, size.

For each network, number of zeros and of threads every engine loads the network in a process of its own and has to give
the outputs of a float64 evaluation before it counts. Then they run in short turns, one after the other and all others
stopped. With two threads, turns and starts do not count before or after which the traffic between the cores was slow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.environments import PeerError
from benchmarks.machine import Traffic, peak_gflops
from benchmarks.networks import NAMES, PRUNED, QUICK, Network, network
from benchmarks.peers import ENGINES, Peer
from benchmarks.picture import draw
from benchmarks.quantized import quantized
from benchmarks.report import RESULTS, save, table
from benchmarks.standings import BASE, DENSE, US, Case, Row, label, show, slower, speedups_of, threads_of

__all__ = ["add_arguments", "main", "run"]

T = TypeVar("T")

ZEROS, QUANTIZED_ZEROS = (0, 50, 90), (0, 80, 90)
QUANTIZED = ("edgert", "onnxruntime", "openvino")  # engines that take networks in bytes as they are
FEW = 50  # percent, at which all but a few networks have no peers but themselves without zeros: they must not be slower
MORE_ZEROS = {"resnet50": (80, 95)}
TOLERANCE = {False: 3e-2, True: 4e-1}  # of the largest output, for float32 (Winograd included) and for less
STARTS = 4  # of ours, of which the fastest counts: others' are longer by far than what disturbs them;
QUICK_STARTS, QUICK_MS = 12, 4.0  # so many where a run takes less than that
LEAST_TURNS, ENOUGH = 3, 1.5  # seconds of runs, after which there are no more turns
PATIENCE = 20.0  # seconds of the turns of a case, and of its starts, in which those with slow traffic do not count
GUARD = 0.10  # how much less the speed-up over onnxruntime may be than the committed one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--networks", nargs="+", choices=[*NAMES, *PRUNED], help="by default all")
    parser.add_argument("--zeros", nargs="+", type=int, help="percent of the weights; the really pruned have their own")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", nargs="*", choices=[name for name in ENGINES if name != US], help="by default all")
    parser.add_argument("--turns", type=int, default=5, help="of every engine in each case")
    parser.add_argument("--seconds", type=float, default=0.12, help="that a turn takes, an untimed run not counted")
    parser.add_argument(
        "--quantized", action="store_true", help="the networks in bytes (QDQ), of engines that take them"
    )
    parser.add_argument("--output", type=Path, help="where the result goes; needed if not everything is measured")
    parser.add_argument("--guard", action="store_true", help="compare with the committed result, fail if it is worse")


def run(quick: bool = False) -> None:
    """Measure everything, or a little of it."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    main(parser.parse_args(["--networks", *QUICK, "--turns", "3"] if quick else []))


def main(options: argparse.Namespace) -> None:
    """Print the tables; save results/cpu.json and a picture if everything was measured."""
    if options.guard:
        sys.exit(_guard(options))
    engines = [name for name in _engines(options.peers) if name in QUANTIZED or not options.quantized]
    peak = peak_gflops()
    print(f"peak of one core: {peak:.1f} GFLOP/s")
    rows = _measure(_cases(options), engines, options, peak)
    result = {"peak_gflops": peak, "turns": options.turns, "seconds": options.seconds, "rows": list(map(asdict, rows))}
    show(rows)
    whole = options.networks is None and options.zeros is None and options.peers is None and options.threads == [1, 2]
    name = "quantized" if options.quantized else "cpu"
    path = options.output or (RESULTS / f"{name}.json" if whole else None)
    if path is None:
        print("\nonly a part was measured: not saved (--output FILE)")
        return
    save(name, result, path)
    path.with_suffix(".svg").write_text(draw(speedups_of(rows)))


def _engines(peers: Sequence[str] | None) -> list[str]:
    """Ours and its peers; DeepSparse's licence is for evaluation, so continuous integration leaves it out."""
    known = [name for name in ENGINES if name != "deepsparse" or "CI" not in os.environ]
    return [name for name in known if name == US or peers is None or name in peers]


def _cases(options: argparse.Namespace) -> list[Case]:
    usable = len(os.sched_getaffinity(0))
    found: list[tuple[str, int | None]] = []
    for name in options.networks or (*NAMES, *PRUNED):
        if name in PRUNED:
            found.append((name, None))
        else:
            own = QUANTIZED_ZEROS if options.quantized else (*ZEROS, *MORE_ZEROS.get(name, ()))
            found += [(name, zeros) for zeros in options.zeros or own]
    return [(name, zeros, threads) for name, zeros in found for threads in options.threads if threads <= usable]


# ---- measuring ----


def _measure(cases: Sequence[Case], engines: Sequence[str], options: argparse.Namespace, peak: float) -> list[Row]:
    traffic = Traffic()
    rows: list[Row] = []
    for number, (name, zeros, threads) in enumerate(cases):
        began = time.monotonic()
        net = network(name, zeros)
        net = quantized(net) if options.quantized else net
        own = _case(net, threads, engines, options, traffic, peak)
        rows += own
        times = "  ".join(f"{row.engine} {row.ms:.2f}" for row in own if not row.failed)
        title = f"[{number + 1}/{len(cases)}] {label(name, zeros)}, {threads_of(threads)}"
        print(f"{title}, {time.monotonic() - began:.0f} s: {times}", flush=True)
    return rows


def _case(
    net: Network, threads: int, engines: Sequence[str], options: argparse.Namespace, traffic: Traffic, peak: float
) -> list[Row]:
    """A row for each engine, times in turns of all of them."""
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        peers: dict[str, tuple[Peer, float, float]] = {}
        for engine in engines:
            if not _counts(engine, net):
                continue
            try:
                of = network(net.name, 0) if engine == DENSE else net
                peer = stack.enter_context(_peer(engine, of, threads))
                error = _error(peer.outputs, of.outputs)
                if error > TOLERANCE[ENGINES[engine].reduced or options.quantized]:
                    raise PeerError(f"wrong outputs: off by {error:.1e} of the largest")
                peers[engine] = peer, error, _rms_error(peer.outputs, of.outputs)
            except PeerError as reason:
                print(f"{engine} does not count on {label(net.name, net.zeros)}: {reason}", file=sys.stderr)
                rows.append(Row(net.name, net.zeros, threads, engine, failed=str(reason)))
        times: dict[str, list[float]] = {engine: [] for engine in peers}
        discarded, slow = dict.fromkeys(peers, 0), dict.fromkeys(peers, 0)
        watched, until = traffic if threads > 1 else None, time.monotonic() + PATIENCE
        for turn in range(options.turns):
            for engine, (peer, *_) in peers.items():
                if turn < LEAST_TURNS or sum(times[engine]) < ENOUGH:
                    found, lost, late = _calm(partial(peer.turn, options.seconds), watched, until)
                    times[engine] += found
                    discarded[engine] += lost
                    slow[engine] += late
        for engine, (peer, error, rms) in peers.items():
            quick = statistics.median(times[engine]) * 1e3 < QUICK_MS
            start = peer.start
            if engine == US:
                until = time.monotonic() + PATIENCE
                start = _start(net, threads, QUICK_STARTS if quick else STARTS, watched, until)
                slow[engine] += int(start.pop("slow"))
            rows.append(
                Row(
                    net.name,
                    net.zeros,
                    threads,
                    engine,
                    ms=statistics.median(times[engine]) * 1e3,
                    least_ms=min(times[engine]) * 1e3,
                    runs=len(times[engine]),
                    discarded_turns=discarded[engine],
                    slow_turns=slow[engine],
                    floor_ms=net.flops / (peak * threads) * 1e-6,
                    file_mb=peer.bytes() * 1e-6,
                    error=error,
                    rms_error=rms,
                    **start,
                )
            )
    return sorted(rows, key=lambda row: list(ENGINES).index(row.engine))


def _peer(engine: str, net: Network, threads: int, **settings: str) -> Peer:
    return Peer(engine, net.onnx, net.x, [y.shape for y in net.outputs], threads, settings)


def _counts(engine: str, net: Network) -> bool:
    """Whether an engine is measured on a network: nothing twice, less than float32 with dense ones only."""
    if engine == DENSE:
        return net.zeros == FEW
    if net.zeros == FEW and net.name not in MORE_ZEROS:
        return engine in (US, BASE)
    if engine == "mnn-sparse":  # without zeros the same as mnn
        return net.zeros != 0
    return net.zeros == 0 or not ENGINES[engine].reduced


def _start(net: Network, threads: int, count: int, traffic: Traffic | None, until: float) -> dict[str, float]:
    """The fastest of so many starts of ours, of those with fast traffic if there are any; the least times of paging in
    and of opening with all weights hashed."""

    def start() -> dict[str, float]:
        with _peer(US, net, threads) as peer:
            return peer.start

    found, hashed = [], []
    for _ in range(count):
        one, _, slow = _calm(start, traffic, until)
        found.append({**one, "slow": slow})
        with _peer(US, net, threads, integrity="full") as peer:
            hashed.append(peer.start["open_ms"])
    fastest = min(found, key=lambda start: (start["slow"], start["open_ms"] + start["first_ms"]))
    page_in_ms = min(start["page_in_ms"] for start in found)
    return {**fastest, "page_in_ms": page_in_ms, "hashed_open_ms": min(hashed)}


def _calm(measure: Callable[[], T], traffic: Traffic | None, until: float) -> tuple[T, int, bool]:
    """What is measured, how many times it was thrown away before, and whether it counts though the traffic between
    cores was slow: from the time `until` it does."""
    discarded = 0
    while True:
        late = time.monotonic() > until
        slow = traffic is not None and traffic.slow()
        if not slow or late:
            found = measure()
            slow = slow or (traffic is not None and traffic.slow())
            if not slow or late:
                return found, discarded, slow
            discarded += 1
        time.sleep(0.05)


def _error(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference of an output's elements, as a part of its largest element."""
    return max(
        float(np.abs(y - wanted).max() / np.abs(wanted).max()) if np.isfinite(y).all() else float("inf")
        for y, wanted in zip(found, expected, strict=True)
    )


def _rms_error(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Root mean square error of all outputs' elements. Where they are probabilities, of their logarithms but for the
    mean, which are the scores before the softmax: one class's error is not that of all."""
    squares, count = 0.0, 0
    for y, wanted in zip(found, expected, strict=True):
        squares += float(((_scores(y) - _scores(wanted)) ** 2).sum())
        count += y.size
    return (squares / count) ** 0.5


def _scores(y: np.ndarray) -> np.ndarray:
    flat: np.ndarray = y.astype(np.float64).ravel()
    if flat.min() <= 0 or abs(flat.sum() - 1) > 1e-3:
        return flat
    return np.asarray(np.log(flat) - np.log(flat).mean())


# ---- the guard ----


def _guard(options: argparse.Namespace) -> int:
    """Measure against onnxruntime alone what was committed; 1 if any case is slower twice in a row."""
    path = RESULTS / "cpu.json"
    committed = [Row(**row) for row in json.loads(path.read_text())["result"]["rows"]]
    then = {case: own[US] for case, own in speedups_of(committed).items() if US in own}
    cases = [case for case in _cases(options) if case in then]
    found: dict[Case, float] = {}
    for _ in range(2):
        rows = _measure(cases, [US, BASE], options, peak_gflops())
        now = {case: own[US] for case, own in speedups_of(rows).items() if US in own}
        found |= {case: max(speed, found.get(case, 0.0)) for case, speed in now.items()}
        worse = slower(found, then, GUARD)
        lost = [case for case in cases if case not in found]
        cases = [*worse, *lost]
        if not cases:
            break
    table(
        f"speed-up over {BASE}, committed and now",
        ["network", "threads", "committed", "now", "ratio"],
        [[label(*case[:2]), case[2], then[case], now, now / then[case]] for case, now in found.items()],
    )
    for name, zeros, threads in cases:
        print(
            f"slower than {path.name} by more than {GUARD:.0%}, or failed: {label(name, zeros)}, {threads_of(threads)}"
        )
    return 1 if cases else 0
