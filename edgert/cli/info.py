"""`edgert info`: what a bundle holds, layer by layer; needs no device and no library."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from edgert.cli._options import BundlePath, Json

if TYPE_CHECKING:
    from edgert.summary import ProgramSummary

__all__ = ["info"]


def info(bundle: BundlePath, json: Json = False) -> None:
    """Show programs, layers, placement, sizes, sparsity and memory."""
    from edgert.cli._output import print_json, size
    from edgert.reader import read
    from edgert.summary import summarize

    found = read(bundle)
    programs = [summarize(found, program) for program in found.programs]
    if json:
        segments = [{"name": s.name, "bytes": s.length, "sha256": s.sha256.hex()} for s in found.segments]
        print_json(
            {
                "path": bundle,
                "bytes": len(found.data),
                "model": found.model,
                "producer": found.producer,
                "segments": segments,
                "goldens": len(found.goldens),
                "programs": programs,
            }
        )
        return
    typer.echo(f"{bundle}: '{found.model}', {size(len(found.data))}, made by {found.producer}")
    for segment in found.segments:
        typer.echo(f"  segment '{segment.name}': {size(segment.length)}")
    typer.echo(f"  golden samples: {len(found.goldens)}")
    for program in programs:
        _print_program(program)


def _print_program(program: ProgramSummary) -> None:
    from edgert.cli._output import print_table, size

    arena = size(program.arena_bytes)
    if program.arena_floor:
        arena += f", {program.arena_bytes / program.arena_floor:.2f}x the lower bound {size(program.arena_floor)}"
    typer.echo()
    typer.echo(f"program {program.target}: all {len(program.layers)} steps on the CPU ({program.arch})")
    typer.echo(f"  weights {size(program.weights_bytes)}, {program.sparsity:.1%} zeros; arena {arena}")
    for side, tensors in (("input ", program.inputs), ("output", program.outputs)):
        for name, kind in tensors:
            typer.echo(f"  {side} {name}: {kind}")
    rows = [
        (
            str(layer.step),
            layer.kernel,
            ", ".join(layer.outputs),
            layer.layout,
            str(layer.weights) if layer.weights else "",
            f"{layer.sparsity:.1%}" if layer.weights else "",
            size(layer.stored_bytes) if layer.stored_bytes else "",
            " + ".join(layer.nodes),
        )
        for layer in program.layers
    ]
    header = ("step", "kernel", "output", "layout", "weights", "zeros", "stored", "ONNX nodes")
    print_table(header, rows, right="step weights zeros stored", indent=2)
