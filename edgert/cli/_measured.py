"""What the record file knows of the device to pack for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgert.emulator import EMULATED
from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from packer.tune import Measured, Records
    from targets.base import Target

__all__ = ["HOST", "calibrated", "read_measured"]

HOST = "cpu"  # the target that is this machine


def read_measured(
    file: Path | None, device: str | None, targets: Sequence[str], activations: str = "f32", device_code: str = "cubin"
) -> dict[str, Measured]:
    """What was measured on this machine, for the target that is this machine, and for targets with a GPU on the only
    one of its kind that stored floats as `activations` and ran `device_code`; or on another `device`, a part of its
    name, for the one target. Says so on stderr. Nothing if no file is named and the usual one does not exist."""
    from packer.tune import Measured, Records, default_path
    from targets.base import resolve

    path = file or default_path()
    if device is not None and len(targets) != 1:
        raise InvalidArgumentError(f"--device: expected one --target that is this device, got {', '.join(targets)}")
    chosen = [target for target in map(resolve, targets) if device or target.device or target.name == HOST]
    if not chosen or (file is None and device is None and not path.exists()):
        return {}
    measured = {}
    with Records(path) as records:
        for target in chosen:
            known = _named(records, device, target) if device else _usual(records, target, activations, device_code)
            found = Measured.load(records, *known) if known else None
            if known is None or found is None or not (found.machine or any(found.seconds.values())):
                continue
            measured[target.name] = found
            count, calibrated = sum(map(len, found.seconds.values())), ", calibrated" if found.machine else ""
            typer.echo(
                f"using {count} measured times of {known[0]}{calibrated} ({path}; --no-records: without)", err=True
            )
    return measured


def _usual(records: Records, target: Target, activations: str, device_code: str) -> tuple[str, str] | None:
    """This machine, or the only GPU like the target's that this version measured; None if there are several, which is
    said on stderr, or none."""
    from edgert import __version__
    from edgert.fingerprint import gpu_core, this_device

    if not target.device:
        here = this_device()
        return here.fingerprint, here.core
    kind = gpu_core(target.device, activations, device_code)
    found = [
        (name, core)
        for name, core in records.devices()
        if core == kind and EMULATED not in name and f"edgert {__version__}," in name
    ]
    if len(found) > 1:
        names = "\n".join(name for name, _ in found)
        typer.echo(f"{target.name}: {len(found)} devices were measured; choose one: --device NAME\n{names}", err=True)
    return found[0] if len(found) == 1 else None


def calibrated(target: Target) -> Target:
    """The target as this machine was measured to be, if it is this machine and `edgert tune --calibrate` was run."""
    from packer.tune import Measured, Records, default_path

    path = default_path()
    if target.name != HOST or not path.exists():
        return target
    with Records(path) as records:
        known = _usual(records, target, "", "")
        return Measured.load(records, *known).on(target) if known else target


def _named(records: Records, part: str, target: Target) -> tuple[str, str]:
    """The device like the target's, and how its cores compute, whose name has that part."""
    from edgert.fingerprint import is_gpu

    known = [(name, core) for name, core in records.devices() if is_gpu(core) == bool(target.device)]
    found = [both for both in known if part.lower() in " ".join(both).lower()]
    if len(found) != 1:
        names = "; ".join(" ".join(both) for both in found or known) or "none"
        raise InvalidArgumentError(f"--device: expected a part of the name of one device, got '{part}'\nknown: {names}")
    return found[0]
