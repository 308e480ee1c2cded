"""Integers and predicates of many threads at once: what addresses and branches depend on, and nothing else.

Words are loaded from operands that are known, and from shared memory. What else is loaded counts as 0; so do floats.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from targets.cuda.model.text import Access, Instruction, Program

__all__ = ["APART", "Values", "needed"]

_MASK = (1 << 32) - 1
APART = 1 << 36  # bytes between the operands of a kernel; the first one begins there
_MEMORY = ("ld", "shfl", "atom", "vote")
_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def needed(program: Program, roots: set[str]) -> set[str]:
    """The registers that those of `roots` depend on, with themselves; "shared" if it is also shared memory."""
    makers: dict[str, list[Instruction]] = {}
    for block in program.blocks:
        for instruction in block.instructions:
            if instruction.code == "fma.rn.f32":
                continue
            for name in instruction.targets:
                makers.setdefault(name, []).append(instruction)
            if instruction.access is not None and instruction.access.store and instruction.access.space == "shared":
                makers.setdefault("shared", []).append(instruction)
    found, open = set(roots), list(roots)
    while open:
        for instruction in makers.get(open.pop(), ()):
            for name in instruction.sources:
                if name not in found:
                    found.add(name)
                    open.append(name)
    return found


class Values:
    """Registers of threads, one element each; `special` has what %tid.x and its like are. Of `operands` those known are
    arrays. Blocks of `threads` have `shared` bytes of memory each."""

    def __init__(
        self,
        special: dict[str, np.ndarray],
        names: Sequence[str],
        operands: Sequence[np.ndarray | None],
        shared: int,
        threads: int,
    ) -> None:
        self._special, self._names = special, {name: (i + 1) * APART for i, name in enumerate(names)} | {"shared": 0}
        self._count = len(special["%tid.x"])
        self._found: dict[str, np.ndarray] = {}
        self._operands = [None if array is None else _words(array) for array in operands]
        self._shared = np.zeros((self._count // threads, -(-shared // 4)), np.int64)
        self._threads = threads

    def register(self, name: str, at: np.ndarray) -> np.ndarray:
        """A register, or a special one, of the threads `at`."""
        if name in self._special:
            return np.asarray(self._special[name][at])
        return self._found[name][at] if name in self._found else np.zeros(len(at), np.int64)

    def passes(self, instruction: Instruction, at: np.ndarray) -> np.ndarray:
        """Which of the threads have the instruction's guard."""
        if not instruction.guard:
            return np.ones(len(at), bool)
        return np.asarray((self.register(instruction.guard, at) != 0) != instruction.unless)

    def run(self, instruction: Instruction, at: np.ndarray) -> None:
        """Do one for the threads `at`."""
        if instruction.guard:
            at = at[self.passes(instruction, at)]
        if instruction.access is not None:
            self._access(instruction, instruction.access, at)
            return
        value = self._value(instruction, at)
        for name in instruction.targets:
            self._set(name, at, value)

    def _set(self, name: str, at: np.ndarray, value: np.ndarray) -> None:
        if name not in self._found:
            self._found[name] = np.zeros(self._count, np.int64)
        self._found[name][at] = value

    def _access(self, instruction: Instruction, access: Access, at: np.ndarray) -> None:
        """Load words, or store them to shared memory."""
        first = self.register(access.register, at) + access.offset
        data = [name for name in instruction.operands if not name.startswith("[")]
        for number, name in enumerate(data):
            address = first + number * (access.bytes // len(data))
            if access.store:
                self._shared[at // self._threads, address >> 2] = self._operand(name, at)
            elif access.space == "shared":
                self._set(name, at, self._shared[at // self._threads, address >> 2])
            else:
                self._set(name, at, self._global(address))

    def _global(self, address: np.ndarray) -> np.ndarray:
        """Words of operands."""
        found = np.zeros(len(address), np.int64)
        which = (address + APART // 2) // APART - 1
        for number, words in enumerate(self._operands):
            if words is not None and (own := which == number).any():
                found[own] = words[np.minimum((address[own] - (number + 1) * APART) >> 2, len(words) - 1)]
        return found

    def _value(self, instruction: Instruction, at: np.ndarray) -> np.ndarray:
        kind, *rest = instruction.code.split(".")
        type = rest[-1] if rest else ""
        if kind in _MEMORY and rest[0] != "param":
            return np.zeros(len(at), np.int64)
        own = [self._operand(text, at) for text in instruction.operands[1:]]
        if kind == "setp":
            return _compared(rest, type, own)
        if kind in ("mov", "cvta", "ld"):
            return own[0]
        if kind == "selp":
            return np.where(own[2] != 0, own[0], own[1])
        if kind == "not":
            return np.logical_not(own[0]).astype(np.int64) if type == "pred" else ~own[0] & _MASK
        if type[:1] == "f" or not own:
            return np.zeros(len(at), np.int64)
        return _wrapped(_integer(kind, rest, [_signed(value, type) for value in own]), kind, rest, type)

    def _operand(self, text: str, at: np.ndarray) -> np.ndarray:
        if text.startswith("%"):
            return self.register(text, at)
        if text.startswith("["):
            return np.full(len(at), self._names.get(text[1:-1], 0), np.int64)
        if text in self._names:
            return np.full(len(at), self._names[text], np.int64)
        if text.startswith("0f"):
            (value,) = struct.unpack(">f", bytes.fromhex(text[2:]))
            return np.full(len(at), int(value) if math.isfinite(value) else 0, np.int64)
        return np.full(len(at), 0 if text.startswith("0d") else int(text, 0), np.int64)


def _words(array: np.ndarray) -> np.ndarray:
    """The words of 32 bits of an array."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.concatenate([data, np.zeros(-len(data) % 4 + 4, np.uint8)]).view(np.uint32)


def _compared(rest: list[str], type: str, own: list[np.ndarray]) -> np.ndarray:
    compare = _COMPARE.get(rest[0])
    if compare is None or type[:1] == "f":
        return np.zeros(len(own[0]), np.int64)
    found = compare(_signed(own[0], type), _signed(own[1], type))
    if len(own) > 2:
        other = own[2] != 0
        found = found & other if rest[1] == "and" else found | other if rest[1] == "or" else found ^ other
    return found.astype(np.int64)


def _integer(kind: str, rest: list[str], own: list[np.ndarray]) -> Any:
    if kind in _BINARY:
        return _BINARY[kind](own[0], own[1])
    if kind in ("mul", "mad"):
        product = own[0] * own[1]
        if rest[0] == "hi":
            product >>= 32
        return product if kind == "mul" else product + own[2]
    if kind == "shl":
        return own[0] << np.minimum(own[1], 63)
    if kind == "shr":
        return own[0] >> np.minimum(own[1], 63)
    if kind == "div":
        return own[0] // np.maximum(own[1], 1)
    if kind == "rem":
        return own[0] % np.maximum(own[1], 1)
    if kind == "neg":
        return -own[0]
    if kind == "cvt":
        return own[0]
    return np.zeros(len(own[0]), np.int64)


def _signed(value: np.ndarray, type: str) -> np.ndarray:
    """A register of 32 bits as its instruction takes it."""
    if type == "s32":
        return ((value & _MASK) ^ (1 << 31)) - (1 << 31)
    return value & _MASK if type in ("u32", "b32") else value


def _wrapped(value: np.ndarray, kind: str, rest: list[str], type: str) -> np.ndarray:
    if type == "pred" or type.endswith("64") or rest[0] == "wide":
        return value
    if kind == "cvt":
        type = rest[-2]
        return value if type.endswith("64") else value & _MASK
    return value & _MASK
