"""Arithmetic of two operands in registers, and conversions between element types, as the IR defines them."""

from __future__ import annotations

from collections.abc import Callable

from packer.ir import DType
from packer.ir.ops.pointwise import COMPARISONS
from targets.cuda.emit.ptx import Builder, f32
from targets.cuda.emit.power import power

__all__ = ["binary", "cast", "has_binary", "kind_of", "limits", "number"]
