"""`edgert plan`: how a network would be cut for any machine, and how fast it would run there, from the cost model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgert.cli._options import Json, Pins, Precision, Shapes, Winograd

__all__ = ["plan"]


def plan(
    model: Annotated[Path, typer.Argument(metavar="MODEL", dir_okay=False, help="The network, model.onnx.")],
    cores: Annotated[
        str, typer.Option("--cores", metavar="16", help="Numbers of cores: 1,2,4; or one: up to it in powers of two.")
    ] = "16",
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="A machine's description: TOML file or known name. [default: this one's, if calibrated]",
        ),
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="The target to plan for.")] = "cpu",
    shape: Shapes = None,
    pin: Pins = None,
    winograd: Winograd = "strict",
    precision: Precision = "f32",
    search: Annotated[
        str, typer.Option("--search", metavar="NAME", help="How to plan: exact, none, rows, greedy, policy.")
    ] = "exact",
    explain: Annotated[bool, typer.Option("--explain", help="Show the decisions for the most cores, and why.")] = False,
    pieces: Annotated[bool, typer.Option("--pieces", help="With --explain: which part each core computes.")] = False,
    json: Json = False,
) -> None:
    """Predict how fast a network runs on any machine."""
    import time

    from edgert.cli._decisions import print_plan
    from edgert.cli._inputs import parse_counts, parse_shape, read_pins
    from edgert.cli._measured import calibrated
    from edgert.cli._output import print_json, print_table
    from edgert.decisions import parse_plan
    from edgert.errors import InvalidArgumentError
    from packer.importers import import_onnx
    from packer.passes import optimize
    from packer.planner import MOST_CORES, make_plans
    from targets.base import resolve
    from targets.machine import Machine

    if pieces and not explain:
        raise InvalidArgumentError("--pieces: it is for --explain")
    chosen = resolve(target, winograd=winograd, precision=precision)
    chosen = calibrated(chosen) if machine is None else chosen.on(Machine.load(machine))
    counts = sorted(set(parse_counts(cores, "cores")))
    if not 1 <= counts[0] <= counts[-1] <= MOST_CORES:
        raise InvalidArgumentError(f"--cores: expected 1 to {MOST_CORES}, got {cores}")
    if len(counts) == 1:
        most = counts[0]
        counts = [*(1 << i for i in range(most.bit_length()) if 1 << i < most), most]
    shapes = dict(parse_shape(text) for text in shape or ())
    graph = optimize(import_onnx(model, shapes=shapes, constants=read_pins(pin)))
    started = time.perf_counter()
    found = list(zip(counts, make_plans(graph, chosen, counts, search=search), strict=True))
    planned = time.perf_counter() - started
    first, told = found[0][1].seconds, parse_plan(found[-1][1].explain())
    if json:
        print_json(
            {
                "model": model,
                "machine": chosen.machine.name,
                "planned_seconds": planned,
                "plans": [
                    {
                        "cores": count,
                        "milliseconds": result.seconds * 1e3,
                        "speed_up": _ratio(first, result.seconds),
                        "exact": result.solution.exact,
                        "states": sum(map(len, result.problem.choices)),
                    }
                    for count, result in found
                ],
                "decisions": told.decisions if explain else [],
            }
        )
        return
    typer.echo(f"{model.name} on {chosen.machine.description}, predicted (planned in {planned:.2f} s):")
    rows = [
        (str(count), f"{result.seconds * 1e3:.3f}", f"{_ratio(first, result.seconds):.2f}x") for count, result in found
    ]
    print_table(("cores", "ms", "speed-up"), rows, right="cores ms speed-up", indent=2)
    if counts[-1] > len(chosen.machine.cores):
        typer.echo(f"  cores beyond its {len(chosen.machine.cores)}: more of the last kind, with the same memory")
    if explain:
        print_plan(told, pieces=pieces)


def _ratio(first: float, seconds: float) -> float:
    return first / seconds if seconds else 1.0
