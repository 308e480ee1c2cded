"""What every operator of the IR is: attributes, type inference and a numpy reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from packer.ir.types import TensorType

__all__ = ["Activation", "Op", "ShapeError"]


class ShapeError(ValueError):
    """The operands of an operator, or the graph around it, are not well formed."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A pointwise function fused behind another operator; kinds and parameters are those of `Unary`."""

    kind: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Op:
    """Base of all operators. Subclasses are frozen dataclasses whose fields are the attributes.

    `inplace` lists the inputs whose buffer the first output may take over when types agree and the
    input is not needed later.
    """

    inplace: ClassVar[tuple[int, ...]] = ()

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of the outputs; raises ShapeError naming what was expected and what was got."""
        raise NotImplementedError

    def reference(self, *inputs: Any, **_: Any) -> tuple[np.ndarray, ...]:
        """The result by numpy of arrays (an absent optional input is None), in their dtype: float64 gives float64.

        Subclasses name their inputs; they may be called with types that `infer` accepts only.
        """
        raise NotImplementedError
