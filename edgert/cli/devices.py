"""`edgert devices`: this machine."""

from __future__ import annotations

import typer

from edgert.cli._options import Json

__all__ = ["devices"]


def devices(json: Json = False) -> None:
    """Show what this machine has. Processor, cores, instruction sets, memory, and which programs run here."""
    from edgert.cli._output import print_json, size
    from edgert.devices import this_machine

    found = this_machine()
    if json:
        print_json(found)
        return
    typer.echo(f"cpu: {found.cpu} ({found.arch})")
    typer.echo(f"  cores usable       {found.cores}")
    typer.echo(f"  instruction sets   {', '.join(found.isas)} (sessions use {found.isas[0]})")
    typer.echo(f"  memory             {size(found.memory_bytes)}, {size(found.available_bytes)} available")
    typer.echo(f"  runs               programs made for {found.arch}")
