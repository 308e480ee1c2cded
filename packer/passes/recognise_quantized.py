"""Find what quantised networks spell out in floats and bytes can compute: convolutions, matrix products, sums, means,
and what lies between them.

Before: `y = quantize(relu(conv(dequantize(x), dequantize(w), dequantize(b))))`, x and y u8, w constant. After:
`y = quantized_conv(x, w, scale, b)`, exact sums of integers. Of bytes that are only quantised to be dequantised again,
i8 become u8 first.

What lies between them follows (quantized_between.py).
"""

from __future__ import annotations

from dataclasses import replace

from packer.ir import DType, Graph, Node
from packer.ir.ops import Binary, Conv, MatMul, QuantizeLinear, Unary
from packer.passes.quantized_between import bytes_of, pair_of
from packer.passes.quantized_products import float_product, product
from packer.passes.quantized_rewriter import ALL, Rewriter, limits_of
from packer.passes.raise_signed import raise_signed
from packer.passes.remove_dead import remove_dead

__all__ = ["recognise_quantized"]


def recognise_quantized(graph: Graph) -> Graph:
    """The graph with what bytes can compute computed in bytes; the rest stays as it is."""
    if not any(isinstance(node.op, QuantizeLinear) for node in graph.nodes):
        return graph
    unsigned = raise_signed(graph)
    rewriter = Rewriter(unsigned)
    changed = unsigned is not graph
    for node in unsigned.nodes:
        found = _recognised(rewriter, node) if isinstance(node.op, QuantizeLinear) else None
        changed |= found is not None
        rewriter.append(found or node)
    return _with_float_products(remove_dead(unsigned.replaced(rewriter.nodes, rewriter.values)) if changed else graph)


def _with_float_products(graph: Graph) -> Graph:
    """Of bytes whatever products of them are left."""
    rewriter, changed = Rewriter(graph), False
    for node in graph.nodes:
        found = float_product(rewriter, node)
        changed |= found is not None
        rewriter.append(found or node)
    return remove_dead(graph.replaced(rewriter.nodes, rewriter.values)) if changed else graph


def _recognised(rewriter: Rewriter, node: Node) -> Node | None:
    levels = rewriter.levels(node)
    maker = rewriter.sole(node.inputs[0], node)
    if levels is None or rewriter.graph.type(node.outputs[0]).dtype is not DType.U8:
        return None
    limits, sources = ALL, node.sources
    while maker is not None and isinstance(maker.op, Unary):
        within = limits_of(maker.op, levels, limits)
        if within is None:
            return None
        limits, sources = within, (*maker.sources, *sources)
        maker = rewriter.sole(maker.inputs[0], maker)
    if maker is not None and isinstance(maker.op, Conv | MatMul):
        return product(rewriter, node, maker, levels, limits, (*maker.sources, *sources))
    if maker is not None and isinstance(maker.op, Binary):
        return pair_of(rewriter, node, maker, levels, limits, (*maker.sources, *sources))
    found = bytes_of(rewriter, node.inputs[0], node, levels, ALL)
    if found is None:
        return None
    last = rewriter.nodes[-1]
    if last.outputs == (found,):
        del rewriter.nodes[-1]
        return replace(last, outputs=node.outputs)
    return Node(Unary("identity"), (found,), node.outputs, node.sources)
