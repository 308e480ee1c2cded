"""Plain text for terminals and pipes: tables, sizes, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from edgert.session import SessionDescription

__all__ = ["print_json", "print_table", "ran", "size"]


def print_json(value: Any) -> None:
    """A dataclass, or anything JSON knows, indented on stdout. What is not finite becomes null."""
    typer.echo(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    import dataclasses
    import math

    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "", indent: int = 0) -> None:
    """Columns as wide as they need; those whose headers are among the words of `right` are aligned to the right."""
    numeric = set(right.split())
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (
            cell.rjust(width) if title in numeric else cell.ljust(width)
            for title, cell, width in zip(header, row, widths, strict=True)
        )
        typer.echo((" " * indent + "  ".join(cells)).rstrip())


def ran(used: SessionDescription) -> str:
    """Which program ran, and how."""
    device = f", on {used.device}" if used.device else ""
    return f"{used.target}, cores {used.cores}, {used.isa}, threads {used.threads}, {used.steps} steps{device}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
