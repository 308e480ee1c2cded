"""Cutting operators into parts at random, and comparing a part with the box of the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.ir.ops import Dependence, Op, Part
from packer.ir.types import Box, TensorType, extents_of
from tests.packer.ir.oracle import type_of

__all__ = ["Arrays", "apply", "check_part", "cut", "grid", "needed", "random_box"]

Arrays = Sequence[np.ndarray | None]


def grid(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of few bits, none of them zero: their products and sums are exact, in any order."""
    return ((2 * rng.integers(-8, 8, shape) + 1) / 4).astype(np.float32)


def random_box(rng: np.random.Generator, op: Op, types: Sequence[TensorType | None]) -> Box:
    """A box of the first output that `op` may be cut to: whole along dimensions that are FULL; often small or at an
    end."""
    (y, *_), box = op.infer(types), []
    for extent, kind, grain in zip(y.shape, op.dependence(types), op.grain(types), strict=True):
        units = -(-extent // grain)
        if kind is Dependence.FULL or rng.random() < 0.2:
            box.append((0, extent))
            continue
        size = int(rng.integers(1, units + 1)) if rng.random() < 0.5 else 1
        begin = int(rng.choice([0, units - size, rng.integers(0, units - size + 1)]))
        box.append((begin * grain, min((begin + size) * grain, extent)))
    return tuple(box)


def cut(x: np.ndarray | None, box: Box | None) -> np.ndarray | None:
    """A copy of what lies in the box."""
    if x is None or box is None:
        return None
    assert all(0 <= begin <= end <= extent for (begin, end), extent in zip(box, x.shape, strict=True)), (box, x.shape)
    return np.ascontiguousarray(x[tuple(slice(*span) for span in box)]).reshape(extents_of(box))


def apply(part: Part, inputs: Arrays) -> np.ndarray:
    """The part's output of the boxes it reads, of the type that `infer` says."""
    assert len(part.reads) == len(inputs)
    pieces = [cut(x, box) for x, box in zip(inputs, part.reads, strict=True)]
    (y, *_) = part.op.reference(*pieces)
    like = [x if x is None or x.dtype != np.float64 else x.astype(np.float32) for x in pieces]
    expected = part.op.infer([type_of(x) for x in like])[0]
    assert expected.shape == extents_of(part.writes) == y.shape, (part, expected)
    return np.asarray(y)


def check_part(op: Op, inputs: Arrays, box: Box, exact: bool = True) -> Part:
    """Compare the part with the box of the whole, in float32 and float64: the same bits, or but for rounding."""
    part = op.part(box, [type_of(x) for x in inputs])
    assert part.writes == box
    for kind, rtol in ((np.float32, 1e-5), (np.float64, 1e-13)):
        given = [x.astype(kind) if x is not None and x.dtype.kind == "f" else x for x in inputs]
        want, got = cut(op.reference(*given)[0], box), apply(part, given)
        assert want is not None
        assert want.dtype == got.dtype
        if exact:
            np.testing.assert_array_equal(got, want, f"{op}\n{part}")
        else:
            np.testing.assert_allclose(got, want, rtol, rtol, err_msg=f"{op}\n{part}")
    return part


def needed(rng: np.random.Generator, op: Op, inputs: Arrays, index: int, box: Box) -> list[list[int]]:
    """For each dimension of an input, the positions at which a change of its values changes `box` of the output."""
    x, found = inputs[index], []
    assert x is not None
    before = cut(op.reference(*inputs)[0], box)
    for axis, extent in enumerate(x.shape):
        found.append([])
        for position in range(extent):
            changed = x.copy()
            key = (slice(None),) * axis + (position,)
            changed[key] = (changed[key] + rng.integers(9, 99, changed[key].shape)).astype(x.dtype)
            after = cut(op.reference(*inputs[:index], changed, *inputs[index + 1 :])[0], box)
            if not np.array_equal(before, after):  # type: ignore[arg-type]
                found[-1].append(position)
    return found
