"""Bytes that weights take in the bundle, and in memory once they are touched."""

from __future__ import annotations

from packer.ir.ops import Conv, MatMul
from targets.base import Form, Work
from targets.cpu.precision import is_masked, is_stream, stored_type
from targets.cpu.sliced import STEP_BYTES, steps_of
from targets.cpu.winograd import is_lean, tile_of

__all__ = ["weights"]

_PLACE = 1.5  # bytes that tell where a weight is in a list of those that are not zero, or a block


def weights(work: Work, form: Form) -> float:
    """Bytes of the constant weights of a convolution or matrix product as `form` stores them, padding left out."""
    if not isinstance(work.op, Conv | MatMul) or not work.constant[1] or work.inputs[1] is None:
        return 0.0
    count, name = work.inputs[1].elements, form.implementation
    if is_stream(name) or name == "unrolled":
        return (stored_type(name).bytes + _PLACE / work.block.size) * work.density * count
    if name == "sliced":
        return STEP_BYTES * steps_of(work.density, *work.inputs[1].shape)
    if is_masked(name):
        return (stored_type(name).bytes * work.density + 1 / 8) * count
    if name.startswith("winograd") and not is_lean(name):
        edge = tile_of(name) + 2
        return stored_type(name).bytes * count * edge * edge / 9
    return float(count * stored_type(name).bytes)
