"""Checks that operators share: each helper raises ShapeError saying what was expected and what was got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packer.ir.ops.base import ShapeError
from packer.ir.types import DType, TensorType

__all__ = [
    "INDEX",
    "broadcast",
    "expect",
    "expect_axes",
    "expect_choice",
    "expect_dtype",
    "expect_length",
    "expect_rank",
    "expect_same",
    "expect_shape",
    "operands",
    "with_shape",
    "without_axes",
]

INDEX = (DType.I32, DType.I64)


def expect(condition: bool, expected: str, got: object) -> None:
    """Raise unless `condition` holds."""
    if not condition:
        raise ShapeError(f"expected {expected}, got {got}")


def operands(
    inputs: Sequence[TensorType | None], required: int, optional: int = 0
) -> tuple[tuple[TensorType, ...], tuple[TensorType | None, ...]]:
    """The required and the optional inputs; optional ones that are missing at the end become None."""
    wanted = f"{required}" if not optional else f"{required} to {required + optional}"
    expect(required <= len(inputs) <= required + optional, f"{wanted} inputs", len(inputs))
    present = tuple(t for t in inputs[:required] if t is not None)
    if len(present) < required:
        raise ShapeError(f"expected the first {required} inputs to be present, got {[t and str(t) for t in inputs]}")
    rest = tuple(inputs[required:])
    return present, rest + (None,) * (optional - len(rest))


def expect_dtype(what: str, type: TensorType, *allowed: DType) -> None:
    """Raise unless the element type is one of `allowed`."""
    expect(type.dtype in allowed, f"{what} of {' or '.join(d.name.lower() for d in allowed)}", type)


def expect_same(what: str, type: TensorType, like: TensorType) -> None:
    """Raise unless both have one element type."""
    expect(type.dtype is like.dtype, f"{what} of {like.dtype.name.lower()}", type)


def expect_rank(what: str, type: TensorType, least: int, most: int | None = None) -> None:
    """Raise unless the rank is `least`, or between `least` and `most`."""
    most = least if most is None else most
    wanted = f"{least}" if least == most else f"{least} to {most}"
    expect(least <= type.rank <= most, f"{what} of rank {wanted}", type)


def expect_shape(what: str, type: TensorType, shape: Iterable[int]) -> None:
    """Raise unless the shape is exactly `shape`."""
    shape = tuple(shape)
    expect(type.shape == shape, f"{what} of shape [{','.join(map(str, shape))}]", type)


def expect_axes(axes: Iterable[int], rank: int) -> None:
    """Raise unless `axes` are strictly increasing dimensions of a tensor of `rank`."""
    axes = tuple(axes)
    valid = all(0 <= a < rank for a in axes) and list(axes) == sorted(set(axes))
    expect(valid, f"axes in increasing order within 0..{rank - 1}", axes)


def expect_choice(what: str, value: str, allowed: Iterable[str]) -> None:
    """Raise unless the attribute `value` is one of `allowed`."""
    allowed = tuple(allowed)
    expect(value in allowed, f"{what} to be one of {', '.join(allowed)}", repr(value))


def expect_length(what: str, values: Sequence[object], length: int) -> None:
    """Raise unless the attribute has `length` entries."""
    expect(len(values) == length, f"{length} {what}", tuple(values))


def with_shape(type: TensorType, shape: Iterable[int]) -> TensorType:
    """The same element type with another shape."""
    return TensorType(type.dtype, tuple(shape))


def without_axes(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """`shape` after a reduction over `axes`."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape all of `shapes` broadcast to by numpy's rule."""
    rank = max(map(len, shapes))
    result = []
    for extents in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {n for n in extents if n != 1}
        expect(len(wide) <= 1, "shapes that broadcast together", " and ".join(map(str, map(list, shapes))))
        result.append(wide.pop() if wide else 1)
    return tuple(result)
