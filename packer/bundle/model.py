"""What a bundle holds, before it is written: programs, constants and golden samples."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from packer.ir import Box, TensorType
from targets.base import Attribute, Layout

__all__ = ["ALL_CORES", "Bundle", "Golden", "Place", "Program", "Step", "Tensor"]


ALL_CORES = 255  # of a step: every core runs a share of its tasks


class Place(enum.IntEnum):
    """Where a tensor of a program lives; numbers are those of the bundle format."""

    ARENA = 0
    SEGMENT = 1
    INPUT = 2
    OUTPUT = 3


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a program: type, layout and place. `index` is the position of an input or output."""

    name: str
    type: TensorType
    layout: Layout
    place: Place
    index: int = 0
    offset: int = 0  # bytes in the arena
    data: np.ndarray | None = None  # the stored bytes of a constant
    extent: tuple[int, int] | None = None  # (axis, tensor id of the count)
    root: int = -1  # tensor id: this is a view, the box `within` of that tensor
    within: Box = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel call over tensor ids (-1: absent)."""

    kernel: str
    nodes: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    core: int = 0
    phase: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The network compiled for one target and number of cores; `speeds` of the cores are relative, none: all alike.

    `plan` tells people what was decided, as docs/format.md says; "": nothing is known.
    """

    target: str
    arch: str
    arena_bytes: int
    arena_floor: int
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cores: int = 1
    speeds: tuple[float, ...] = ()
    plan: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """Sample inputs and the outputs they must give: pass if |got - want| <= atol + rtol max|want|."""

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    atol: float
    rtol: float


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Everything that goes into one file."""

    producer: str
    model: str
    programs: tuple[Program, ...]
    goldens: tuple[Golden, ...]
