"""The ten convolutions in all our tiers and by others, at batch 64 and 1, dense and sparse.

Warm: calls follow each other in a graph. Cold, at batch 1: before each call twice the second cache is written, and the
time of that is subtracted.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cuda_operators import OPERATORS
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.boards import board_of
from benchmarks.gpu.codes import Case, maker
from benchmarks.gpu.driver import Buffer, Event, Graph, call, fill
from benchmarks.gpu.modules import Loaded
from benchmarks.gpu.placed import HALVES, TIERS, Data, Placed, error, references
from benchmarks.gpu.timing import Contender
from benchmarks.report import table
from targets.cuda.layer import ConvLayer

if TYPE_CHECKING:
    from benchmarks.gpu.torch_layers import TorchLayers

__all__ = ["BATCHES", "SPARSITIES", "operators"]

SPARSITIES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
BATCHES = (64, 1)
_LIMITS = {HALVES: 3e-3}  # of the relative error
_LIMIT = 1e-5
_CALLS = 10  # in a graph, of what is short
_SHORT = 2e-4  # seconds
_SECONDS = 1.5  # of a convolution at one batch
_NOT_WRITTEN = 0xFF  # a byte of which floats are no numbers
_LAST = "alexnet-conv2"  # of a batch: compilers take longest for it
_SMALL = ("lenet-conv1",)  # what the emulator does


@dataclass(frozen=True, slots=True)
class _Entrant:
    """What is timed: `form` is a tier or a peer; `one` gives one call to the stream, `many` so many `calls`."""

    form: str
    way: str
    sparsity: float
    error: float | None
    one: Callable[[], None]
    many: Callable[[], None]
    calls: int


def operators(bench: Bench) -> None:
    """Times of all of them, each checked against float64 first."""
    session = bench.session
    names = _SMALL if session.emulated else sorted(OPERATORS, key=_LAST.__eq__)
    sparsities = SPARSITIES[-2:-1] if session.emulated else SPARSITIES
    batches = tuple(min(batch, 2) if session.emulated else batch for batch in BATCHES)
    with maker(board_of(bench)) as making:
        waiting = {(name, batch): making.submit(name, batch, sparsities) for batch in batches for name in names}
        modules: dict[str, Loaded] = {}
        for (name, batch), future in waiting.items():
            what = f"{name}, batch {batch}"
            timed = {(row["operator"], row["batch"]) for row in session.rows("operators")}
            if (name, batch) not in timed and not session.harmful(what) and not session.over(what):
                with session.attempt(what):
                    own = future.result()
                    made = (other for other in waiting.values() if other.done() and not other.exception())
                    for case in (own, *(other.result() for other in made)):
                        _load(bench, case, modules)  # compilers work on those of later ones meanwhile
                    _measure(bench, name, batch, own, modules)
    _show(bench)


def _load(bench: Bench, case: Case, modules: dict[str, Loaded]) -> None:
    """Modules of the case's kernels, by their text, unless they are there."""
    for made in case.made:
        for kernel in made.code.kernels:
            if kernel.ptx not in modules:
                modules[kernel.ptx] = bench.modules.load(kernel.ptx)
    for note in case.notes:
        if note not in bench.session.notes():
            bench.session.note(note)


def _measure(bench: Bench, name: str, batch: int, case: Case, modules: Mapping[str, Loaded]) -> None:
    """All ways and all peers."""
    session, dense, entrants = bench.session, case.layers[0.0], list[_Entrant]()
    with ExitStack() as stack:
        data, flush = Data(dense), Buffer(2 * bench.device.l2)
        stack.callback(data.free)
        stack.callback(flush.free)
        want = references(case.layers, data)
        for made in case.made:
            what = f"{name}, batch {batch}, {made.way} {made.sparsity}"
            if session.over(what):
                break
            if session.harmful(what):
                continue
            with session.attempt(what):
                one = Placed.of(made.code, [modules[kernel.ptx] for kernel in made.code.kernels], data.x, data.y)
                stack.callback(one.free)
                fill(data.y, _NOT_WRITTEN, bench.stream)
                one.launch(bench.stream)
                call("cuStreamSynchronize", bench.stream)
                wrong = error(case.layers[made.sparsity], data, want[made.sparsity])
                _within(wrong, _LIMITS.get(made.tier, _LIMIT))
                calls = _calls(bench, partial(one.launch, bench.stream))
                graphs = [_graph(bench, one, count) for count in (1, calls)]
                for graph in graphs:
                    stack.callback(graph.free)
                ways = (partial(graph.launch, bench.stream) for graph in graphs)
                entrants.append(_Entrant(made.tier, made.way, made.sparsity, wrong, *ways, calls))
        if (torch_layers := _pytorch(bench)) is not None:
            stack.callback(torch_layers.release)
            sparse = {sparsity: own for sparsity, own in case.layers.items() if sparsity}
            others = torch_layers.TorchLayers(dense, sparse, data.images, bench.stream, session.emulated)
            entrants += _others(bench, name, others, want)
            del others
        _time(bench, name, batch, dense, entrants, flush)
        entrants.clear()


