"""Calibration: the figures of a machine that its cost model predicts with, found by running small programs on it.

Every figure has work that depends on it most. Its time is measured, and the figure becomes the one at which the
target's model predicts that time. Caches are taken as they are said to be; clock and vectors, too, but that a core may
have two multipliers: what they do not explain goes into the efficiencies.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from edgert import __version__
from packer.bundle.model import Bundle, Program
from packer.bundle.writer import write_bundle
from packer.ir import DType, Graph, Node, TensorType, Value, whole
from packer.ir.ops import Cast, Conv, Op, Pool, QuantizedConv, Reduce, Softmax, Transpose, Unary
from packer.planner.choices import Choice
from packer.planner.schedule import schedule
from packer.planner.split import NONE, Piece, Split
from packer.tune.campaign import Measure
from packer.tune.probe import probe
from targets.base import Form, Layout, Target, Work, resolve, stored_bytes
from targets.machine import Core, Efficiency, Machine

__all__ = ["MeasureRun", "calibrate", "starting_point"]

MeasureRun = Callable[[Path, int], float]
"""Seconds of one run of the bundle at the path on so many threads, as a whole."""

_RANGE = 64.0  # how many times more or less a figure may be than where it starts
_STEPS = 64  # of a program whose run is timed as a whole
_PASSES = 4  # over memory in such a program
_SMALL, _LARGE = 16, 1 << 16  # floats that pass from core to core
_VECTORS = {"avx512": 64, "avx2": 32, "sse2": 16, "neon": 16}  # bytes, by how an instruction set's name begins
_IN_NETWORKS = 1.0  # efficiency of sparse kernels, at most: alone, processors foresee where their loops end
_FEW = 0.1  # weights of a sparse convolution that are not zero
_TURNS = 6  # of finding two figures, each by means of the other
_MORE = 1.5  # how much faster products are than a core's clock alone explains
_WITHIN, _BEYOND = 0.4, 4.0  # parts of a cache that are in it, and that are not
PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16

_Task = tuple[Work, Form]


def starting_point(
    machine: Machine, name: str, description: str, isa: str, caches: Sequence[tuple[int, int]], cores: int
) -> Machine:
    """A machine that calibration can start from: `machine` with what is known of another one: its instruction set, the
    level and bytes of its caches, its number of cores."""
    sizes = dict(caches)
    own = machine.cores[0]
    core = replace(
        own,
        kind=description,
        vector_bytes=next((size for name, size in _VECTORS.items() if isa.startswith(name)), own.vector_bytes),
        l1_bytes=sizes.get(1, own.l1_bytes),
        l2_bytes=sizes.get(2, own.l2_bytes),
    )
    alike = machine.sized(cores)
    kinds = tuple(core if kind == own else kind for kind in alike.cores)
    return replace(alike, name=name, description=description, cores=kinds, l3_bytes=sizes.get(3, 0))


def calibrate(
    measure: Measure,
    run: MeasureRun | None = None,
    target: Target | None = None,
    progress: Callable[[float], None] | None = None,
) -> Machine:
    """The machine that `measure` and `run` run on, starting from that of `target` (by default "cpu").

    `measure` times a step on one of its fastest cores. `run` times programs of several cores; without it, what cores
    share and how they work together stays as it is.
    """
    fit = _Fit(target or resolve("cpu"), measure, run)
    stages = [fit.start, fit.multipliers, fit.caches, fit.families, fit.code]
    if run is not None and len(fit.machine.cores) > 1:
        stages += [fit.kinds, fit.shared, fit.waiting, fit.transfers]
    for number, stage in enumerate(stages):
        stage()
        if progress:
            progress((number + 1) / len(stages))
    return fit.machine


class _Fit:
    """A machine whose figures are fitted one after the other."""

    def __init__(self, target: Target, measure: Measure, run: MeasureRun | None) -> None:
        self.target = target
        self.measure = measure
        self.run = run
        self.machine = target.machine

    # ---- one core ----

    def start(self) -> None:
        """What a step costs that has nothing to do."""
        work, form = _work(Unary("relu"), (_f32(_SMALL),)), Form((PLANAR,), (PLANAR,))
        rest = self.predicted(replace(self.machine, step_seconds=1e-12), work, form)
        self.machine = replace(self.machine, step_seconds=_rounded(max(self.measured(work, form) - rest, 1e-9)))

    def multipliers(self) -> None:
        """Two where one is taken for granted, if dense products are so much faster; these load twice as much then."""
        core = self.machine.cores[0]
        self.solve_core(0, "dense", _dense())
        if self.machine.cores[0].efficiency.dense > _MORE * core.efficiency.dense:
            twice = replace(core, flops_per_cycle=2 * core.flops_per_cycle, l1_gbps=2 * core.l1_gbps)
            self.machine = _with_core(self.machine, self.machine.cores[0], twice)

    def caches(self) -> None:
        """Bandwidth of each level: of the first one by a depthwise convolution that loads as often as it multiplies;
        of the others by the largest element of as much memory as they hold. All cores reach what one does, or more."""
        core, l3 = self.machine.cores[0], self.machine.l3_bytes
        together = self.machine
        self.machine = replace(self.machine, l3_gbps=math.inf, dram_gbps=math.inf)
        self.solve_core(0, "l1_gbps", _depthwise(_f32(1, 16, 4, 56), 5, 2))
        levels = {"l2_gbps": _WITHIN * core.l2_bytes}
        if l3:
            levels["l3_gbps"] = max(_WITHIN * l3, 2.0 * core.l2_bytes)
        levels["dram_gbps"] = _BEYOND * (l3 or core.l2_bytes)
        for name, size in levels.items():
            self.solve_core(0, name, _reading(size))
        own = self.machine.cores[0]
        self.machine = replace(
            self.machine,
            l3_gbps=max(own.l3_gbps, together.l3_gbps),
            dram_gbps=max(own.dram_gbps, together.dram_gbps),
        )

    def families(self) -> None:
        """Efficiency of each family of kernels, on data in the second cache; and the speed of products of bytes."""
        for name, tasks in _families().items():
            self.solve_core(0, name, *tasks)
        core = self.machine.cores[0]
        most = replace(core.efficiency, sparse=min(core.efficiency.sparse, _IN_NETWORKS))
        self.machine = _with_core(self.machine, core, replace(core, efficiency=most))
        self.solve_core(0, "i8_speed", _bytes())

    def code(self) -> None:
        """Where kernels make instructions: how fast these are, and how fast they are made, by a convolution that hardly
        runs what it makes. Each takes a part of the other's time, so that they are found in turns."""
        if self.machine.cores[0].vector_bytes < 64:
            return
        for _ in range(_TURNS):
            self.solve_core(0, "unrolled", *_sparse("unrolled"))
            self.solve_core(0, "code_speed", _made())

    # ---- several cores ----

    def kinds(self) -> None:
        """Each further kind of cores: its efficiencies by that of dense products, its bandwidths by that of memory."""
        found = self.machine.cores
        first = {core: number for number, core in reversed(list(enumerate(found)))}
        for own, number in sorted(first.items(), key=lambda item: item[1])[1:]:
            for work, form, scaled in (
                (*_dense(), _EFFICIENCIES),
                (*_reading(_BEYOND * max(self.machine.l3_bytes, own.l2_bytes)), _BANDWIDTHS),
            ):
                took = self.chains([number], work, form, _PASSES) / _PASSES
                core = self.machine.cores[number]
                expected = self.predicted(self.machine, work, form, number)
                self.machine = _with_core(self.machine, core, _scaled(core, scaled, expected / took))

    def shared(self) -> None:
        """Bandwidth of all cores together: each reads memory of its own."""
        cores = len(self.machine.cores)
        l2, l3 = self.machine.cores[0].l2_bytes, self.machine.l3_bytes
        if _WITHIN * l3 / cores > 1.5 * l2:
            self.solve_shared("l3_gbps", _WITHIN * l3 / cores)
        self.solve_shared("dram_gbps", _BEYOND * max(l3, l2))

    def solve_shared(self, name: str, size: float) -> None:
        cores = len(self.machine.cores)
        task = _reading(size)
        took = self.chains(range(cores), *task, _PASSES) / _PASSES

        def machine(figure: float) -> Machine:
            changes: dict[str, Any] = {name: figure}
            return replace(self.machine, **changes)

        def predict(figure: float) -> float:
            return max(self.predicted(machine(figure), *task, core, cores) for core in range(cores))

        self.machine = machine(_solved(predict, took, getattr(self.machine, name)))

    def waiting(self) -> None:
        """The barrier, by programs of as many phases as steps: of two cores and of all."""
        cores = len(self.machine.cores)
        work, form = _work(Unary("relu"), (_f32(_SMALL),)), Form((PLANAR,), (PLANAR,))

        def barrier(count: int) -> float:
            together = self.chains(range(count), work, form, _STEPS, apart=True)
            return max((together - self.chains([0], work, form, _STEPS)) / (_STEPS - 1), 1e-9)

        two, all_of_them = barrier(2), barrier(cores)
        more = (all_of_them - two) / (cores - 2) if cores > 2 else self.machine.barrier_seconds_per_core
        more = min(max(more, 1e-10), two / 3)
        self.machine = replace(
            self.machine, barrier_seconds=_rounded(two - 2 * more), barrier_seconds_per_core=_rounded(more)
        )

    def transfers(self) -> None:
        """What it costs that another core wrote what a core reads: values that two cores write in turn."""
        extra = []
        for count in (_SMALL, _LARGE):
            work, form = _work(Unary("relu"), (_f32(count),)), Form((PLANAR,), (PLANAR,))
            times = [self.chains(turns, work, form, _STEPS, pass_on=True) for turns in ([0, 1], [0])]
            extra.append((times[0] - times[1]) / (_STEPS - 1) - self.machine.barrier(2))
        start = max(extra[0], 1e-9)
        pace = max(extra[1] - start, 1e-9) / (4 * _LARGE)
        most = self.machine.cores[0].l1_gbps
        self.machine = replace(
            self.machine, transfer_seconds=_rounded(start), transfer_gbps=_rounded(min(1e-9 / pace, most))
        )

    # ---- measuring and predicting ----

    def measured(self, work: Work, form: Form) -> float:
        """Seconds of a step on a fastest core, all its operands as near as the run before left them."""
        made = probe(work, form, self.target)
        with tempfile.TemporaryDirectory(prefix="edgert-") as folder:
            path = Path(folder) / "probe.edge"
            write_bundle(made.bundle, path, durable=False)
            return self.measure(path, made.step, "l2").seconds

    def chains(
        self, cores: Sequence[int], work: Work, form: Form, steps: int, apart: bool = False, pass_on: bool = False
    ) -> float:
        """Seconds of a run in which each of `cores` does `work` so many times.

        Each on inputs of its own, at the same time; with `apart` they all wait for each other after every step. With
        `pass_on` they do it in turn, each with the output of the one before, `steps` times in all.
        """
        assert self.run is not None
        program = _chains(self.target, cores, work, form, steps, pass_on)
        if apart:
            own = dict.fromkeys(range(program.cores), 0)
            numbered = []
            for step in program.steps:
                numbered.append(replace(step, phase=own[step.core]))
                own[step.core] += 1
            program = replace(program, steps=tuple(sorted(numbered, key=lambda step: step.phase)))
        with tempfile.TemporaryDirectory(prefix="edgert-") as folder:
            path = Path(folder) / "probe.edge"
            write_bundle(Bundle(f"edgert {__version__}", "probe", (program,), ()), path, durable=False)
            return self.run(path, program.cores)

    def predicted(self, machine: Machine, work: Work, form: Form, core: int = 0, active: int = 1) -> float:
        """Seconds of work that is done over and over."""
        own = [stored_bytes(t, lay) for t, lay in zip(work.inputs, form.inputs, strict=True) if t is not None]
        touched = sum(own) + sum(stored_bytes(t, lay) for t, lay in zip(work.outputs, form.outputs, strict=True))
        distances = [touched] * (len(work.inputs) + len(work.outputs))
        if work.op.inplace and work.inputs[0] == work.outputs[0] and form.inputs[0] is form.outputs[0]:
            distances[-1] = 0  # written over its input
        return self.target.on(machine).seconds(work, form, distances, core, active)

    def solve_core(self, number: int, name: str, *tasks: _Task) -> None:
        """Set a figure of a kind of cores such that a task is predicted to take as long as it does; the geometric mean
        of those of several tasks."""
        core = self.machine.cores[number]
        start = getattr(core, name) if hasattr(core, name) else getattr(core.efficiency, name)

        def machine(figure: float) -> Machine:
            return _with_core(self.machine, core, _set(core, name, figure))

        def solved(task: _Task) -> float:
            return _solved(lambda figure: self.predicted(machine(figure), *task, number), self.measured(*task), start)

        found = [solved(task) for task in tasks]
        self.machine = machine(_rounded(geometric_mean(found)))


