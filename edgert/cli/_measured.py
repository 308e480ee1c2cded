"""What the record file knows of the device to pack for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from packer.tune import Measured, Records

__all__ = ["HOST", "read_measured"]

HOST = "cpu"  # the target that is this machine


def read_measured(file: Path | None, device: str | None, targets: Sequence[str]) -> dict[str, Measured]:
    """What was measured on this machine, for the target that is this machine; or on another `device`, a part of its
    name, for the one target. Says so on stderr. Nothing if no file is named and the usual one does not exist."""
    from edgert.fingerprint import this_device
    from packer.tune import Measured, Records, default_path
    from targets.base import resolve

    path = file or default_path()
    if device is not None and len(targets) != 1:
        raise InvalidArgumentError(f"--device: expected one --target that is this device, got {', '.join(targets)}")
    if (file is None and device is None and not path.exists()) or (device is None and HOST not in targets):
        return {}
    with Records(path) as records:
        if device is None:
            here = this_device()
            name, core = here.fingerprint, here.core
        else:
            name, core = _named(records, device)
        found = Measured.load(records, name, core)
    count = sum(map(len, found.seconds.values()))
    if count == 0 and found.machine is None:
        return {}
    calibrated = ", calibrated" if found.machine else ""
    typer.echo(f"using {count} measured times of {name}{calibrated} ({path}; --no-records: without)", err=True)
    return {HOST if device is None else resolve(targets[0]).name: found}


def _named(records: Records, part: str) -> tuple[str, str]:
    """The device, and how its cores compute, whose name has that part."""
    known = records.devices()
    found = [both for both in known if part.lower() in " ".join(both).lower()]
    if len(found) != 1:
        names = "; ".join(" ".join(both) for both in found or known) or "none"
        raise InvalidArgumentError(f"--device: expected a part of the name of one device, got '{part}'\nknown: {names}")
    return found[0]
