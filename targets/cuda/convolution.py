"""Convolutions in the tiers of the CUDA target: which of them a node can have, and its code in each.

t1: every multiply-add an instruction, its weight an immediate (emit/ or template/); t1c: the same in slices whose code
stays in the instruction cache; t1h: the same for two pixels at a time, in halves (emit/); t2: pairs of weight and place
are streamed (stream/); t3: dense (dense/).
"""

from __future__ import annotations

import math

import numpy as np

from packer.ir import DType, Graph, Node
from packer.ir.ops import Conv
from packer.ir.rounding import nearest
from targets.base import TargetError
from targets.cuda import dense, stream, template
from targets.cuda.cache import Cache
from targets.cuda.emit import emit
from targets.cuda.geometry import RESIDUAL, Geometry
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer
from targets.cuda.pooling import pool_behind
from targets.cuda.ranking import Way
from targets.cuda.rounding import rounded
from targets.cuda.slices import cache_resident
from targets.cuda.state import State

__all__ = ["ROUTES", "code_of", "geometry_of", "layer_of", "tiers", "weights_of"]

ROUTES = ("direct", "template")  # emit/ or template/
_INSTRUCTIONS = ("t1", "t1c")  # the tiers with weights in them
_SPARSE = 0.7  # density from which on skipping zeros cannot pay
_MOST_CODE = 72 << 10  # multiply-adds of a layer as instructions: 0.75 MB, which no cache supplies
_WIDEST = 128  # elements of a row under a window that straight-line code stages
_LARGEST = 2048  # elements of a channel under 8 x 8 windows, which sparse layers stage
_FEWEST = 8  # output channels of a group that share what a thread loads


def tiers(graph: Graph, node: Node, halves: bool, route: str) -> tuple[str, ...]:
    """The tiers that a node can have: none if it is no convolution in two dimensions with known, finite weights, or one
    with few channels a group, such as depthwise ones. With `halves` products may be of those. Straight-line code comes
    by a `route` of ROUTES; templates know neither halves nor all activations."""
    op, weights = node.op, graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if not isinstance(op, Conv) or weights is None or weights.ndim != 4 or min(op.pads) < 0:
        return ()
    bias = graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and node.inputs[2] is not None and bias is None:
        return ()
    if graph.type(node.inputs[0] or "").dtype is not DType.F32 or graph.constant(node.inputs[0]) is not None:
        return ()
    if weights.shape[0] // op.group < _FEWEST or graph.type(node.outputs[0]).elements == 0:
        return ()
    if not np.isfinite(weights).all():
        return ()
    reach = [(weights.shape[2 + i] - 1) * op.dilations[i] + 1 for i in range(2)]
    staged = math.prod(extent + 7 * stride for extent, stride in zip(reach, op.strides, strict=True))
    if graph.density(node.inputs[1]) > _SPARSE or reach[1] > _WIDEST or staged > _LARGEST:
        return ("t3",)
    if np.count_nonzero(weights) > _MOST_CODE or (route == "template" and not template.knows(op.activation)):
        return ("t3", "t2")
    found = ["t3", "t2", "t1"]
    if cache_resident(weights) is not None:
        found.append("t1c")
    if halves and route == "direct" and np.abs(weights).max() <= np.finfo(np.float16).max:
        found.append("t1h")
    return tuple(found)


def geometry_of(graph: Graph, node: Node, storage: DType, pool: str = "") -> Geometry:
    """The convolution that a node is, as costs have it; the density to two digits, as the planner has it. The pool, if
    any, is that of the node behind it."""
    assert isinstance(node.op, Conv)
    types = [None if name is None else graph.type(name) for name in node.inputs]
    density = float(f"{graph.density(node.inputs[1]):.2g}")
    return Geometry.of(node.op, types, graph.type(node.outputs[0]), density, storage, pool)


def weights_of(graph: Graph, node: Node, tier: str, exact: bool) -> np.ndarray:
    """The weights that a convolution computes with in a tier: those in instructions are rounded, or `exact`."""
    weights = graph.constant(node.inputs[1])
    assert weights is not None
    if tier == "t1h":
        return nearest(weights, DType.F16)
    return rounded(weights) if tier in _INSTRUCTIONS and not exact else weights


def layer_of(state: State, node: Node, tier: str, exact: bool, pool: str = "") -> ConvLayer:
    """The layer that a node is in a tier, perhaps with the pool of the node behind it."""
    op, graph, last = node.op, state.graph, node
    assert isinstance(op, Conv)
    if pool:
        behind = pool_behind(graph, node, state.storage)
        assert behind is not None
        last = behind[1]
    x, _, b, residual = (*node.inputs, None, None)[:4]
    return ConvLayer(
        weights_of(graph, node, tier, exact),
        graph.constant(b),
        state.planes(x or ""),
        state.planes(last.outputs[0]),
        (op.strides[0], op.strides[1]),
        (op.pads[0], op.pads[1], op.pads[2], op.pads[3]),
        (op.dilations[0], op.dilations[1]),
        op.group,
        op.activation,
        None if residual is None else state.planes(residual),
        graph.type(x or "").shape[0],
        pool,
    )


def code_of(layer: ConvLayer, way: Way, route: str) -> Code:
    """The code of a layer with the settings of a tier; inputs are numbered as those of a Conv node."""
    if isinstance(way, dense.Tile):
        return dense.conv(layer, way)
    if isinstance(way, stream.Settings):
        try:
            return stream.conv(layer, way)
        except TargetError:  # weights crowded in some channels: other settings
            return stream.conv(layer)
    operands = (0,) if layer.added is None else (0, RESIDUAL)
    if route == "template":
        return Code(tuple(template.specialised(layer, way.channels, Cache.of_user())), operands)
    return Code(tuple(emit(layer, way)), operands)
