"""`edgert tune`: measure on the device what the planner otherwise estimates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgert.cli._options import Activations, DeviceCode, Json, Pins, Shapes, Winograd

if TYPE_CHECKING:
    from packer.tune import CampaignReport
    from targets.machine import Machine

__all__ = ["tune"]


def tune(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", dir_okay=False, help="The network, model.onnx.")
    ] = None,
    target: Annotated[str, typer.Option("--target", metavar="NAME", help="The target that is the device.")] = "cpu",
    cores: Annotated[
        str, typer.Option("--cores", metavar="1,2,4", help="Measure for programs of these numbers of cores.")
    ] = "1,2,4",
    budget: Annotated[
        str, typer.Option("--budget", metavar="60s", help="Measure for that long: 90s, 5m, 1h; 0: until all is done.")
    ] = "60s",
    records: Annotated[
        Path | None,
        typer.Option(
            "--records", metavar="FILE", help="Record file. [default: $EDGERT_RECORDS, or in your data folder]"
        ),
    ] = None,
    shape: Shapes = None,
    pin: Pins = None,
    winograd: Winograd = "strict",
    activations: Activations = "f32",
    device_code: DeviceCode = "cubin",
    emulate: Annotated[bool, typer.Option("--emulate", help="Measure an emulator of the GPU: to try it out.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="First measure the device itself: speeds, caches, waiting.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="Measure on the workers of a Dask scheduler.")
    ] = None,
    merge: Annotated[
        list[Path] | None, typer.Option("--merge", metavar="FILE", help="First add another record file; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a network's layers on the device. Later `pack`s plan with it; run it again to go on where it stopped."""
    from edgert.cli._inputs import parse_counts, parse_seconds, parse_shape, read_pins
    from edgert.cli._output import print_json
    from edgert.cli._tuning import calibrate_sites, run_campaigns, sites
    from edgert.errors import InvalidArgumentError
    from packer.importers import import_onnx
    from packer.passes import optimize
    from packer.tune import Records, default_path
    from targets.base import resolve

    if model is None and not calibrate and not merge:
        raise InvalidArgumentError("nothing to do\nMeasure for a network: edgert tune model.onnx; or: tune --calibrate")
    placement = "device" if emulate else "cost"
    chosen = resolve(target, winograd=winograd, activations=activations, placement=placement, device_code=device_code)
    if chosen.device and calibrate:
        raise InvalidArgumentError(f"--calibrate: expected a processor, got --target {target}")
    if emulate and not chosen.device:
        raise InvalidArgumentError(f"--emulate: expected a target with a GPU, such as jetson; got --target {target}")
    chosen.assemble(())  # so that what is missing for it is said first
    seconds, counts = parse_seconds(budget, "budget"), parse_counts(cores, "cores")
    counts = chosen.core_counts if chosen.device else counts
    path = records or default_path()
    graph = None
    if model is not None:
        shapes = dict(parse_shape(text) for text in shape or ())
        graph = optimize(import_onnx(model, shapes=shapes, constants=read_pins(pin)))
    reports: list[CampaignReport] = []
    machines: list[Machine] = []
    with Records(path, create=True) as file:
        for other in merge or ():
            file.merge(other)
        if calibrate or graph is not None:
            with sites(cluster, chosen, activations, device_code, emulate) as found:
                if calibrate:
                    machines = calibrate_sites(found, chosen, file)
                if graph is not None:
                    reports = run_campaigns(found, graph, chosen, counts, file, seconds, emulate)
    if json:
        print_json({"records": path, "calibrated": machines, "devices": reports})
        return
    for machine in machines:
        typer.echo(machine.to_toml())
    for report in reports:
        _show(report)
    typer.echo(f"records: {path}", err=True)  # what is printed may go into a file: a calibrated machine


def _show(report: CampaignReport) -> None:
    from edgert.cli._output import print_table

    typer.echo(f"{report.target} on {report.device}, {report.core}")
    failed = f", {report.failed} impossible ({report.failure.splitlines()[0]})" if report.failed else ""
    typer.echo(f"  measured {report.measured}, known before {report.recorded}, left {report.left}{failed}")
    rows = [(str(plan.cores), f"{plan.before_ms:.3f}", f"{plan.after_ms:.3f}") for plan in report.plans]
    typer.echo("  predicted for one run:")
    print_table(("cores", "ms_before", "ms_now"), rows, right="cores ms_before ms_now", indent=2)
