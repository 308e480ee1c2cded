"""Addresses: pointers that follow the offsets asked for, and where a pixel lies."""

from __future__ import annotations

from dataclasses import dataclass

from targets.cuda.emit.ptx import Builder
from targets.cuda.layer import Planes

__all__ = ["Cursor", "Pointer", "divide", "pixel", "pointer"]

_REACH = 1 << 23  # bytes an offset in a machine instruction can tell, 24 bits with a sign


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in `register`: `index` elements of `size` bytes behind the address `base`."""

    register: str
    base: str
    index: str
    size: int


class Cursor:
    """A pointer with ascending constant offsets from it; where an instruction's offset would not reach, another pointer
    is made, so that no access needs an addition of its own."""

    def __init__(self, builder: Builder, pointer: Pointer) -> None:
        self._builder, self._pointer, self._register, self._moved = builder, pointer, pointer.register, 0

    def at(self, offset: int) -> str:
        """The address operand for an offset in bytes, a multiple of the element's size."""
        if offset - self._moved >= _REACH:
            # By way of the index: a sum of addresses would be taken apart again by assemblers, for each access.
            index = self._builder.new("r", "add.u32", self._pointer.index, offset // self._pointer.size)
            self._register = _address(self._builder, self._pointer.base, index, self._pointer.size)
            self._moved = offset
        return f"[{self._register}+{offset - self._moved}]"


def divide(b: Builder, value: str, by: int, limit: int) -> tuple[str, str]:
    """Quotient and remainder of a u32 below `limit`, at most 2^31, by a constant.

    The quotient is a product and a shift: assemblers make some 25 instructions of a division by a constant, which for
    small layers is all that counts. Granlund & Montgomery, "Division by invariant integers using multiplication", 1994.
    """
    if by == 1:
        return value, b.new("r", "mov.u32", 0)
    if limit <= by:
        return b.new("r", "mov.u32", 0), value
    if by & (by - 1) == 0:
        return b.new("r", "shr.u32", value, by.bit_length() - 1), b.new("r", "and.b32", value, by - 1)
    multiplier, shift = _reciprocal(by, limit)
    if shift < 32:
        quotient = b.new("r", "shr.u32", b.new("r", "mul.lo.u32", value, multiplier), shift)
    else:
        quotient = b.new("r", "shr.u32", b.new("r", "mul.hi.u32", value, multiplier), shift - 32)
    return quotient, b.new("r", "sub.u32", value, b.new("r", "mul.lo.u32", quotient, by))


def _reciprocal(by: int, limit: int) -> tuple[int, int]:
    """A multiplier and a shift such that `value * multiplier >> shift` is the quotient for all values below `limit`.

    It is if the multiplier, 2^shift / by rounded up, is too large by a share of less than 1 / value. Below a shift of
    32 the product has 32 bits.
    """
    for shift in range(32):
        multiplier = -(-(1 << shift) // by)
        if (limit - 1) * (multiplier * by - (1 << shift)) < 1 << shift and (limit - 1) * multiplier < 1 << 32:
            return multiplier, shift
    shift = 31 + by.bit_length()
    return -(-(1 << shift) // by), shift


def pointer(b: Builder, parameter: str, planes: Planes, elements: str, constant: int) -> Pointer:
    """The address of `elements` + `constant` elements of planes behind a parameter's pointer."""
    base = b.new("d", "cvta.to.global.u64", b.new("d", "ld.param.u64", f"[{parameter}]"))
    index = b.new("r", "add.u32", elements, constant) if constant else elements
    size = planes.dtype.bytes
    return Pointer(_address(b, base, index, size), base, index, size)


def _address(b: Builder, base: str, index: str, size: int) -> str:
    return b.new("d", "add.s64", base, b.new("d", "mul.wide.u32", index, size))


def pixel(b: Builder, planes: Planes, image: str, y: str, x: str, stride: tuple[int, int] = (1, 1)) -> str:
    """Elements from the first plane's pixel (0, 0) to pixel (y stride, x stride) of an image's first plane."""
    line = b.new("r", "mul.lo.u32", y, stride[0] * planes.pitch)
    column = b.new("r", "mad.lo.u32", x, stride[1], line)
    return b.new("r", "mad.lo.u32", image, planes.channels * planes.plane, column)
