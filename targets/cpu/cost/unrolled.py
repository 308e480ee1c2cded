"""Convolution by instructions made of the non-zeros of its weights (runtime_c/src/kernels/conv_unrolled.c)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from packer.ir.ops import Conv
from targets.base import Form, Work
from targets.cpu.cost.at import At
from targets.cpu.cost.conv import Geometry, geometry
from targets.cpu.cost.pointwise import activation_cycles
from targets.cpu.precision import stored_type
from targets.cpu.spacing import distance
from targets.cpu.unrolled import LANES, channels_of_tile, group_sizes, strips_of

__all__ = ["conv_unrolled_seconds"]

_PLACE = 1.4  # bytes that tell where a non-zero is
_READ, _WRITTEN = 0.2, 0.1  # what part of moving inputs and outputs does not hide behind computing

# Cycles, where one vector is multiplied a cycle; fitted to ResNet-50's layers at 50 to 95 % zeros, within 15 %. Of
# planes of whole pages up to a third too few, at 95 %.
_PRODUCT = 1.0  # of a value, for each vector
_LOADED = {"packed": 1.0, "rowed": 1.2, "kept": 1.35, "apart": 1.9}  # to load inputs, by where they lie
_FAR = 3.4  # likewise, for planes by taps, of channels that lie far apart, besides
_KEPT = 1.2  # of the first load of an input by a set that keeps it, besides
_HIDDEN, _FAR_HIDDEN = 4.0, 12.0  # values of an input behind which loading it hides, where one is multiplied a cycle
_ENDED = 1.5  # of a filter's sums, to begin and to store them
_MADE, _PLACED, _GROUP = 0.5, 2.2, 500.0  # to make the instructions of a value, a load and a group
_FILLING = 1.5  # places of a tap of a group that only fill its last batch of four, on average
_RUN, _COPIED, _SPREAD = 3.0, 4.5, 7.5  # to begin a run, and to copy each vector of it, row by row
_GATHERED = 1.8  # to copy each float with a stride of three or more, besides


def conv_unrolled_seconds(work: Work, form: Form, distances: Sequence[float], at: At) -> float:
    op, x, y, w = work.op, work.inputs[0], work.outputs[0], work.inputs[1]
    assert isinstance(op, Conv)
    assert x is not None
    assert w is not None
    cycles = _cycles(geometry(work), geometry(work.of or work), work.density, at.fma, at.code)
    busy = cycles * at.cycle / at.efficiency.unrolled
    fetch = at.moved(work.density * w.elements * (stored_type(form.implementation).bytes + _PLACE), distances[1])
    moved = _READ * at.moved(x.bytes, distances[0]) + _WRITTEN * at.moved(y.bytes, distances[-1])
    if len(work.inputs) > 3 and work.inputs[3] is not None:
        moved += _WRITTEN * at.moved(y.bytes, distances[3])
    late = activation_cycles(op.activation, y.elements / at.lanes, at) * at.cycle / at.efficiency.elementwise
    return max(busy, fetch) + moved + late


def _places(g: Geometry, density: float, sizes: Sequence[int]) -> float:
    """Inputs that are loaded: of the channels at which some filter of a group has a weight, for each tap."""
    return g.groups * prod(g.kernel) * g.channels * sum(1 - (1 - density) ** size for size in sizes)


def _cycles(g: Geometry, of: Geometry, density: float, pace: float, code: float) -> float:
    """Of a convolution, or of a part of the one `of` whose tiles it has; instructions are made at the speed `code`."""
    channels = channels_of_tile(of)
    tiles = ceil(max(g.channels, 1) / channels)
    strips = strips_of(g, channels, density, distance(g.inside, g.groups * g.channels))
    sizes = group_sizes(g.filters, prod(of.out))
    values, places = density * g.groups * g.filters * g.channels * prod(g.kernel), _places(g, density, sizes)
    each = _PRODUCT * values + _LOADED[strips.inputs] * max(places - values / (_HIDDEN * pace), 0.0)
    each += _FAR * strips.far / prod(g.kernel) * max(places - values / (_FAR_HIDDEN * pace), 0.0)
    each += _KEPT * g.groups * g.channels * strips.sets * (strips.inputs == "kept")
    each += _ENDED * g.groups * g.filters * tiles
    filling = _FILLING * prod(g.kernel) * g.groups * len(sizes) * tiles
    made = (_MADE * values + _PLACED * (places + filling) + _GROUP * g.groups * len(sizes) * tiles) / code
    vector = _SPREAD if strips.inputs == "rowed" else _COPIED
    copied = g.groups * g.channels * (_RUN * strips.runs + vector * strips.floats / LANES)
    if g.stride[2] > 2:
        copied += g.groups * g.channels * _GATHERED * strips.floats
    return g.images * (each / pace * strips.vectors + made * strips.count + copied)
