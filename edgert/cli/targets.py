"""`edgert targets`: what can be packed for."""

from __future__ import annotations

from edgert.cli._options import Json

__all__ = ["targets"]


def targets(json: Json = False) -> None:
    """List the targets that `edgert pack --target` knows."""
    from edgert.cli._output import print_json, print_table
    from targets.base import names

    found = names()
    if json:
        print_json(found)
    else:
        print_table(("target", "description"), list(found.items()))
