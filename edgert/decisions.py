"""What the planner decided, as a bundle tells people: how each operator runs, and why the runner-up lost.

    bundle = edgert.read("model.edge")
    for decision in read_plan(bundle, bundle.programs[0]).decisions:
        print(decision.name, decision.algorithm, decision.split)

docs/format.md describes the text it is read from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from edgert.errors import InvalidArgumentError, MalformedError
from edgert.reader import Bundle, Program

__all__ = ["Decision", "Piece", "Plan", "RunnerUp", "Value", "parse_plan", "read_plan", "steps_of"]

_T = TypeVar("_T")
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Value:
    """What an operator reads or makes: its name in the network, and in which layout; of an output also the shape."""

    name: str
    layout: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the first output that one core computes: begin and end in each dimension."""

    core: int
    box: Box


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best choice if all other operators stay as they are, and how many nanoseconds more it would take for
    computing, and for moving values between states; fewer, where the plan is not the cheapest one. If `decisions` is
    not 1, so many operators would change together, which stream into one another, and times are those of all."""

    algorithm: str
    layouts: str
    split: str
    compute: int
    adjust: int
    decisions: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How one operator runs. Predicted nanoseconds: `compute` of the core that takes longest; `adjust` until what it
    reads is in the layouts, and at the cores, that need it. `rounding` is the relative error that rounded weights make
    of its outputs; None: they are exact. In programs for a device `bound` is what most of `compute` is spent on, and
    `others` are the best choices in the device's other tiers and on the processor, cheapest first."""

    nodes: tuple[str, ...]
    operator: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    algorithm: str
    layouts: str
    split: str
    pieces: tuple[Piece, ...]
    streams_in: bool
    streams_out: bool
    compute: int
    adjust: int
    runner_up: RunnerUp | None
    rounding: float | None = None
    bound: str = ""
    others: tuple[RunnerUp, ...] = ()

    @property
    def on_device(self) -> bool:
        """Whether it runs beside the processor."""
        return "planes" in self.layouts

    @property
    def name(self) -> str:
        """The first ONNX node it stands for, or what it makes."""
        return self.nodes[0] if self.nodes else self.outputs[0].name if self.outputs else ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions in execution order, the machine whose times are predicted, and the nanoseconds of one run; `exact`
    if no other choices would take less. `rounding` is the relative error that rounded weights and activations make of
    the outputs of the sample; None: not known."""

    machine: str
    nanoseconds: int
    exact: bool
    decisions: tuple[Decision, ...]
    rounding: float | None = None


def read_plan(bundle: Bundle, program: Program) -> Plan:
    """The plan of a program of the bundle. Raises InvalidArgumentError if it tells of none, and MalformedError."""
    if program.plan < 0:
        raise InvalidArgumentError(
            f"the program for {program.target}, cores {program.cores}: it does not tell what the planner decided\n"
            "Pack the model again: edgert pack model.onnx"
        )
    return parse_plan(bytes(bundle.segment(program.plan)))


def parse_plan(text: str | bytes) -> Plan:
    """The plan in a JSON text; raises MalformedError."""
    try:
        raw = json.loads(text)
        return Plan(
            _text(raw["machine"]),
            _int(raw["nanoseconds"]),
            _bool(raw["exact"]),
            _all(_decision, raw["decisions"]),
            _share(raw.get("rounding")),
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise MalformedError.of(f"the plan: {type(error).__name__} {error}") from None


def steps_of(program: Program, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """For each decision the numbers of its steps; those that change layouts or copy halos are nobody's, and those of
    two that share a kernel are the first one's."""
    found: dict[str, list[int]] = {d.outputs[0].name: [] for d in plan.decisions if d.outputs}
    inside = {
        d.outputs[0].name: d.inputs[0].name
        for d in plan.decisions
        if d.inputs and d.outputs and d.inputs[0].layout == "registers"
    }
    for number, step in enumerate(program.steps):
        if step.outputs and step.kernel not in ("reorder", "pack_weights"):
            name = program.tensors[step.outputs[0]].name
            piece = None if name in found else re.search(r":(tile|sum\d+|rows\d+-\d+)$", name)
            if piece is not None:
                name = name[: piece.start()]
                if piece[1].startswith("rows") and not step.nodes:
                    continue
            while name in inside:
                name = inside[name]
            if name in found:
                found[name].append(number)
    return tuple(tuple(found[d.outputs[0].name]) if d.outputs else () for d in plan.decisions)


def _decision(raw: Any) -> Decision:
    rival = raw["runner_up"]
    return Decision(
        _all(_text, raw["nodes"]),
        _text(raw["operator"]),
        _all(_value, raw["inputs"]),
        _all(_value, raw["outputs"]),
        _text(raw["algorithm"]),
        _text(raw["layouts"]),
        _text(raw["split"]),
        _pieces(raw["pieces"]),
        _bool(raw["streams_in"]),
        _bool(raw["streams_out"]),
        _int(raw["compute"]),
        _int(raw["adjust"]),
        None if rival is None else _runner_up(rival),
        _share(raw.get("rounding")),
        _text(raw.get("bound", "")),
        _all(_runner_up, raw.get("others", [])),
    )


def _runner_up(raw: Any) -> RunnerUp:
    numbers = _int(raw["compute"]), _int(raw["adjust"]), _int(raw["decisions"])
    return RunnerUp(_text(raw["algorithm"]), _text(raw["layouts"]), _text(raw["split"]), *numbers)


def _value(raw: Any) -> Value:
    return Value(_text(raw["name"]), _text(raw["layout"]), _all(_int, raw.get("shape", [])))


def _pieces(raw: Any) -> tuple[Piece, ...]:
    found = tuple(Piece(_int(core), _all(_span, box)) for core, box in _all(tuple, raw))
    if len({len(piece.box) for piece in found}) > 1:
        raise ValueError("expected pieces of as many dimensions")
    return found


def _span(raw: Any) -> tuple[int, int]:
    begin, end = raw
    return _int(begin), _int(end)


def _all(read: Callable[[Any], _T], raw: Any) -> tuple[_T, ...]:
    if not isinstance(raw, list):
        raise TypeError(f"expected a list, got {str(raw)[:80]}")
    return tuple(map(read, raw))


def _text(raw: Any) -> str:
    return _typed(raw, str)


def _int(raw: Any) -> int:
    return _typed(raw, int)


def _share(raw: Any) -> float | None:
    if raw is None:
        return None
    if not (found := _typed(raw, float)) >= 0:
        raise ValueError(f"expected a number of 0 or more, got {found}")
    return found


def _bool(raw: Any) -> bool:
    return _typed(raw, bool)


def _typed(raw: Any, kind: type[_T]) -> _T:
    if type(raw) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {str(raw)[:80]}")
    return raw