def _solved(predict: Callable[[float], float], seconds: float, start: float) -> float:
    """The figure at which the prediction, which falls as the figure grows, is `seconds`; `start` if there is none."""
    low, high = start / _RANGE, start * _RANGE
    if not predict(high) < seconds < predict(low):
        return start
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if predict(middle) > seconds else (low, middle)
    return _rounded(math.sqrt(low * high))


def _rounded(figure: float) -> float:
    """To the digits that measuring can tell."""
    return float(f"{figure:.3g}")


_EFFICIENCIES = tuple(field.name for field in fields(Efficiency))
_BANDWIDTHS = ("l2_gbps", "l3_gbps", "dram_gbps")


def _set(core: Core, name: str, figure: float) -> Core:
    changes: dict[str, Any] = {name: figure}
    if name in _EFFICIENCIES:
        changes = {"efficiency": replace(core.efficiency, **changes)}
    return replace(core, **changes)


def _scaled(core: Core, names: Sequence[str], factor: float) -> Core:
    for name in names:
        now = getattr(core.efficiency if name in _EFFICIENCIES else core, name)
        core = _set(core, name, _rounded(now * factor))
    return core


def _with_core(machine: Machine, old: Core, new: Core) -> Machine:
    return replace(machine, cores=tuple(new if core == old else core for core in machine.cores))


