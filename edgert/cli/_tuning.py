"""Campaigns on this machine or on the boards of a cluster, as `edgert tune` runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

import typer

from edgert.cli._progress import Progress
from edgert.errors import EdgertError, InvalidArgumentError

if TYPE_CHECKING:
    from edgert.fingerprint import Device
    from packer.ir import Graph
    from packer.tune import Campaign, CampaignReport, Measure, Records
    from targets.base import Target

__all__ = ["calibrate_here", "run_campaigns"]

_Tell = Callable[[str, float], None]
_GLANCE = 0.2  # seconds between looks at what boards do


@dataclass(frozen=True, slots=True)
class _Site:
    """Something that measures."""

    name: str
    device: Device
    measure: Measure


def calibrate_here(records: Records) -> str:
    """Measure this machine itself and keep that; its description."""
    import platform

    from edgert.fingerprint import this_device
    from edgert.measure import measure_step
    from packer.tune import Calibration
    from packer.tune.calibrate import calibrate

    here = this_device()
    machine = calibrate(measure_step)
    records.calibrate(Calibration(here.fingerprint, here.core, machine.to_toml(), platform.node()))
    return machine.description


def run_campaigns(
    graph: Graph, target: Target, cores: Sequence[int], records: Records, seconds: float, cluster: str | None
) -> list[CampaignReport]:
    """Measure for at most that many seconds, on this machine or on every board of a cluster that `target` fits; one
    report a device."""
    from packer.tune import Campaign

    with ExitStack() as stack:
        sites = _here() if cluster is None else _there(stack, cluster)
        fitting = [site for site in sites if site.device.arch == target.arch]
        if not fitting:
            got = ", ".join(dict.fromkeys(site.device.arch for site in sites))
            raise InvalidArgumentError(f"--target {target.name}: expected a device of {target.arch}, got {got}")
        made: dict[tuple[str, str], Campaign] = {}
        for site in fitting:
            device = (site.device.fingerprint, site.device.core)
            if device not in made:
                made[device] = Campaign(graph, target, cores, records, *device)
        work = [(site, made[site.device.fingerprint, site.device.core]) for site in fitting]
        try:
            with Progress("tune") as tell:
                if cluster is None:
                    _run_here(*work[0], seconds, tell)
                else:
                    _run_there(work, list(made.values()), seconds, tell)
        except KeyboardInterrupt:
            typer.echo(f"stopped: what was measured is in {records.path}; the same command goes on", err=True)
            raise
        return [campaign.report() for campaign in made.values()]


def _here() -> list[_Site]:
    import platform

    from edgert.fingerprint import this_device
    from edgert.measure import measure_step

    return [_Site(platform.node(), this_device(), measure_step)]


def _there(stack: ExitStack, address: str) -> list[_Site]:
    from edgert.cli._cluster import boards

    return [_Site(board.name, board.device, board.measure) for board in stack.enter_context(boards(address))]


def _run_here(site: _Site, campaign: Campaign, seconds: float, tell: _Tell) -> None:
    began = time.monotonic()

    def progress() -> None:
        tell(*_stage([campaign], (time.monotonic() - began) / seconds))

    campaign.run(site.measure, site.name, began + seconds, progress)


def _run_there(
    work: Sequence[tuple[_Site, Campaign]], campaigns: Sequence[Campaign], seconds: float, tell: _Tell
) -> None:
    """All boards at once; one that fails leaves its work to others of its kind. Raises EdgertError if all fail."""
    began = time.monotonic()
    failures: list[tuple[_Site, Exception]] = []

    def run(site: _Site, campaign: Campaign) -> None:
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
