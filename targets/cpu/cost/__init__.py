"""The analytic cost model of the CPU target: how long an operator takes in a form on one core of a machine.

A kernel computes, by cycles of its inner loop, and moves its operands, each at the speed of the level of memory that
its reuse distance tells. These are models of the kernels of runtime_c/src/kernels; constants come from measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from packer.ir import TensorType
from packer.ir.ops import (
    Binary,
    Concat,
    Conv,
    Expand,
    Lrn,
    MatMul,
    Normalize,
    Pool,
    Recurrent,
    Reduce,
    Reshape,
    Resize,
    ScaleShift,
    Slice,
    Softmax,
    Tile,
    Transpose,
    Unary,
)
from targets.base import Form, Layout, Work
from targets.cpu.cost import stream
from targets.cpu.cost.at import At, at
from targets.cpu.cost.conv import conv_seconds
from targets.cpu.cost.matrix import matmul_seconds, recurrent_seconds
from targets.machine import Machine

__all__ = ["barrier_seconds", "reorder_seconds", "seconds", "transfer_seconds"]

_Model = Callable[[Work, Form, Sequence[float], At], float]
_MODELS: dict[type, _Model] = {
    Binary: stream.pointwise_seconds,
    Concat: stream.concat_seconds,
    Conv: conv_seconds,
    Expand: stream.copy_seconds,
    Lrn: stream.lrn_seconds,
    MatMul: matmul_seconds,
    Normalize: stream.fold_seconds,
    Pool: stream.pool_seconds,
    Recurrent: recurrent_seconds,
    Reduce: stream.fold_seconds,
    Reshape: stream.copy_seconds,
    Resize: stream.resize_seconds,
    ScaleShift: stream.pointwise_seconds,
    Slice: stream.copy_seconds,
    Softmax: stream.fold_seconds,
    Tile: stream.copy_seconds,
    Transpose: stream.copy_seconds,
    Unary: stream.pointwise_seconds,
}


def seconds(
    machine: Machine, work: Work, form: Form, distances: Sequence[float], core: int = 0, active: int = 1
) -> float:
    """Predicted time of one step: `work` in `form` on core `core` of `machine.cores` while `active` cores work.

    `distances` has for every input (anything for an absent one), then every output, how many bytes of memory the core
    touched since it last touched that operand.
    """
    place = at(machine, core, active)
    if not any(type.elements for type in work.outputs):
        return place.step
    model = _MODELS.get(type(work.op), stream.scalar_seconds)
    return place.step + model(work, form, distances, place)


def reorder_seconds(
    machine: Machine,
    type: TensorType,
    source: Layout,
    destination: Layout,
    core: int = 0,
    active: int = 1,
    distance: float | None = None,
) -> float:
    """Predicted time of the step that changes the layout of a tensor last touched `distance` bytes ago; if not given,
    just now."""
    place = at(machine, core, active)
    return place.step + stream.reorder_seconds(type, source, destination, distance, place)


def transfer_seconds(machine: Machine, bytes: float) -> float:
    """How much longer a core takes to read so many bytes because another core wrote them."""
    return machine.transfer_seconds + bytes * 1e-9 / machine.transfer_gbps if bytes > 0 else 0.0


def barrier_seconds(machine: Machine, cores: int) -> float:
    """Time of `cores` cores waiting for each other; nothing for one."""
    return machine.barrier_seconds + machine.barrier_seconds_per_core * cores if cores > 1 else 0.0
