"""What every operator of the IR is: attributes, type inference and a numpy reference."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from packer.ir.types import Box, TensorType, whole

__all__ = ["Activation", "Dependence", "Op", "Part", "ShapeError"]


class ShapeError(ValueError):
    """The operands of an operator, or the graph around it, are not well formed."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A pointwise function fused behind another operator; kinds and parameters are those of `Unary`."""

    kind: str
    alpha: float = 0.0
    beta: float = 0.0


class Dependence(enum.Enum):
    """What an output needs of its inputs along one of its dimensions, and so whether it can be split there."""

    POINTWISE = "pointwise"  # a piece needs the same piece (or all of an operand that has no such dimension)
    REGION = "region"  # a piece needs more than its own extent: neighbours, the halo
    FULL = "full"  # every piece needs everything: no split


@dataclass(frozen=True, slots=True)
class Part:
    """A sub-operator: `op` computes the box `writes` of the output from the boxes `reads` of the inputs, as if those
    were whole tensors. An input it does not need at all is None."""

    op: Op
    reads: tuple[Box | None, ...]
    writes: Box


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

    def dependence(self, inputs: Sequence[TensorType | None]) -> tuple[Dependence, ...]:
        """For each dimension of the first output, how it depends on the inputs. FULL throughout unless declared.

        Operators of several outputs that matter declare FULL. Inputs are those `infer` accepts.
        """
        return (Dependence.FULL,) * self.infer(inputs)[0].rank

    def part(self, box: Box, inputs: Sequence[TensorType | None]) -> Part:
        """The sub-operator for `box` of the first output: whole along dimensions that are FULL, anything but empty
        along the others, cut where `grain` allows. What it reads is exact: ranges are propagated backwards and clipped
        to the inputs.

        `part(box).op` applied to the boxes it reads gives the box of what `self` gives, bit for bit.
        Operators that are FULL throughout have one part, themselves.
        """
        return Part(self, tuple(None if t is None else whole(t) for t in inputs), box)

    def grain(self, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """For each dimension of the first output, what cuts must be multiples of (ends need not be): 1 but for the
        channels of groups."""
        return (1,) * len(self.dependence(inputs))

    def terms(self, inputs: Sequence[TensorType | None]) -> int:
        """Extent of the dimension that is summed over and may be cut into partial sums; 0: there is none."""
        return 0

    def partial(self, begin: int, end: int, inputs: Sequence[TensorType | None]) -> Part:
        """The sub-operator that sums over the terms [begin, end) only. The first one has the bias; none has an
        activation or a residual: whoever adds the partial sums up applies those. An input it leaves out (bias,
        residual) is None."""
        raise NotImplementedError

    def reference(self, *inputs: Any, **_: Any) -> tuple[np.ndarray, ...]:
        """The result by numpy of arrays (an absent optional input is None), in their dtype: float64 gives float64.

        Subclasses name their inputs; they may be called with types that `infer` accepts only.
        """
        raise NotImplementedError
