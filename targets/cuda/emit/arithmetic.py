"""How products are summed: in float32, or two pixels at a time in halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from packer.ir import DType
from targets.base import TargetError
from targets.cuda.emit.half2 import Half2
from targets.cuda.emit.ptx import Builder
from targets.cuda.emit.single import Single

__all__ = ["ARITHMETICS", "Arithmetic", "arithmetic_of"]


class Arithmetic(Protocol):
    """The sums of a slice in one thread, made with a builder and the biases; see Single and Half2."""

    pixels: ClassVar[int]
    register: ClassVar[tuple[str, str]]

    def __init__(self, builder: Builder, bias: np.ndarray) -> None: ...

    @staticmethod
    def constants(weights: np.ndarray) -> np.ndarray: ...

    @staticmethod
    def operand(b: Builder, dtype: DType, elements: Sequence[str]) -> str: ...

    def multiply(self, value: str, weights: np.ndarray) -> None: ...

    def settle(self) -> None: ...

    def sums(self) -> list[list[str]]: ...


ARITHMETICS: dict[str, type[Arithmetic]] = {"float32": Single, "half2": Half2}


def arithmetic_of(name: str) -> type[Arithmetic]:
    """The arithmetic of this name; raises TargetError for others."""
    if name not in ARITHMETICS:
        raise TargetError(f"arithmetic: expected {', '.join(ARITHMETICS)}, got '{name}'")
    return ARITHMETICS[name]
