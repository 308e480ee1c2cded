"""`edgert pack`: an ONNX model becomes a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgert.cli._options import Json

__all__ = ["pack"]


def pack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", dir_okay=False, help="The network, model.onnx.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The bundle; default: MODEL with .edge.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="Compile for it; repeatable. [default: cpu]")
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", metavar="NAME=1x3x224x224", help="Fix an input's shape; repeatable.")
    ] = None,
    pin: Annotated[
        list[str] | None, typer.Option("--pin", metavar="NAME=FILE", help="Make an input a constant; npy, npz or pb.")
    ] = None,
    cores: Annotated[
        str | None, typer.Option("--cores", metavar="1,2,4", help="A program for each; default: as the board says.")
    ] = None,
    implementation: Annotated[
        str | None,
        typer.Option("--implementation", metavar="NAME", help="Use this algorithm where there is a choice."),
    ] = None,
    search: Annotated[str, typer.Option("--search", help="How to plan: exact, none, rows or greedy.")] = "exact",
    partial_sums: Annotated[
        bool, typer.Option("--partial-sums", help="Cores may share input channels; last bits then depend on --cores.")
    ] = False,
    records: Annotated[
        Path | None, typer.Option("--records", help="What `edgert tune` measured. [default: the file it writes to]")
    ] = None,
    no_records: Annotated[bool, typer.Option("--no-records", help="Plan by the cost model alone.")] = False,
    device: Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Part of whose records' name; default: this machine.")
    ] = None,
    golden: Annotated[bool, typer.Option("--golden/--no-golden", help="Store a sample for the self-test.")] = True,
    atol: Annotated[float, typer.Option("--atol", min=0, help="Absolute tolerance of the self-test.")] = 1e-6,
    rtol: Annotated[float, typer.Option("--rtol", min=0, help="Tolerance relative to the output's maximum.")] = 1e-4,
    json: Json = False,
) -> None:
    """Compile an ONNX model into a bundle."""
    from edgert.cli._inputs import parse_counts, parse_pair, parse_shape, read_array
    from edgert.cli._measured import read_measured
    from edgert.cli._output import print_json, size
    from edgert.cli._progress import Progress
    from packer.api import pack as pack_model

    pinned = [parse_pair(text, "pin") for text in pin or ()]
    targets = tuple(target or ("cpu",))
    measured = {} if no_records else read_measured(records, device, targets)
    with Progress("pack") as tell:
        report = pack_model(
            model,
            output or model.with_suffix(".edge"),
            targets=targets,
            shapes=dict(parse_shape(text) for text in shape or ()),
            constants={name: read_array(Path(file), name) for name, file in pinned},
            cores=parse_counts(cores, "cores") if cores else (),
            implementation=implementation,
            search=search,
            partial_sums=partial_sums,
            measured=measured,
            golden=golden,
            atol=atol,
            rtol=rtol,
            progress=tell,
        )
    if json:
        print_json(report)
        return
    typer.echo(f"{report.path}: {size(report.bytes)}, packed in {report.seconds:.1f} s")
    for program in report.programs:
        bound = (
            f"{program.arena_bytes / program.arena_floor:.2f}x the lower bound"
            if program.arena_floor
            else "none needed"
        )
        typer.echo(
            f"  {program.target} ({program.arch}), {_cores(program.cores)}: {program.steps} steps, weights {size(program.weights_bytes)}, "
            f"arena {size(program.arena_bytes)} ({bound})"
        )


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
