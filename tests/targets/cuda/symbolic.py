"""Generated kernels taken apart: which multiply-add of the PTX belongs to which weight."""

from __future__ import annotations

import re
from collections.abc import Iterator

from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer
from targets.cuda.tiling import Tile

__all__ = ["multiply_adds"]

_INSTRUCTION = re.compile(r"(?:@!?%p\d+ )?([a-z][\w.:]*) (.*);")
_ADDRESS = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")

Place = tuple[int, int, int, int]  # output channel, input channel in its group, row and column of the window


def multiply_adds(kernel: Kernel, layer: ConvLayer, tile: Tile | None, first: int = 0) -> dict[Place, str]:
    """The immediate of each multiply-add by the place of its weight.

    Follows constant offsets through staging, sums and stores; what a thread adds to them for its own pixel is the same
    for all accesses. `first` is the output channel that stores at offset 0 belong to. No place may appear twice.
    """
    depth = layer.weights.shape[1]
    moved: dict[str, int] = {}  # constants in pointers, and in what they are made of
    values: dict[str, tuple[int, int, int]] = {}  # register -> channel, row, column in the window
    staging: dict[str, int] = {}  # register -> bytes from the first element of the input
    slots: dict[int, int] = {}  # place of a channel in shared memory -> channel
    sums: dict[str, dict[tuple[int, int, int], str]] = {}
    found: dict[Place, str] = {}

    def offset(operand: str) -> int:
        match = _ADDRESS.fullmatch(operand)
        assert match, operand
        return moved.get(match[1], 0) + int(match[2] or 0)

    for opcode, operands in _instructions(kernel.ptx):
        if opcode in ("add.s64", "add.u32"):
            constant = int(operands[2]) if operands[2].isdigit() else moved.get(operands[2], 0)
            moved[operands[0]] = moved.get(operands[1], 0) + constant
        elif opcode == "mul.wide.u32" and operands[2] == "4":
            moved[operands[0]] = 4 * moved.get(operands[1], 0)
        elif opcode.startswith("ld.global") and "residual" not in kernel.ptx:
            if tile is None:
                values[operands[0]] = (offset(operands[1]) // 4 // layer.source.plane % depth, 0, 0)
            else:
                staging[operands[0]] = offset(operands[1])
        elif opcode.startswith("st.shared") and tile is not None:
            slots[offset(operands[0]) // 4 // tile.channel] = staging[operands[1]] // 4 // layer.source.plane % depth
        elif opcode.startswith("ld.shared") and tile is not None:
            slot, within = divmod(offset(operands[1]) // 4, tile.channel)
            values[operands[0]] = (slots[slot], *_tap(layer, tile, within))
        elif opcode == "mov.f32":
            sums[operands[0]] = {}
        elif opcode == "fma.rn.f32":
            result, value, weight, total = operands
            own = sums.setdefault(result, {}) if result == total else dict(sums[total])
            assert values[value] not in own
            own[values[value]] = weight
            sums[result] = own
        elif opcode == "max.f32":
            sums[operands[0]] = sums[operands[1]]
        elif opcode.startswith("st.global"):
            channel = first + offset(operands[0]) // 4 // layer.target.plane
            for place, weight in sums[operands[1]].items():
                assert (channel, *place) not in found
                found[channel, *place] = weight
    return found


def _instructions(ptx: str) -> Iterator[tuple[str, list[str]]]:
    for line in ptx.splitlines():
        if match := _INSTRUCTION.fullmatch(line):
            yield match[1], match[2].split(", ")


def _tap(layer: ConvLayer, tile: Tile, within: int) -> tuple[int, int]:
    """Row and column of the window that lie so many elements behind its first in shared memory."""
    for r in range(layer.kernel[0]):
        for s in range(layer.kernel[1]):
            on, residue = divmod(s * layer.dilations[1], layer.strides[1])
            if r * layer.dilations[0] * tile.pitch + residue * tile.phase + on == within:
                return r, s
    raise AssertionError(f"no element of the window is {within} behind its first")
