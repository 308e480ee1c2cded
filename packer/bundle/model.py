"""What a bundle holds, before it is written: programs, constants and golden samples."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from packer.ir import Box, TensorType
from targets.base import Attribute, Layout

__all__ = ["ALL_CORES", "MAX_RANK", "MOST_PROGRAMS", "Bundle", "Golden", "Module", "Place", "Program", "Step", "Tensor"]


ALL_CORES = 255  # of a step: every core runs a share of its tasks
MOST_PROGRAMS = 1024  # of a bundle: readers refuse more
MAX_RANK = 8  # of a tensor: likewise


class Place(enum.IntEnum):
    """Where a tensor of a program lives; numbers are those of the bundle format."""

    ARENA = 0
    SEGMENT = 1
    INPUT = 2
    OUTPUT = 3
    DEVICE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of a program: type, layout and place. `index` is the position of an input or output, `halo` that of
    layout PLANES: (top, left, bottom, right), not all 0, or none."""

    name: str
    type: TensorType
    layout: Layout
    place: Place
    index: int = 0
    offset: int = 0  # bytes in the arena or the device's memory
    data: np.ndarray | None = None  # the stored bytes of a constant
    extent: tuple[int, int] | None = None  # (axis, tensor id of the count)
    root: int = -1  # tensor id: this is a view, the box `within` of that tensor
    within: Box = ()
    halo: tuple[int, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Module:
    """Code for a device: PTX ("": none), machine code for exactly the program's device, or both."""

    ptx: str
    cubin: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The network compiled for one target and number of cores; `speeds` of the cores are relative, none: all alike.

    `plan` tells people what was decided, as docs/format.md says; "": nothing is known. With a `device` ("sm_62"),
    tensors of place DEVICE lie in `device_bytes` of its memory, and steps name `modules` by position.
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
    device: str = ""
    device_bytes: int = 0
    modules: tuple[Module, ...] = ()


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