def _calls(bench: Bench, launch: Callable[[], None]) -> int:
    """How many of these calls a graph has: one that takes long is measured by itself."""
    if bench.session.emulated:
        return 1
    begin, end = Event(), Event()
    begin.record(bench.stream)
    launch()
    end.record(bench.stream)
    return _CALLS if end.seconds_since(begin) < _SHORT else 1


def _graph(bench: Bench, one: Placed, calls: int) -> Graph:
    def work() -> None:
        for _ in range(calls):
            one.launch(bench.stream)

    return Graph(bench.stream, work)


def _pytorch(bench: Bench) -> ModuleType | None:
    """The peers, where PyTorch is."""
    try:
        return importlib.import_module("benchmarks.gpu.torch_layers")
    except ImportError as error:
        if not bench.session.rows("operators"):
            bench.session.note(f"no peers: {error}")
        return None


def _others(bench: Bench, name: str, others: TorchLayers, want: Mapping[float, np.ndarray]) -> Iterator[_Entrant]:
    """What PyTorch brings."""
    for form, make in others.peers():
        what = f"{name}, batch {others.layer.images}, {form}"
        if bench.session.over(what):
            return
        if bench.session.harmful(what):
            continue
        with bench.session.attempt(what):
            peer, wrong = make(), None
            if peer.limit is not None:
                exact = want[peer.sparsity]
                wrong = _within(float(np.linalg.norm(others.checked(peer) - exact) / np.linalg.norm(exact)), peer.limit)
            one = others.launcher(peer, 1)
            calls = _calls(bench, one)
            many = one if calls == 1 else others.launcher(peer, calls)
            yield _Entrant(form, form, peer.sparsity, wrong, one, many, calls)


def _time(bench: Bench, name: str, batch: int, dense: ConvLayer, entrants: list[_Entrant], flush: Buffer) -> None:
    """A row for each."""
    emptying = partial(fill, flush, 0, bench.stream)

    def cold(one: _Entrant) -> Callable[[], None]:
        def launch() -> None:
            emptying()
            one.one()

        return launch

    work = {str(number): Contender(one.many, one.calls) for number, one in enumerate(entrants)}
    times = bench.times(work, _SECONDS)
    flushed = {}
    if batch == 1:
        work = {str(number): Contender(cold(one)) for number, one in enumerate(entrants)}
        flushed = bench.times({"": Contender(emptying), **work}, _SECONDS)
    for number, one in enumerate(entrants):
        warm = times[str(number)]
        bench.session.row(
            operator=name,
            batch=batch,
            form=one.form,
            way=one.way,
            sparsity=one.sparsity,
            error=one.error,
            dense_gflops=dense.flops / warm.median * 1e-9,
            cold=flushed[str(number)].median - flushed[""].median if flushed else None,
            **warm.asdict(),
        )
    bench.session.save()


def _within(error: float, limit: float) -> float:
    """The relative error; no number is none within."""
    if not error < limit:
        raise ValueError(f"relative error {error:.2g}, expected less than {limit:g}")
    return error


def _show(bench: Bench) -> None:
    """Microseconds of the best of ours at each sparsity and of the best of others."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in bench.session.rows("operators"):
        groups.setdefault((row["operator"], row["batch"]), []).append(row)
    sparsities = sorted({row["sparsity"] for rows in groups.values() for row in rows if row["form"] in TIERS})
    shown = []
    for (name, batch), rows in groups.items():
        cells: list[object] = [name, batch]
        for sparsity in sparsities:
            own = [r for r in rows if r["form"] in TIERS and r["sparsity"] == sparsity and r["form"] != HALVES]
            best = min(own, key=lambda row: float(row["median"]), default=None)
            cells.append("-" if best is None else f"{best['median'] * 1e6:.1f} {best['form']}")
        for kind in ("cuDNN f32", "cuDNN tf32", "cuDNN fp16", "cuSPARSE"):
            found = [r["median"] for r in rows if r["form"].startswith(kind) and "half the" not in r["form"]]
            cells.append(min(found, default=math.nan) * 1e6)
        shown.append(cells)
    header = ("operator", "batch", *(f"ours {s}" for s in sparsities), "cuDNN f32", "tf32", "fp16", "cuSPARSE")
    table("microseconds, ours best in float32 at each sparsity", header, shown)
