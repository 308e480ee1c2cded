"""What the measured times of all engines amount to: speed-ups, means, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers import ENGINES
from benchmarks.report import geometric_mean, table

__all__ = [
    "BASE",
    "DENSE",
    "US",
    "Case",
    "Row",
    "best_peer",
    "group_of",
    "label",
    "show",
    "slower",
    "speedups_of",
    "threads_of",
]

US, DENSE, BASE = "edgert", "edgert-dense", "onnxruntime"

Case = tuple[str, int | None, int]
"""Network, percent of zeros (None: those of a really pruned one), threads."""


@dataclass(frozen=True, slots=True)
class Row:
    """One engine on one network.

    `floor_ms`: operations on weights other than zero at the peak of all threads; 0 for networks in bytes.
    `page_in_ms`: to map our bundle and touch its pages, and those of as much new memory as a session has. Errors
    against float64: `error`, the largest of the outputs, as a part of the largest output; `rms_error`, root mean
    square. `slow_turns`, a start among them, count though the cores were far from each other, for want of better ones.
    `failed`: why the engine does not count, or nothing; then all times are 0.
    """

    network: str
    zeros: int | None
    threads: int
    engine: str
    ms: float = 0.0
    least_ms: float = 0.0
    runs: int = 0
    discarded_turns: int = 0
    slow_turns: int = 0
    floor_ms: float = 0.0
    page_in_ms: float = 0.0
    open_ms: float = 0.0
    hashed_open_ms: float = 0.0
    first_ms: float = 0.0
    peak_mb: float = 0.0
    file_mb: float = 0.0
    error: float = 0.0
    rms_error: float = 0.0
    failed: str = ""

    @property
    def case(self) -> Case:
        return self.network, self.zeros, self.threads


def slower(now: dict[Case, float], then: dict[Case, float], tolerance: float) -> dict[Case, float]:
    """The cases whose speed-up became less than it was by more than the tolerance, with the ratio."""
    ratios = {case: now[case] / then[case] for case in now if case in then}
    return {case: ratio for case, ratio in ratios.items() if ratio < 1 - tolerance}


def speedups_of(rows: Iterable[Row]) -> dict[Case, dict[str, float]]:
    """Of the engines that count, over onnxruntime, by case."""
    ms: dict[Case, dict[str, float]] = {}
    for row in rows:
        if not row.failed:
            ms.setdefault(row.case, {})[row.engine] = row.ms
    return {case: {engine: own[BASE] / time for engine, time in own.items()} for case, own in ms.items() if BASE in own}


def best_peer(own: dict[str, float]) -> tuple[str, float]:
    """The fastest peer that computes as the network says, and its speed-up."""
    peers = {e: speed for e, speed in own.items() if ENGINES[e].environment and not ENGINES[e].reduced}
    best = max(peers, key=lambda engine: peers[engine])
    return best, peers[best]


def show(rows: Sequence[Row]) -> None:
    speedups = speedups_of(rows)
    present = [engine for engine in ENGINES if any(row.engine == engine for row in rows)]
    by_case: dict[Case, dict[str, Row]] = {}
    for row in rows:
        by_case.setdefault(row.case, {})[row.engine] = row
    groups = dict.fromkeys((group_of(zeros), threads) for _, zeros, threads in by_case)
    for group, threads in groups:
        cases = [case for case in by_case if (group_of(case[1]), case[2]) == (group, threads)]
        shown: list[list[object]] = []
        for case in cases:
            own = by_case[case]
            cells: list[object] = [_ms(own[e].ms) if e in own and not own[e].failed else "-" for e in present]
            ours, speed = own.get(US), speedups.get(case, {})
            if ours is None or ours.failed or US not in speed:
                shown.append([case[0], *cells, "-", "-", "-", "-"])
                continue
            best, peer = best_peer(speed)
            over = [speed[US], speed[US] / peer, best]
            shown.append([case[0], *cells, *over, f"{ours.floor_ms / ours.ms:.0%}" if ours.floor_ms else "-"])
        header = ["network", *present, f"over {BASE}", "over best peer", "which", "of the floor"]
        table(f"{group}, {threads_of(threads)}: milliseconds", header, shown)
        _print_means([speedups[case] for case in cases if case in speedups], present)
    _show_dense(speedups)
    _show_reduced(speedups)
    table(
        f"opening (ours hashed), first run, memory, size, error (root mean square over {BASE}'s); 1e6 bytes; "
        "start: opening and first run, in steady runs and page-ins (of the bundle and of new memory)",
        [
            "network",
            "threads",
            "engine",
            "open ms",
            "hashed",
            "first ms",
            "page-in",
            "steady ms",
            "start",
            "peak MB",
            "file MB",
            "error",
            "rms over",
        ],
        [
            [
                label(r.network, r.zeros),
                r.threads,
                r.engine,
                _ms(r.open_ms),
                _ms(r.hashed_open_ms) if r.hashed_open_ms else "",
                _ms(r.first_ms),
                _ms(r.page_in_ms) if r.page_in_ms else "",
                _ms(r.ms),
                f"{(r.open_ms + r.first_ms) / (r.ms + r.page_in_ms):.2f}" if r.page_in_ms else "",
                r.peak_mb,
                r.file_mb,
                f"{r.error:.0e}",
                _over_base(r, by_case[r.case]),
            ]
            for r in rows
            if not r.failed
        ],
    )
    for case in dict.fromkeys(row.case for row in rows if row.slow_turns):
        print(f"{label(*case[:2])}, {threads_of(case[2])}: the traffic between cores was slow, times may not be right")
    for row in rows:
        if row.failed:
            print(f"{label(row.network, row.zeros)}, {threads_of(row.threads)}: without {row.engine}: {row.failed}")


def _show_dense(speedups: Mapping[Case, Mapping[str, float]]) -> None:
    """How many times as fast as without zeros ours is with few of them, in the same turns."""
    found = {case: own[US] / own[DENSE] for case, own in speedups.items() if {US, DENSE} <= own.keys()}
    for zeros, threads in dict.fromkeys(case[1:] for case in found):
        own = ", ".join(f"{case[0]} {speed:.2f}" for case, speed in found.items() if case[1:] == (zeros, threads))
        print(f"{group_of(zeros)}, {threads_of(threads)}: speed over that without: {own}")


def _show_reduced(speedups: Mapping[Case, Mapping[str, float]]) -> None:
    """Our bf16 over OpenVINO's."""
    for threads in dict.fromkeys(case[2] for case in speedups):
        both = {
            case: own["edgert-bf16"] / own["openvino-bf16"]
            for case, own in speedups.items()
            if case[2] == threads and {"edgert-bf16", "openvino-bf16"} <= own.keys()
        }
        if both:
            own = ", ".join(f"{label(*case[:2])} {speed:.2f}" for case, speed in both.items())
            mean = geometric_mean(list(both.values()))
            print(f"bf16 over OpenVINO's, {threads_of(threads)}: {own}; geometric mean {mean:.2f}")