# ---- work ----


def _f32(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


def _work(op: Op, inputs: tuple[TensorType, ...]) -> Work:
    """An operator over activations, and constants where it has weights."""
    constant = tuple(i > 0 for i in range(len(inputs)))
    return Work(op, inputs, op.infer(inputs)[:1], constant)


def _reading(bytes: float) -> _Task:
    """Work that reads so much memory and does next to nothing else."""
    return _work(Reduce("max", (0,)), (_f32(max(int(bytes) // 4, _SMALL)),)), Form((PLANAR,), (PLANAR,))


def _depthwise(image: TensorType, kernel: int, dilation: int = 1) -> _Task:
    """A depthwise convolution that keeps the extents of an image; taps apart do not share what they load."""
    channels = image.shape[1]
    op = Conv((1, 1), (kernel // 2 * dilation,) * 4, (dilation,) * 2, channels)
    work = _work(op, (image, _f32(channels, 1, kernel, kernel)))
    return work, Form((BLOCK16, PLANAR), (BLOCK16,), "depthwise")


def _families() -> dict[str, tuple[_Task, ...]]:
    """For each family of kernels, usual work for it."""
    image, blocked, planar = _f32(1, 64, 28, 28), Form((BLOCK16,), (BLOCK16,)), Form((PLANAR,), (PLANAR,))
    return {
        "dense": (_dense(),),
        "winograd": _winograd(),
        "sparse": _sparse("sparse"),
        "depthwise": (_depthwise(image, 3),),
        "pool": ((_work(Pool("max", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), (image,)), blocked),),
        "elementwise": ((_work(Unary("sigmoid"), (image,)), blocked),),
        "reduce": ((_work(Reduce("mean", (2, 3)), (_f32(1, 256, 14, 14),)), blocked),),
        "softmax": ((_work(Softmax("softmax", (1,)), (_f32(64, 1000),)), planar),),
        "move": ((_work(Transpose((0, 2, 3, 1)), (image,)), planar),),
        "scalar": ((_work(Cast(DType.U8), (image,)), planar),),
    }


def _dense() -> _Task:
    return _convolution(64, 28, 3, 1.0, "packed", BLOCK16)


def _winograd() -> tuple[_Task, ...]:
    sizes = (16, 32), (64, 28), (128, 14)
    return tuple(_convolution(*size, 3, 1.0, "winograd4", BLOCK16) for size in sizes)


def _sparse(implementation: str) -> tuple[_Task, ...]:
    return tuple(_convolution(*sizes, _FEW, implementation) for sizes in ((128, 28, 3), (512, 14, 1)))


def _made() -> _Task:
    """A convolution of one vector of positions, whose weights become instructions."""
    return _convolution(512, 4, 1, _FEW, "unrolled")


def _convolution(
    channels: int, size: int, kernel: int, density: float, implementation: str, layout: Layout = PLANAR
) -> _Task:
    """Of as many filters as channels, on images of so many pixels a side."""
    op, weights = Conv((1, 1), (kernel // 2,) * 4, (1, 1)), _f32(channels, channels, kernel, kernel)
    work = replace(_work(op, (_f32(1, channels, size, size), weights)), density=density)
    return work, Form((layout, PLANAR), (layout,), implementation)


def _bytes() -> _Task:
    """A convolution of bytes."""
    op = QuantizedConv((1, 1), (1, 1, 1, 1), (1, 1), 1, x_zero=128, y_zero=128)
    image, w, scale = TensorType(DType.U8, (1, 64, 28, 28)), TensorType(DType.I8, (64, 64, 3, 3)), _f32(64)
    work = _work(op, (image, w, scale, TensorType(DType.I32, (64,))))
    return work, Form((BLOCK16, PLANAR, PLANAR, PLANAR), (BLOCK16,), "bytes")


def _chains(target: Target, cores: Sequence[int], work: Work, form: Form, steps: int, pass_on: bool) -> Program:
    """Steps of `work`, `steps` times on each of `cores`; with `pass_on` so many in all, each on the output of the one
    before."""
    values: dict[str, Value] = {}
    nodes, choices, ends, inputs = [], [], [], []
    chains = 1 if pass_on else len(cores)
    held = ["" for _ in range(chains)]
    for chain in range(chains):
        for i, (type, constant) in enumerate(zip(work.inputs, work.constant, strict=True)):
            assert type is not None
            name = f"input{chain}.{i}"
            values[name] = _constant(name, type) if constant else Value(name, type)
            inputs += [] if constant else [name]
        held[chain] = f"input{chain}.0"
    for turn in range(steps):
        for chain in range(chains):
            core = cores[turn % len(cores)] if pass_on else cores[chain]
            name = f"output{chain}.{turn}"
            values[name] = Value(name, work.outputs[0])
            operands = (held[chain], *(f"input{chain}.{i}" for i in range(1, len(work.inputs))))
            nodes.append(Node(work.op, operands, (name,), (name,)))
            everything = Split(NONE, (Piece(core, whole(work.outputs[0])),))
            choices.append(Choice(form, everything, (None,), (0.0,)))
            if work.outputs[0] == work.inputs[0]:
                held[chain] = name
            elif turn < steps - 1:
                continue
            if turn == steps - 1:
                ends.append(name)
    graph = Graph("probe", tuple(inputs), tuple(ends), tuple(nodes), values)
    return schedule(graph, target, choices, max(cores) + 1)


def _constant(name: str, type: TensorType) -> Value:
    return Value.constant(name, np.full(type.shape, 0.01, type.dtype.numpy))
