"""Reductions, scans, softmax and sorting."""

from __future__ import annotations

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import Handler, handler
from packer.ir.ops import ArgReduce, CumSum, Softmax, TopK

_KINDS = {
    "ReduceL1": "l1", "ReduceL2": "l2", "ReduceLogSum": "log_sum", "ReduceLogSumExp": "log_sum_exp", "ReduceMax": "max",
    "ReduceMean": "mean", "ReduceMin": "min", "ReduceProd": "prod", "ReduceSum": "sum", "ReduceSumSquare": "sum_square",
}  # fmt: skip


def _reduction(kind: str) -> Handler:
    def run(call: Call) -> Tensor:
        x = call.tensor(0)
        axes = call.ints_either("axes", 1) or ()
        if not axes and call.integer("noop_with_empty_axes", 0):
            return _pointwise(call, kind, x)
        return call.reduce(kind, x, call.axes(axes, x.rank) or range(x.rank), bool(call.integer("keepdims", 1)))

    return run


def _pointwise(call: Call, kind: str, x: Tensor) -> Tensor:
    """What a reduction over no axes does to each element."""
    if kind in ("l1", "l2"):
        return call.unary("abs", x)
    if kind == "sum_square":
        return call.binary("mul", x, x)
    return call.unary("log", x) if kind == "log_sum" else x


for _op_type, _kind in _KINDS.items():
    handler(_op_type)(_reduction(_kind))


@handler("ArgMax", "ArgMin")
def arg_reduce(call: Call) -> Tensor:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis", 0), x.rank)
    kind = call.node.op_type.removeprefix("Arg").lower()
    keepdims, last = bool(call.integer("keepdims", 1)), bool(call.integer("select_last_index", 0))
    return call.emit(ArgReduce(kind, axis, keepdims, last), x)


@handler("CumSum")
def cum_sum(call: Call) -> Tensor:
    x = call.tensor(0)
    axis = call.axis(int(call.scalar(1, "'axis'")), x.rank)
    return call.emit(CumSum(axis, bool(call.integer("exclusive", 0)), bool(call.integer("reverse", 0))), x)


@handler("CumProd")
def cum_prod(call: Call) -> Tensor:
    """Entry by entry, which suits the short axes it is used on."""
    x = call.tensor(0)
    axis = call.axis(int(call.scalar(1, "'axis'")), x.rank)
    exclusive, reverse = call.integer("exclusive", 0), call.integer("reverse", 0)
    order = range(x.shape[axis] - 1, -1, -1) if reverse else range(x.shape[axis])
    product = call.expand(call.like(1, x), tuple(1 if a == axis else n for a, n in enumerate(x.shape)))
    parts: list[Tensor] = []
    for position in order:
        call.walker.count(call.name)
        before = product
        product = call.binary("mul", product, call.slice(x, axis, position, 1))
        parts.append(before if exclusive else product)
    return call.concat(parts[::-1] if reverse else parts, axis) if parts else x


@handler("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call) -> Tensor:
    """Over one axis; before opset 13 over that axis and all behind it together."""
    x = call.tensor(0)
    kind = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[call.node.op_type]
    if call.version >= 13:
        return call.emit(Softmax(kind, (call.axis(call.integer("axis", -1), x.rank),)), x)
    axis = call.axis(call.integer("axis", 1), x.rank) if call.integer("axis", 1) != x.rank else x.rank
    if axis == x.rank:
        return call.reshape(call.emit(Softmax(kind, (x.rank,)), call.reshape(x, (*x.shape, 1))), x.shape)
    return call.emit(Softmax(kind, tuple(range(axis, x.rank))), x)


@handler("TopK")
def top_k(call: Call) -> tuple[Tensor, ...]:
    x = call.tensor(0)
    k = int(call.scalar(1, "'k'")) if call.version >= 10 else call.integer("k")
    axis = call.axis(call.integer("axis", -1), x.rank)
    largest, ordered = bool(call.integer("largest", 1)), bool(call.integer("sorted", 1))
    return call.emit_many(TopK(k, axis, largest, ordered), x, outputs=2)