def _print_means(speedups: Sequence[dict[str, float]], engines: Sequence[str]) -> None:
    """Geometric means over the cases that both have."""
    if not any(US in own for own in speedups):
        return
    ours = [own for own in speedups if US in own]
    over_best = geometric_mean([own[US] / best_peer(own)[1] for own in ours])
    parts = [f"best peer {over_best:.2f}"]
    for engine in engines:
        both = [own[US] / own[engine] for own in ours if engine in own]
        if engine != US and both:
            parts.append(f"{engine} {geometric_mean(both):.2f} ({len(both)})")
    print(f"geometric mean of our speed over (networks): {', '.join(parts)}")


def _over_base(row: Row, case: dict[str, Row]) -> str:
    """Its root mean square error in multiples of onnxruntime's on the same network."""
    base = case.get(BASE) if row.engine != DENSE else None
    return f"{row.rms_error / base.rms_error:.2f}" if base is not None and base.rms_error > 0 else "-"


def group_of(zeros: int | None) -> str:
    return "really pruned" if zeros is None else "dense" if zeros == 0 else f"{zeros} % zeros"


def label(name: str, zeros: int | None) -> str:
    return name if zeros is None else f"{name} {zeros} %"


def threads_of(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _ms(ms: float) -> str:
    """To the digits that measuring can tell."""
    return f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"
