"""In which layouts each operator can run on a CPU, and what that costs (bytes moved; multiplications cost the same
in all)."""

from __future__ import annotations

import math

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Concat, Conv, Lrn, Pool, Reduce, Resize, ScaleShift, Unary
from targets.base import Form, Layout, stored_bytes

__all__ = ["forms", "is_depthwise"]

PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16


def is_depthwise(graph: Graph, node: Node) -> bool:
    """One input and one output channel a group, and weights known when packing."""
    assert isinstance(node.op, Conv)
    weights = graph.type(node.inputs[1] or "")
    return node.op.group == weights.shape[0] and weights.shape[1] == 1 and graph.constant(node.inputs[1]) is not None


def forms(graph: Graph, node: Node) -> tuple[Form, ...]:
    """The forms of `node`; the planar one always exists."""
    op = node.op
    found = [_form(graph, node, PLANAR, PLANAR)]
    if isinstance(op, Conv):
        found.extend(_im2col(graph, node))
    output = graph.type(node.outputs[0])
    if output.dtype is not DType.F32 or output.rank < 3 or output.elements == 0 or len(node.outputs) > 1:
        return tuple(found)
    if isinstance(op, Conv):
        found.append(_form(graph, node, PLANAR, BLOCK16))
        found.append(_form(graph, node, BLOCK16, PLANAR))
        found.append(_form(graph, node, BLOCK16, BLOCK16))
    elif isinstance(op, Reduce) and _spatial_reduce(graph, node):
        found.append(_form(graph, node, BLOCK16, BLOCK16))
        found.append(_form(graph, node, BLOCK16, PLANAR))
    elif (
        isinstance(op, Unary | ScaleShift | Lrn | Concat)
        or (isinstance(op, Pool) and graph.type(node.inputs[0] or "").dtype is DType.F32)
        or (isinstance(op, Binary) and _blocked_binary(graph, node))
        or (isinstance(op, Resize) and _blocked_resize(op))
    ):
        found.append(_form(graph, node, BLOCK16, BLOCK16))
    return tuple(found)


def _form(graph: Graph, node: Node, x: Layout, y: Layout) -> Form:
    """Activations in layout x, outputs in y, everything else (weights, one-element operands) planar as values go."""
    layouts = [
        x if name is not None and _is_activation(graph, node, i) else PLANAR for i, name in enumerate(node.inputs)
    ]
    if isinstance(node.op, Conv) and len(layouts) > 3:
        layouts[3] = y  # the residual lies as the output does
    passes_in, passes_out = _passes(graph, node, x, y)
    cost = sum(
        stored_bytes(graph.type(name), layout) * passes_in
        for i, (name, layout) in enumerate(zip(node.inputs, layouts, strict=True))
        if name is not None and _is_activation(graph, node, i)
    )
    cost += sum(stored_bytes(graph.type(name), y) * passes_out for name in node.outputs)
    return Form(tuple(layouts), tuple(y for _ in node.outputs), cost, _implementation(graph, node))


def _implementation(graph: Graph, node: Node) -> str:
    if not isinstance(node.op, Conv):
        return ""
    return "depthwise" if is_depthwise(graph, node) else "packed"


def _im2col(graph: Graph, node: Node) -> list[Form]:
    """The convolution as a matrix product over patches, which are written, packed and read: Caffe's way with patches as
    columns, and with contiguous copies out of a channels-last image (methods of Wu & Wu), patches as rows."""
    op, weights, output = node.op, graph.type(node.inputs[1] or ""), graph.type(node.outputs[0])
    assert isinstance(op, Conv)
    taps = math.prod(weights.shape[1:])
    patches = output.shape[0] * op.group * taps * math.prod(output.shape[2:]) * DType.F32.bytes
    moved = graph.type(node.inputs[0] or "").bytes + 4.0 * patches + output.bytes
    cost = moved * (2.0 if output.shape[0] * op.group == 1 else 1.0)  # images and groups are what cores can share
    planar = tuple(PLANAR for _ in node.inputs)
    names = ["im2col-caffe"] + ["im2col-nhwc"] * (graph.constant(node.inputs[1]) is not None)
    return [Form(planar, (PLANAR,), cost, name) for name in names]


def _passes(graph: Graph, node: Node, x: Layout, y: Layout) -> tuple[float, float]:
    """How often the kernel goes over its inputs and outputs, as far as layouts make a difference."""
    planar_in, planar_out = x is PLANAR, y is PLANAR
    if isinstance(node.op, Conv):  # planar rows are packed on reading, planar outputs transposed on writing
        reading = 4.0 if is_depthwise(graph, node) else 1.5
        return reading if planar_in else 1.0, 2.0 if planar_out else 1.0
    if isinstance(node.op, Pool):
        return 1.5 if planar_in else 1.0, 1.0
    if isinstance(node.op, Concat) and not planar_in:
        aligned = node.op.axis != 1 or all(graph.type(n or "").shape[1] % 16 == 0 for n in node.inputs[:-1])
        return 1.0, 1.0 if aligned else 3.0
    return 1.0, 1.0


def _is_activation(graph: Graph, node: Node, index: int) -> bool:
    """Whether this input may lie in the activations' layout."""
    if isinstance(node.op, Conv):
        return index in (0, 3)
    if isinstance(node.op, ScaleShift):
        return index == 0
    if isinstance(node.op, Binary):
        return graph.type(node.inputs[index] or "").elements != 1
    return True


def _blocked_binary(graph: Graph, node: Node) -> bool:
    """Same shapes, or one operand per channel or of one element."""
    if any(graph.type(n or "").dtype is not DType.F32 for n in node.inputs):
        return False
    output = graph.type(node.outputs[0]).shape
    shapes = [graph.type(n or "").shape for n in node.inputs]
    if output not in shapes or graph.type(node.outputs[0]).elements == 1:
        return False
    for shape in shapes:
        one = all(extent == 1 for extent in shape)
        per_channel = (
            len(shape) == len(output) and shape[0] in (1, output[0]) and shape[1] == output[1] and set(shape[2:]) == {1}
        )
        if shape != output and not one and not per_channel:
            return False
    return True


def _spatial_reduce(graph: Graph, node: Node) -> bool:
    op = node.op
    assert isinstance(op, Reduce)
    return (
        op.keepdims
        and op.kind in ("sum", "mean", "max")
        and op.axes == tuple(range(2, graph.type(node.inputs[0] or "").rank))
    )


def _blocked_resize(op: Resize) -> bool:
    whole_channels = len(op.shape) == 4 and op.scales[0] == 1.0 and op.scales[1] == 1.0
    return (
        whole_channels
        and op.mode in ("nearest", "linear")
        and not op.antialias
        and op.coordinate != "tf_crop_and_resize"
    )
