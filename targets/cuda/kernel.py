"""What a code generator makes of a layer: kernels in PTX, and how they are launched."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Kernel"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry in a PTX module of its own.

    `parameters` are device pointers in order: "x", "y" and, if the layer adds one, "residual"; each points to the first
    plane. `multiplies` counts the multiply-adds in the code, `deleted` those left out of a template. Loads touch up to
    `slack` elements behind the last plane of x; what is there does not matter.
    """

    name: str
    ptx: str
    grid: tuple[int, int, int]
    threads: int
    parameters: tuple[str, ...]
    channels: tuple[tuple[int, ...], ...]  # output channels of each slice; the grid's last dimension picks one
    multiplies: int
    slack: int
    deleted: int = 0
