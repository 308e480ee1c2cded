"""`edgert info`: what a bundle holds, layer by layer, and what the planner decided; needs no device and no library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgert.cli._options import BundlePath, Json

if TYPE_CHECKING:
    from edgert.reader import Bundle, Program
    from edgert.summary import ProgramSummary

__all__ = ["info"]


def info(
    bundle: BundlePath,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME", help="Whose programs. [default: the first that suits this machine]"),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores", metavar="N", min=1, help="The program. [default: the fewest; of plans, what runs here]"
        ),
    ] = None,
    program: Annotated[
        str | None, typer.Option("--program", metavar="NAME", help="Short for --plan --target NAME.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show what the planner decided, and why.")] = False,
    pieces: Annotated[bool, typer.Option("--pieces", help="With the plan: which part each core computes.")] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE",
            dir_okay=False,
            help="With the plan: times that `edgert profile --json` printed.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Draw the plan as a page; -: on stdout.")
    ] = None,
    json: Json = False,
) -> None:
    """Show programs, layers, sizes, sparsity, memory, and plans."""
    from edgert.cli._program import choose, usable_cores
    from edgert.reader import read

    found = read(bundle)
    if plan or program or pieces or profile or html:
        chosen = choose(found, program or target, cores, usable_cores())
        _show_plan(bundle, found, chosen, pieces, profile, html, json)
    elif json:
        _print_json(bundle, found)
    else:
        _print_bundle(bundle, found, choose(found, target, cores) if found.programs else None)


def _show_plan(
    path: Path, found: Bundle, program: Program, pieces: bool, profile: Path | None, html: Path | None, json: bool
) -> None:
    from edgert.cli._decisions import print_plan
    from edgert.cli._output import print_json
    from edgert.cli._program import named
    from edgert.cli._times import read_times
    from edgert.decisions import read_plan

    plan = read_plan(found, program)
    times = None if profile is None else read_times(profile, program, plan)
    if html is not None:
        from edgert.cli._plan_html import page

        text = page(found.model, program, plan, times)
        if str(html) == "-":
            typer.echo(text)
        else:
            html.write_text(text, encoding="utf-8")
    elif json:
        print_json({"path": path, "target": program.target, "cores": program.cores, "plan": plan, "measured": times})
    else:
        typer.echo(f"{path}: '{found.model}', plan of the program for {named(program)}")
        print_plan(plan, times, pieces)


def _print_json(path: Path, found: Bundle) -> None:
    from edgert.cli._output import print_json
    from edgert.summary import summarize

    segments = [{"name": s.name, "bytes": s.length, "sha256": s.sha256.hex()} for s in found.segments]
    print_json(
        {
            "path": path,
            "bytes": len(found.data),
            "model": found.model,
            "producer": found.producer,
            "segments": segments,
            "goldens": len(found.goldens),
            "programs": [summarize(found, program) for program in found.programs],
        }
    )


def _print_bundle(path: Path, found: Bundle, chosen: Program | None) -> None:
    from edgert.cli._output import print_table, size
    from edgert.summary import summarize

    summary = None if chosen is None else summarize(found, chosen)
    typer.echo(f"{path}: '{found.model}', {size(len(found.data))}, made by {found.producer}")
    for segment in found.segments:
        typer.echo(f"  segment '{segment.name}': {size(segment.length)}")
    typer.echo(f"  golden samples: {len(found.goldens)}")
    typer.echo()
    rows = [
        (
            program.target,
            program.arch,
            str(program.cores),
            str(len(program.steps)),
            str(program.steps[-1].phase + 1 if program.steps else 0),
            size(program.arena_bytes),
            size(program.arena_floor),
            program.device,
            size(program.device_bytes) if program.device else "",
        )
        for program in found.programs
    ]
    header = ("target", "arch", "cores", "steps", "phases", "arena", "lower-bound", "device", "device-memory")
    shown = len(header) if any(program.device for program in found.programs) else header.index("device")
    right = "cores steps phases arena lower-bound device-memory"
    print_table(header[:shown], [row[:shown] for row in rows], right=right, indent=2)
    if summary is not None:
        _print_layers(summary)


def _print_layers(summary: ProgramSummary) -> None:
    from edgert.cli._output import print_table, size
    from edgert.cli._program import named

    typer.echo()
    if summary.device:
        here = len(summary.layers) - summary.device_layers - summary.copies
        typer.echo(
            f"program {named(summary)}: {summary.device_layers} layers on {summary.device}, {here} on the CPU"
            f" ({summary.arch}), {summary.copies} copies between them"
        )
        typer.echo(
            f"  device memory {size(summary.device_bytes)}; {summary.modules} modules: machine code"
            f" {size(summary.cubin_bytes)}, PTX {size(summary.ptx_bytes)}, deflated"
        )
    else:
        typer.echo(f"program {named(summary)}: all {summary.steps} steps on the CPU ({summary.arch})")
    zeros = "" if summary.sparsity is None else f", {summary.sparsity:.1%} zeros"
    typer.echo(f"  weights {size(summary.weights_bytes)}{zeros}")
    for side, tensors in (("input ", summary.inputs), ("output", summary.outputs)):
        for name, kind in tensors:
            typer.echo(f"  {side} {name}: {kind}")
    rows = [
        (
            str(len(layer.steps)),
            f"launch {', '.join(dict.fromkeys(layer.entries))}" if layer.kernel == "launch" else layer.kernel,
            ", ".join(layer.outputs) + (f" x {layer.tiles} tiles" if layer.tiles else ""),
            layer.layout,
            str(layer.weights) if layer.weights else "",
            f"{layer.sparsity:.1%}" if layer.weights else "",
            size(layer.stored_bytes) if layer.stored_bytes else "",
            " + ".join(layer.nodes),
        )
        for layer in summary.layers
    ]
    header = ("steps", "kernel", "output", "layout", "weights", "zeros", "stored", "ONNX nodes")
    print_table(header, rows, right="steps weights zeros stored", indent=2)
