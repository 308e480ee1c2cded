"""`edgert demo`: the whole way, from a pruned network to classified digits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the files it makes.")
    ] = Path("edgert-demo"),
) -> None:
    """Show it all on handwritten digits. A small pruned network is packed, self-tested and run."""
    from edgert.demo import main

    raise typer.Exit(main(output))
