"""From an operator on the device to one step of the runtime: kernels to launch, constants packed as they read them."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from packer.ir import Box, DType, Node, TensorType, Value, extents_of
from packer.ir.ops import Concat, Part
from targets.base import Attribute, Layout, Lowered, Operand
from targets.cuda import convolution
from targets.cuda.array import Array
from targets.cuda.board import Board
from targets.cuda.generic.transfer import get, put
from targets.cuda.kernel import Code
from targets.cuda.operators import code_of
from targets.cuda.ranking import pool_of, settings, tier_of
from targets.cuda.state import State

__all__ = ["lower", "lower_join", "runs", "transfer"]

GENERIC = "cuda"  # the implementation of all that has no tiers

_CODES: WeakKeyDictionary[Value, dict[object, Code | None]] = WeakKeyDictionary()  # by a node's first output


def runs(state: State, node: Node) -> bool:
    """Whether there are kernels for a node that has no tiers."""
    return _generic(state, node) is not None


def lower(state: State, node: Node, implementation: str, board: Board, exact: bool, route: str) -> Lowered:
    """The step for a node, with weights that are rounded to immediates or `exact`."""
    if implementation == GENERIC:
        code = _generic(state, node)
        assert code is not None
    else:
        way, pool = pool_of(implementation)
        layer = convolution.layer_of(state, node, tier_of(way), exact, pool)
        code = convolution.code_of(layer, settings(board, layer.geometry, way), route)
    return launch(code, [None if name is None else Operand(name, layout=Layout.PLANES) for name in node.inputs])


def lower_join(state: State, node: Node, part: Part) -> Lowered:
    """The step for some inputs of a Concat, which a part of it joins."""
    assert isinstance(node.op, Concat)
    kept = [(name, box) for name, box in zip(node.inputs, part.reads, strict=True) if name is not None and box]
    inputs = [_cut(state.array(name), box) for name, box in kept]
    output = _cut(state.array(node.outputs[0]), part.writes)
    code = code_of(part.op, inputs, [output], [None] * len(inputs))
    assert code is not None
    assert code.operands == tuple(range(len(kept)))
    lowered = launch(code, [Operand(name, layout=Layout.PLANES, box=box) for name, box in kept])
    given = iter(lowered.inputs)
    return replace(lowered, inputs=tuple(next(given) if box else None for box in part.reads))


def transfer(state: State, name: str, shape: TensorType, to_device: bool) -> Lowered:
    """The step that brings a value to the device, or back."""
    there, here = state.array(name), Array.dense(shape.dtype, shape.shape)
    code = put(here, there) if to_device else get(there, here)
    lowered = launch(code, [None])
    return replace(lowered, kernel="put" if to_device else "get")


def launch(code: Code, inputs: list[Operand | None]) -> Lowered:
    """The step that launches kernels over those of the inputs, and constants, that they want."""
    operands: list[Operand | None] = []
    for wanted in code.operands:
        if isinstance(wanted, np.ndarray):
            type = TensorType(DType.of(wanted.dtype), wanted.shape)
            operands.append(Operand(data=np.ascontiguousarray(wanted), type=type))
        else:
            operands.append(inputs[wanted])
    kernels = code.kernels
    attributes = (
        Attribute("entries", text=",".join(kernel.name for kernel in kernels)),
        Attribute("grid", ints=tuple(extent for kernel in kernels for extent in kernel.grid)),
        Attribute("threads", ints=tuple(kernel.threads for kernel in kernels)),
    )
    slack = max((kernel.slack for kernel in kernels), default=0)
    return Lowered("launch", tuple(operands), attributes, tuple(kernel.ptx for kernel in kernels), slack)


def _generic(state: State, node: Node) -> Code | None:
    made = _CODES.setdefault(state.graph.values[node.outputs[0]], {})
    if state.storage not in made:
        made[state.storage] = code_of(
            node.op,
            [None if name is None else state.array(name) for name in node.inputs],
            [state.array(name) for name in node.outputs],
            [state.graph.constant(name) for name in node.inputs],
        )
    return made[state.storage]


def _cut(array: Array, box: Box) -> Array:
    """A box of an array, whose pointer is that of the box."""
    return replace(array, shape=extents_of(box))
