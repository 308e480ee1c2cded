"""Campaigns on this machine or on the boards of a cluster, as `edgert tune` runs them."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import typer

from edgert.cli._progress import Progress
from edgert.errors import EdgertError, InvalidArgumentError

if TYPE_CHECKING:
    from edgert.fingerprint import Device
    from edgert.measure import StepMeasurement
    from packer.ir import Graph
    from packer.tune import Campaign, CampaignReport, Measure, Records
    from packer.tune.calibrate import MeasureRun
    from targets.base import Target
    from targets.machine import Machine

__all__ = ["Site", "calibrate_sites", "run_campaigns", "sites"]

_Tell = Callable[[str, float], None]
_GLANCE = 0.2  # seconds between looks at what boards do


@dataclass(frozen=True, slots=True)
class Site:
    """Something that measures steps of bundles, and runs of them."""

    name: str
    device: Device
    measure: Measure
    run: MeasureRun


@contextmanager
def sites(
    cluster: str | None, target: Target, activations: str, device_code: str, emulate: bool
) -> Iterator[list[Site]]:
    """This machine, or the boards of a cluster that run programs for `target`; of one with a GPU `activations` says how
    it stores floats and `device_code` what runs on it, and it may be emulated. Raises
    InvalidArgumentError if there is nothing such."""
    if target.device and cluster is not None:
        raise InvalidArgumentError(f"--cluster: boards measure processors only, got --target {target.name}")
    with ExitStack() as stack:
        if target.device:
            found = [stack.enter_context(_with_gpu(target, activations, device_code, emulate))]
        else:
            found = _here() if cluster is None else _there(stack, cluster)
        fitting = [site for site in found if emulate or site.device.arch == target.arch]
        if not fitting:
            got = ", ".join(dict.fromkeys(site.device.arch for site in found))
            raise InvalidArgumentError(f"--target {target.name}: expected a device of {target.arch}, got {got}")
        yield fitting


def _here() -> list[Site]:
    import platform

    from edgert.fingerprint import this_device
    from edgert.measure import measure_run, measure_step

    return [Site(platform.node(), this_device(), measure_step, measure_run)]


@contextmanager
def _with_gpu(target: Target, activations: str, device_code: str, emulate: bool) -> Iterator[Site]:
    """This machine with its GPU, or with an emulated one, on which nothing but steps of the GPU can be measured."""
    import platform

    from edgert.emulator import emulated, emulator_library
    from edgert.fingerprint import device_with_gpu, gpu_core
    from edgert.measure import measure_launches, measure_run, measure_step
    from edgert.reader import read

    def measure(path: Path, step: int, weights: str) -> StepMeasurement:
        if read(path).programs[0].device:
            return measure_launches(path, emulate)
        return measure_step(path, step, weights)

    with emulated(target.device) if emulate else nullcontext():
        library = emulator_library() if emulate else os.environ.get("EDGERT_CUDA_LIBRARY") or "libcuda.so.1"
        device = device_with_gpu(library, gpu_core(target.device, activations, device_code))
        yield Site(platform.node(), device, measure, measure_run)


def _there(stack: ExitStack, address: str) -> list[Site]:
    from edgert.cli._cluster import boards

    return [Site(board.name, board.device, board.measure, board.run) for board in stack.enter_context(boards(address))]


def calibrate_sites(found: Sequence[Site], target: Target, records: Records) -> list[Machine]:
    """Measure one site of each device itself, beginning with what `target` takes it for, and keep what comes out."""
    import edgert
    from packer.tune import Calibration
    from packer.tune.calibrate import calibrate, starting_point

    machines = []
    for site in {(site.device.fingerprint, site.device.core): site for site in reversed(found)}.values():
        device = site.device
        start = starting_point(target.machine, "calibrated", device.cpu, device.core, device.caches, device.cores)
        with Progress("calibrate") as tell:
            machine = calibrate(site.measure, site.run, target.on(start), functools.partial(tell, site.name))
        who = f"edgert {edgert.__version__}, {site.name}"
        records.calibrate(Calibration(device.fingerprint, device.core, machine.to_toml(), who))
        machines.append(machine)
    return machines


def run_campaigns(
    found: Sequence[Site],
    graph: Graph,
    target: Target,
    cores: Sequence[int],
    records: Records,
    seconds: float,
    emulate: bool = False,
) -> list[CampaignReport]:
    """Measure for a network, for at most that many seconds, at all sites at once; one report a device. Probes for an
    emulator are short."""
    from packer.tune import Campaign
    from packer.tune.probe import APART

    made: dict[tuple[str, str], Campaign] = {}
    for site in found:
        device = (site.device.fingerprint, site.device.core)
        if device not in made:
            made[device] = Campaign(graph, target, cores, records, *device, 0.0 if emulate else APART)
    work = [(site, made[site.device.fingerprint, site.device.core]) for site in found]
    try:
        with Progress("tune") as tell:
            if len(work) == 1:
                _run_one(*work[0], seconds, tell)
            else:
                _run_all(work, list(made.values()), seconds, tell)
    except KeyboardInterrupt:
        typer.echo(f"stopped: what was measured is in {records.path}; the same command goes on", err=True)
        raise
    return [campaign.report() for campaign in made.values()]


def _run_one(site: Site, campaign: Campaign, seconds: float, tell: _Tell) -> None:
    began = time.monotonic()

    def progress() -> None:
        tell(*_stage([campaign], (time.monotonic() - began) / seconds))

    campaign.run(site.measure, site.name, began + seconds, progress)


def _run_all(work: Sequence[tuple[Site, Campaign]], campaigns: Sequence[Campaign], seconds: float, tell: _Tell) -> None:
    """All sites at once; one that fails leaves its work to others of its kind. Raises EdgertError if all fail."""
    began = time.monotonic()
    failures: list[tuple[Site, Exception]] = []

    def run(site: Site, campaign: Campaign) -> None:
        try:
            campaign.run(site.measure, site.name, began + seconds)
        except Exception as error:
            failures.append((site, error))

    threads = [Thread(target=run, args=pair) for pair in work]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            tell(*_stage(campaigns, (time.monotonic() - began) / seconds))
            time.sleep(_GLANCE)
    finally:
        for campaign in campaigns:
            campaign.stop()
        for thread in threads:
            thread.join()
    for site, error in failures:
        typer.echo(f"{site.name} stopped measuring: {error}", err=True)
    if len(failures) == len(work):
        raise EdgertError("no board is left to measure\nWhat was measured is stored: run the command again to go on.")


def _stage(campaigns: Sequence[Campaign], spent: float) -> tuple[str, float]:
    """What a progress bar says: what is left, and the part that is done, of the work or of the time."""
    left, of = sum(campaign.left for campaign in campaigns), sum(campaign.total for campaign in campaigns)
    return f"{left} of {of} left", max(spent, 1 - left / max(of, 1))
