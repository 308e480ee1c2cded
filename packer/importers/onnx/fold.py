"""Constant folding through the numpy reference of the IR, within a budget of memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.errors import ModelError
from packer.ir import TensorType
from packer.ir.ops import Op

__all__ = ["LARGEST_TOTAL", "Folder"]

LARGEST_TOTAL = 1 << 32  # bytes of all folded constants together


class Folder:
    """Evaluates operators whose inputs are all constant, and counts what that produces."""

    def __init__(self) -> None:
        self._left = LARGEST_TOTAL

    def reserve(self, size: int, source: str) -> None:
        """Account for `size` more bytes; raises ModelError naming `source` when they are too many."""
        if size > self._left:
            raise ModelError(
                "the constants computed from the model are too large",
                where=f"node '{source}'",
                expected=f"at most {LARGEST_TOTAL} bytes in all",
                got=f"{size} more with {self._left} left",
            )
        self._left -= size

    def fold(
        self, op: Op, inputs: Sequence[np.ndarray | None], types: Sequence[TensorType], source: str
    ) -> tuple[np.ndarray, ...]:
        """The results of `op`, float64 where an input was, else of the inferred dtypes."""
        wide = any(array is not None and array.dtype == np.float64 for array in inputs)
        self.reserve(sum(type.bytes for type in types) * (2 if wide else 1), source)
        with np.errstate(all="ignore"):
            results = op.reference(*inputs)[: len(types)]
        return tuple(
            result if wide and result.dtype == np.float64 else np.asarray(result, dtype=type.dtype.numpy)
            for result, type in zip(results, types, strict=True)
        )
