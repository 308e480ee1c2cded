"""A plan as text: the table of what the planner decided, operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgert.cli._output import print_table

if TYPE_CHECKING:
    from edgert.cli._times import Times
    from edgert.decisions import Decision, Piece, Plan

__all__ = ["others_text", "pieces_text", "print_plan", "runner_up_text", "split_text"]

_AXES = {1: "C", 2: "NC", 3: "NCW", 4: "NCHW", 5: "NCDHW"}


def print_plan(plan: Plan, times: Times | None = None, pieces: bool = False) -> None:
    """One row a decision, with measured times if there are any; `pieces`: the exact parts of each core, too."""
    device = any(d.on_device for d in plan.decisions)
    own = ["bound"] if device else ["layouts", "split"]
    header = ["node", "operator", "algorithm", *own, "us", "adjust-us"]
    rounding = any(d.rounding is not None for d in plan.decisions)
    header += ["measured-us"] * (times is not None) + ["rounding"] * rounding
    header += ["instead" if device else "runner-up"] + ["pieces"] * pieces
    rows = []
    for number, d in enumerate(plan.decisions):
        own = [d.bound if d.on_device else "on the CPU"] if device else [d.layouts, split_text(d)]
        row = [d.name, d.operator, d.algorithm, *own, _us(d.compute), _us(d.adjust)]
        if times is not None:
            row.append("" if times.decisions[number] is None else _us(times.decisions[number] or 0))
        if rounding:
            row.append("" if d.rounding is None else f"{d.rounding:.1e}")
        row.append(others_text(d) if device else runner_up_text(d))
        rows.append(row + [pieces_text(d)] * pieces)
    print_table(header, rows, right="us adjust-us measured-us rounding", indent=2)
    least = "" if plan.exact else ", not known to be the least"
    typer.echo(f"  predicted {plan.nanoseconds / 1e6:.3f} ms{least}, on {plan.machine}")
    if device:
        typer.echo(f"  {_shares(plan)}")
    if times is not None:
        typer.echo(f"  measured {times.run / 1e6:.3f} ms; in steps that only change layouts {_us(times.others)} us")
    if plan.rounding:
        typer.echo(f"  rounding moves the outputs of the sample by {plan.rounding:.1e} of their size")
    if any(d.streams_in or d.streams_out for d in plan.decisions):
        typer.echo("  split: > before it, the input comes tile by tile; > behind it, the output goes so")


def split_text(d: Decision) -> str:
    """The split, an arrow before or behind it where tiles stream in or out."""
    return ">" * d.streams_in + d.split + ">" * d.streams_out


def runner_up_text(d: Decision) -> str:
    """What the next best choice has that is different, and what it would cost."""
    rival = d.runner_up
    if rival is None:
        return "no other choice"
    pairs = ((rival.algorithm, d.algorithm), (rival.layouts, d.layouts), (rival.split, d.split))
    differing = " ".join(its for its, own in pairs if its != own)
    more = f"{_more(rival.compute)} us computing, {_more(rival.adjust)} us moving"
    together = f" of {rival.decisions} that stream" if rival.decisions != 1 else ""
    return f"{differing}: {more}{together}"


def others_text(d: Decision) -> str:
    """What a device's other tiers, and the processor, would cost."""
    if not d.others:
        return "no other choice" if d.on_device else "no kernels for the GPU"
    found = []
    for other in d.others:
        name = other.algorithm if "planes" in other.layouts else f"CPU {other.algorithm}".rstrip()
        together = f" of {other.decisions}" if other.decisions != 1 else ""
        found.append(f"{name} {_more(other.compute + other.adjust)}{together}")
    return ", ".join(found)


def _shares(plan: Plan) -> str:
    """What the time goes to."""
    spent: dict[str, int] = {}
    for d in plan.decisions:
        name = f"GPU, {d.bound}" if d.on_device else "CPU"
        spent[name] = spent.get(name, 0) + d.compute
        spent["moving"] = spent.get("moving", 0) + d.adjust
    every = max(1, sum(spent.values()))
    order = sorted((name for name in spent if spent[name]), key=lambda name: -spent[name])
    return "; ".join(f"{name} {spent[name] / 1e6:.3f} ms ({spent[name] / every:.0%})" for name in order)


def pieces_text(d: Decision) -> str:
    """What each core computes, along the dimensions that are cut."""
    if d.split == "shared":
        return "all cores"
    spans = zip(*(piece.box for piece in d.pieces), strict=True)
    axes = [axis for axis, along in enumerate(spans) if len(set(along)) > 1]
    found: dict[int, list[str]] = {}
    for piece in d.pieces:
        found.setdefault(piece.core, []).append(" ".join(_span(piece, axis) for axis in axes))
    return "; ".join(f"core {core} {', '.join(parts)}".rstrip() for core, parts in found.items())


def _span(piece: Piece, axis: int) -> str:
    rank = len(piece.box)
    begin, end = piece.box[axis]
    return f"{_AXES[rank][axis] if rank in _AXES else f'axis{axis}.'}{begin}:{end}"


def _us(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e3:.1f}"


def _more(nanoseconds: int) -> str:
    return f"{round(nanoseconds / 1e3, 1) + 0.0:+.1f}"  # + 0.0: no -0.0
