"""`edgert pack`: an ONNX model becomes a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgert.cli._options import Activations, DeviceCode, Json, Pins, Precision, Shapes, Winograd

if TYPE_CHECKING:
    from edgert.decisions import Plan
    from edgert.reader import Program
    from packer.api import ProgramReport

__all__ = ["pack"]


def pack(
    model: Annotated[Path, typer.Argument(metavar="MODEL", dir_okay=False, help="The network, model.onnx.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="BUNDLE", help="The bundle; default: MODEL with .edge.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", metavar="NAME", help="Compile for it; repeatable. [default: cpu]")
    ] = None,
    shape: Shapes = None,
    pin: Pins = None,
    cores: Annotated[
        str | None,
        typer.Option("--cores", metavar="1,2,4", help="A program for each; default: those that save time."),
    ] = None,
    implementation: Annotated[
        str | None,
        typer.Option("--implementation", metavar="NAME", help="Use this algorithm where there is a choice."),
    ] = None,
    winograd: Winograd = "strict",
    precision: Precision = "f32",
    weight_rounding: Annotated[
        str,
        typer.Option(
            "--weight-rounding",
            metavar="off|auto|20bit|ERROR",
            help="To what instructions of a GPU hold; auto: while outputs move by less than 1e-3.",
        ),
    ] = "auto",
    activations: Activations = "f32",
    placement: Annotated[
        str, typer.Option("--placement", metavar="cost|device", help="A GPU runs what is faster there, or all it can.")
    ] = "cost",
    device_code: DeviceCode = "cubin",
    cuda_route: Annotated[
        str,
        typer.Option("--cuda-route", metavar="direct|template", help="How sparse convolutions become code for a GPU."),
    ] = "direct",
    search: Annotated[
        str,
        typer.Option(
            "--search",
            metavar="NAME",
            help="How to plan: exact, none, rows or greedy; policy learns from timed plans.",
        ),
    ] = "exact",
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="60s", help="Time plans for that long; with --search policy.")
    ] = None,
    partial_sums: Annotated[
        bool, typer.Option("--partial-sums", help="Cores may share input channels; last bits then depend on --cores.")
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="What `edgert tune` measured. [default: the file it writes to]"),
    ] = None,
    no_records: Annotated[bool, typer.Option("--no-records", help="Plan by the cost model alone.")] = False,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="NAME", help="Part of whose records' name; default: this machine, or the only such GPU."
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what the planner decided, and why.")] = False,
    pieces: Annotated[bool, typer.Option("--pieces", help="With --explain: which part each core computes.")] = False,
    golden: Annotated[bool, typer.Option("--golden/--no-golden", help="Store a sample for the self-test.")] = True,
    atol: Annotated[
        float, typer.Option("--atol", metavar="NUMBER", min=0, help="Absolute tolerance of the self-test.")
    ] = 1e-6,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            metavar="NUMBER",
            min=0,
            help="Tolerance relative to the output's maximum. [default: by --precision]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Compile an ONNX model into a bundle."""
    from dataclasses import asdict

    from edgert.cli._decisions import print_plan
    from edgert.cli._inputs import parse_counts, parse_seconds, parse_shape, read_pins
    from edgert.cli._measured import read_measured
    from edgert.cli._output import print_json, size
    from edgert.cli._program import named
    from edgert.cli._progress import Progress
    from edgert.cli._searching import policy
    from edgert.errors import InvalidArgumentError
    from packer.api import pack as pack_model

    targets = tuple(target or ("cpu",))
    counts = parse_counts(cores, "cores") if cores else ()
    if budget and search != "policy":
        raise InvalidArgumentError(f"--budget: it is for --search policy, got --search {search}")
    if pieces and not explain:
        raise InvalidArgumentError("--pieces: it is for --explain")
    seconds = parse_seconds(budget or "60s", "budget")
    measured = {} if no_records else read_measured(records, device, targets, activations, device_code)
    with Progress("pack") as tell:
        report = pack_model(
            model,
            output or model.with_suffix(".edge"),
            targets=targets,
            shapes=dict(parse_shape(text) for text in shape or ()),
            constants=read_pins(pin),
            cores=counts,
            implementation=implementation,
            winograd=winograd,
            precision=precision,
            weight_rounding=weight_rounding,
            activations=activations,
            placement=placement,
            device_code=device_code,
            cuda_route=cuda_route,
            search=policy(seconds, targets, counts, device, tell) if search == "policy" else search,
            partial_sums=partial_sums,
            measured=measured,
            golden=golden,
            atol=atol,
            rtol=rtol,
            progress=tell,
        )
    plans = _plans(report.path) if explain else []
    if json:
        print_json(asdict(report) | ({"plans": [plan for _, plan in plans]} if explain else {}))
        return
    typer.echo(f"{report.path}: {size(report.bytes)}, packed in {report.seconds:.1f} s")
    for name, kind in report.inputs:
        typer.echo(f"  input {name}: {kind}")
    for program in report.programs:
        bound = (
            f"{program.arena_bytes / program.arena_floor:.2f}x the lower bound"
            if program.arena_floor
            else "none needed"
        )
        typer.echo(
            f"  {named(program)} ({program.arch}): {program.steps} steps, weights {size(program.weights_bytes)}, "
            f"arena {size(program.arena_bytes)} ({bound})"
        )
        for line in _rounding(program):
            typer.echo(f"    {line}")
    for told, plan in plans:
        typer.echo(f"\nplan of the program for {named(told)}")
        print_plan(plan, pieces=pieces)


def _rounding(program: ProgramReport) -> list[str]:
    """What is rounded, and what that does to layers and to the whole network."""
    lines = []
    if program.rounded:
        worst, error = max(program.rounded, key=lambda layer: layer[1])
        lines.append(f"layers with rounded weights: {len(program.rounded)}, errors up to {error:.1e} ('{worst}')")
    if program.halves:
        lines.append("the GPU stores values as float16")
    if lines and program.error is not None:
        lines.append(f"rounding moves the outputs of the sample by {program.error:.1e} of their size")
    return lines


def _plans(path: Path) -> list[tuple[Program, Plan]]:
    """What the bundle just written tells of its programs."""
    from edgert.decisions import read_plan
    from edgert.reader import read

    bundle = read(path, "metadata")
    return [(program, read_plan(bundle, program)) for program in bundle.programs]
