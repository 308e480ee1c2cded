"""Two pixels at a time in halves: one multiply-add for both, sums that are added up in float32 now and then.

An instruction has no room for weights of two halves; before sm_70 the assembler puts them into the constant bank, from
where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from packer.ir import DType
from targets.base import TargetError
from targets.cuda.emit.element import narrow
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["MOST", "Half2"]

MOST = 16
_LARGEST = 65_504


class Half2:
    """Sums of two pixels, which begin as the bias; operands are a half of each.

    A sum in halves takes MOST products or a few more, up to the end of a chunk. Then it is added to one in float32,
    and begins anew.
    """

    pixels: ClassVar[int] = 2
    register: ClassVar[tuple[str, str]] = ("b", "b32")

    def __init__(self, builder: Builder, bias: np.ndarray) -> None:
        self._builder = builder
        self._totals = [[builder.new("f", "mov.f32", f32(value)) for value in bias] for _ in range(self.pixels)]
        self._halves: dict[int, str] = {}
        self._products = [0] * len(bias)

    @staticmethod
    def constants(weights: np.ndarray) -> np.ndarray:
        """The distinct values for the constant bank."""
        return np.unique(_halves(weights)[weights != 0])

    @staticmethod
    def operand(b: Builder, dtype: DType, elements: Sequence[str]) -> str:
        """What `multiply` takes for the stored element of each pixel; float32 is rounded."""
        return b.new("b", "mov.b32", f"{{{', '.join(narrow(b, dtype, element) for element in elements)}}}")

    def multiply(self, value: str, weights: np.ndarray) -> None:
        """Add `value` times each weight to its sum, one for one; weights of zero cost nothing."""
        b, bits = self._builder, _halves(weights).view(np.uint16)
        for k in np.flatnonzero(weights).tolist():
            both = b.new("b", "mov.b32", f"0x{int(bits[k]) * 0x10001:08X}")
            if k in self._halves:
                b.emit(f"fma.rn.f16x2 {self._halves[k]}, {value}, {both}, {self._halves[k]}")
            else:
                self._halves[k] = b.new("b", "mul.rn.f16x2", value, both)
            self._products[k] += 1

    def settle(self) -> None:
        """The end of a chunk: sums of enough products go to float32."""
        for k in [k for k in self._halves if self._products[k] >= MOST]:
            self._add(k)

    def sums(self) -> list[list[str]]:
        """Registers of float32, for each pixel those of all sums."""
        for k in list(self._halves):
            self._add(k)
        return self._totals

    def _add(self, k: int) -> None:
        b, parts = self._builder, [self._builder.register("h") for _ in range(self.pixels)]
        b.emit(f"mov.b32 {{{', '.join(parts)}}}, {self._halves.pop(k)}")
        for totals, part in zip(self._totals, parts, strict=True):
            totals[k] = b.new("f", "add.rn.f32", totals[k], b.new("f", "cvt.f32.f16", part))
        self._products[k] = 0


def _halves(weights: np.ndarray) -> np.ndarray:
    if np.abs(weights).max(initial=0) > _LARGEST:
        raise TargetError(f"half2: expected weights of at most {_LARGEST}, got {np.abs(weights).max()}")
    return weights.astype(np.float16)
