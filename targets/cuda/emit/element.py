"""Elements of activations: f32 or f16 in device memory, float32 in registers."""

from __future__ import annotations

from packer.ir import DType
from targets.cuda.emit.ptx import Builder, f32

__all__ = ["fetch", "narrow", "store", "widen"]

_KINDS = {DType.F32: ("f", "f32"), DType.F16: ("h", "b16")}  # register, type of the instruction


def fetch(b: Builder, dtype: DType, address: str, cache: str = ".nc", inside: str | None = None) -> str:
    """A register with the element as it is stored; `widen` waits for it, not this. Where a thread of the kernel may
    write the memory, `cache` must be empty. Threads without the predicate `inside` load nothing and get 0."""
    kind, type = _KINDS[dtype]
    if inside is None:
        return b.new(kind, f"ld.global{cache}.{type}", address)
    value = b.new(kind, f"mov.{type}", f32(0) if kind == "f" else 0)
    b.emit(f"@{inside} ld.global{cache}.{type} {value}, {address}")
    return value


def widen(b: Builder, dtype: DType, element: str) -> str:
    """The float32 that an element stands for."""
    return b.new("f", "cvt.f32.f16", element) if dtype is DType.F16 else element


def narrow(b: Builder, dtype: DType, element: str) -> str:
    """An element as a half, rounded to nearest even."""
    return element if dtype is DType.F16 else b.new("h", "cvt.rn.f16.f32", element)


def store(b: Builder, dtype: DType, address: str, value: str) -> None:
    """Store a float32, rounded to nearest even where the element type is f16."""
    if dtype is DType.F16:
        value = narrow(b, DType.F32, value)
    b.emit(f"st.global.{_KINDS[dtype][1]} {address}, {value}")
