"""Pooling."""

from __future__ import annotations

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.handlers.convolution import explicit_pads, per_dimension, window
from packer.importers.onnx.registry import handler
from packer.ir.ops import MaxUnpool, Pool


def pool_op(call: Call, kind: str) -> Pool:
    """The Pool operator that the attributes of the node describe."""
    x = call.tensor(0)
    kernel = call.integers("kernel_shape") or ()
    if x.rank < 3 or len(kernel) != x.rank - 2:
        raise call.error(
            "kernel_shape does not fit", expected=f"one entry a spatial dimension of {x.type}", got=str(kernel)
        )
    moves = window(call, x.shape[2:], kernel)
    return Pool(
        kind, moves.kernel, moves.strides, moves.pads, moves.dilations,
        ceil_mode=bool(call.integer("ceil_mode", 0)) and call.text("auto_pad", "NOTSET") in ("NOTSET", ""),
        count_include_pad=bool(call.integer("count_include_pad", 0)),
        p=call.integer("p", 2) if kind == "lp" and call.version >= 2 else 2,
        column_major=bool(call.integer("storage_order", 0)),
    )  # fmt: skip


@handler("MaxPool")
def max_pool(call: Call) -> tuple[Tensor, ...]:
    return call.emit_many(pool_op(call, "max"), call.tensor(0), outputs=2 if call.wants(1) else 1)


@handler("AveragePool")
def average_pool(call: Call) -> Tensor:
    return call.emit(pool_op(call, "average"), call.tensor(0))


@handler("LpPool")
def lp_pool(call: Call) -> Tensor:
    return call.emit(pool_op(call, "lp"), call.tensor(0))


@handler("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call: Call) -> Tensor:
    x = call.tensor(0)
    return call.reduce("max" if call.node.op_type == "GlobalMaxPool" else "mean", x, range(2, x.rank))


@handler("GlobalLpPool")
def global_lp_pool(call: Call) -> Tensor:
    x, axes = call.tensor(0), range(2, call.tensor(0).rank)
    p = call.integer("p", 2) if call.version >= 2 else 2
    if p in (1, 2):
        return call.reduce(f"l{p}", x, axes)
    power = call.binary("pow", call.unary("abs", x), call.like(p, x))
    return call.binary("pow", call.reduce("sum", power, axes), call.like(1 / p, x))


@handler("MaxUnpool")
def max_unpool(call: Call) -> Tensor:
    """Indices count into the output that kernel, strides and pads give; an explicit output shape may be larger."""
    x, indices = call.tensor(0), call.tensor(1)
    rank = x.rank - 2
    kernel, strides = call.integers("kernel_shape") or (), per_dimension(call, "strides", rank, 1)
    pads = explicit_pads(call, rank)
    if len(kernel) != rank:
        raise call.error("kernel_shape does not fit", expected=f"{rank} entries", got=str(kernel))
    spatial = (
        (size - 1) * stride + k - begin - end
        for size, stride, k, begin, end in zip(x.shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    )
    natural = (*x.shape[:2], *spatial)
    wanted = call.ints(2, "'output_shape'") if call.has(2) else natural
    return call.emit(MaxUnpool(wanted, natural), x, indices)
