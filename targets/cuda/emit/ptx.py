"""A small builder of PTX text: registers, labels, immediates, an entry around a body.

PTX ISA: https://docs.nvidia.com/cuda/parallel-thread-execution/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

__all__ = ["ISA", "TARGET", "Builder", "f32", "f64", "module"]

ISA, TARGET = "5.0", "sm_62"  # CUDA 8 and later take it, for this or a later processor
# first letter of a register's name -> its type
_TYPES = {"f": "f32", "h": "b16", "w": "f64", "r": "u32", "b": "b32", "d": "u64", "p": "pred"}


def f32(value: float | np.floating) -> str:
    """A float32 as an immediate of PTX, exactly."""
    return f"0f{int(np.float32(value).view(np.uint32)):08X}"


def f64(value: float) -> str:
    """A float64 as an immediate of PTX, exactly."""
    return f"0d{int(np.float64(value).view(np.uint64)):016X}"


class Builder:
    """Collects the instructions of one entry."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._registers: Counter[str] = Counter()
        self._labels = 0

    def register(self, kind: str) -> str:
        """A new virtual register: f (f32), h (b16), w (f64), r (u32), b (b32), d (u64) or p (predicate)."""
        self._registers[kind] += 1
        return f"%{kind}{self._registers[kind] - 1}"

    def label(self) -> str:
        """A new label."""
        self._labels += 1
        return f"L{self._labels}"

    def place(self, label: str) -> None:
        """Put a label here."""
        self._lines.append(f"{label}:")

    def emit(self, text: str) -> None:
        """An instruction, without its semicolon."""
        self._lines.append(f"{text};")

    def new(self, kind: str, operation: str, *operands: object) -> str:
        """The new register that `operation` of these operands gives."""
        result = self.register(kind)
        self._lines.append(f"{operation} {', '.join((result, *map(str, operands)))};")
        return result

    @contextmanager
    def only(self, predicate: str | None) -> Iterator[None]:
        """Instructions emitted inside are for threads whose predicate is set; None: for all. No labels inside."""
        begin = len(self._lines)
        yield
        if predicate is not None:
            self._lines[begin:] = [f"@{predicate} {line}" for line in self._lines[begin:]]

    def entry(self, name: str, parameters: Sequence[str], threads: int, shared: int = 0, registers: int = 128) -> str:
        """The entry called `name` with pointers as parameters, `shared` bytes of shared memory as `shared`, and at most
        `registers` registers a thread. (Not told, ptxas spills a few now and then so that one more block fits.)"""
        head = ",\n".join(f".param .u64 {parameter}" for parameter in parameters)
        declared = [
            f".reg .{_TYPES[kind]} %{kind}<{self._registers[kind]}>;" for kind in _TYPES if self._registers[kind]
        ]
        if shared:
            declared.append(f".shared .align 16 .b8 shared[{shared}];")
        body = "\n".join((*declared, *self._lines))
        return f".visible .entry {name}(\n{head}\n)\n.maxntid {threads}, 1, 1\n.maxnreg {registers}\n{{\n{body}\n}}\n"


def module(*entries: str) -> str:
    """A PTX module of these entries."""
    return "\n".join((f".version {ISA}\n.target {TARGET}\n.address_size 64\n", *entries))
