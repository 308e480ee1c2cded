"""Values of element types in registers: which registers, immediates, conversions from one type to another."""

from __future__ import annotations

from packer.ir import DType
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["cast", "immediate", "kind_of", "saturate", "truth", "type_of"]

_TYPES = {
    DType.F32: "f32", DType.F16: "f32", DType.U8: "u32", DType.I8: "s32", DType.U16: "u32", DType.I16: "s32",
    DType.I32: "s32", DType.U32: "u32", DType.I64: "s64", DType.U64: "u64", DType.BOOL: "u32",
}  # fmt: skip


def type_of(dtype: DType) -> str:
    """The type of PTX in which elements are computed with, as `load` gives them."""
    return _TYPES[dtype]


def kind_of(dtype: DType) -> str:
    """The kind of register that holds an element."""
    return "f" if _TYPES[dtype] == "f32" else "d" if _TYPES[dtype].endswith("64") else "r"


def immediate(b: Builder, dtype: DType, value: float | int) -> str:
    """A register with this value of a type."""
    if kind_of(dtype) == "f":
        return b.new("f", "mov.f32", f32(value))
    bits = 64 if kind_of(dtype) == "d" else 32
    return b.new(kind_of(dtype), f"mov.u{bits}", int(value) % (1 << bits))


def truth(b: Builder, predicate: str) -> str:
    """A predicate as a bool."""
    return b.new("r", "selp.u32", 1, 0, predicate)


def cast(b: Builder, value: str, source: DType, target: DType) -> str:
    """The value as `packer.ir.ops.Cast` has it; what `store` cuts off need not be right."""
    given, wanted = type_of(source), type_of(target)
    if target is DType.BOOL:
        zero = f32(0) if given == "f32" else "0"
        return truth(b, b.new("p", f"setp.{'neu' if given == 'f32' else 'ne'}.{given}", value, zero))
    if given == "f32":
        return value if wanted == "f32" else _integer(b, value, target)
    if wanted == "f32":
        return b.new("f", f"cvt.rn.f32.{given}", value)
    if kind_of(source) == kind_of(target):
        return value
    wide = f"{given[0]}64" if wanted.endswith("64") else "u32"
    return b.new(kind_of(target), f"cvt.{wide}.{given}", value)


def _integer(b: Builder, value: str, target: DType) -> str:
    """A float truncated, and no further than the type goes; NaN gives 0."""
    wanted = type_of(target)
    if kind_of(target) == "d":  # what becomes of a NaN there depends on the processor
        value = b.new("f", "selp.f32", f32(0), value, b.new("p", "setp.nan.f32", value, value))
    whole = b.new(kind_of(target), f"cvt.rzi.{wanted}.f32", value)
    return saturate(b, whole, target)


def saturate(b: Builder, value: str, target: DType) -> str:
    """An integer of 32 bits within what a narrower type holds."""
    if target.bytes >= 4:
        return value
    low, high = (0, (1 << 8 * target.bytes) - 1) if type_of(target) == "u32" else _signed_range(target)
    type = type_of(target)
    value = b.new("r", f"min.{type}", value, high)
    return b.new("r", f"max.{type}", value, low) if low else value


def _signed_range(target: DType) -> tuple[int, int]:
    half = 1 << 8 * target.bytes - 1
    return -half, half - 1
