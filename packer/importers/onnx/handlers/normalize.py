"""Normalisations: statistics by Normalize, scale and bias behind it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler
from packer.ir.ops import LpNormalize, Lrn, Normalize, ScaleShift


def _wide(call: Call, x: Tensor) -> Tensor:
    """A constant in float64, so that folding it loses nothing; other tensors as they are."""
    return x if x.data is None else call.literal(x.data.astype(np.float64))


@handler("BatchNormalization")
def batch_normalization(call: Call) -> Tensor | tuple[Tensor, ...]:
    """`x * (scale / sqrt(var + epsilon)) + (bias - mean * ...)`; the statistics fold away when they are constant."""
    x = call.tensor(0)
    scale, bias, mean, variance = (_wide(call, call.tensor(index)) for index in range(1, 5))
    epsilon = call.number("epsilon", 1e-5)
    running: tuple[Tensor, ...] = ()
    if call.version >= 14 and call.integer("training_mode", 0):
        momentum = call.number("momentum", 0.9)
        axes = [axis for axis in range(x.rank) if axis != 1]
        batch_mean = call.reduce("mean", x, axes)
        deviation = call.binary("sub", x, batch_mean)
        batch = [
            call.reduce("mean", x, axes, keepdims=False),
            call.reduce("mean", call.binary("mul", deviation, deviation), axes, keepdims=False),
        ]
        running = tuple(
            call.binary("add", call.scale(old, momentum), call.scale(new, 1 - momentum))
            for old, new in zip((mean, variance), batch, strict=True)
        )
        mean, variance = batch
    factor = call.binary("div", scale, call.unary("sqrt", call.binary("add", variance, call.like(epsilon, variance))))
    shift = call.binary("sub", bias, call.binary("mul", mean, factor))
    if x.rank >= 2 and factor.rank == 1:
        y = call.emit(ScaleShift(), x, factor, shift)
    else:
        y = call.binary("add", call.binary("mul", x, factor), shift)
    return (y, *running) if running else y


@handler("InstanceNormalization")
def instance_normalization(call: Call) -> Tensor:
    x = call.tensor(0)
    normal = call.emit(Normalize(tuple(range(2, x.rank)), call.number("epsilon", 1e-5)), x)
    return call.emit(ScaleShift(), normal, call.tensor(1), call.tensor(2))


@handler("GroupNormalization")
def group_normalization(call: Call) -> Tensor:
    """Before opset 21 scale and bias have one entry a group, then one a channel."""
    x, groups = call.tensor(0), call.integer("num_groups")
    if x.rank < 2 or groups < 1 or x.shape[1] % groups:
        raise call.error("channels do not divide into groups", expected=f"a multiple of {groups}", got=str(x.type))
    per_group = x.shape[1] // groups
    grouped = call.reshape(x, (x.shape[0], groups, per_group, *x.shape[2:]))
    normal = call.emit(Normalize(tuple(range(2, grouped.rank)), call.number("epsilon", 1e-5)), grouped)

    def per_channel(parameter: Tensor) -> Tensor:
        if call.version >= 21:
            return parameter
        return call.reshape(call.expand(call.reshape(parameter, (groups, 1)), (groups, per_group)), (x.shape[1],))

    return call.emit(
        ScaleShift(), call.reshape(normal, x.shape), per_channel(call.tensor(1)), per_channel(call.tensor(2))
    )


@handler("LayerNormalization")
def layer_normalization(call: Call) -> tuple[Tensor, ...]:
    x, scale, bias = call.tensor(0), call.tensor(1), call.optional(2)
    axes = range(call.axis(call.integer("axis", -1), x.rank), x.rank)
    epsilon = call.number("epsilon", 1e-5)
    y = call.binary("mul", call.emit(Normalize(tuple(axes), epsilon), x), scale)
    if bias is not None:
        y = call.binary("add", y, bias)
    if not (call.wants(1) or call.wants(2)):
        return (y,)
    mean = call.reduce("mean", x, axes)
    deviation = call.binary("sub", x, mean)
    variance = call.reduce("mean", call.binary("mul", deviation, deviation), axes)
    spread = call.unary("sqrt", call.binary("add", variance, call.like(epsilon, variance)))
    return y, mean, call.unary("reciprocal", spread)


@handler("RMSNormalization")
def rms_normalization(call: Call) -> Tensor:
    x, scale = call.tensor(0), call.tensor(1)
    axes = tuple(range(call.axis(call.integer("axis", -1), x.rank), x.rank))
    return call.binary("mul", call.emit(Normalize(axes, call.number("epsilon", 1e-5), rms=True), x), scale)


@handler("MeanVarianceNormalization")
def mean_variance_normalization(call: Call) -> Tensor:
    """ONNX adds 1e-9 to the standard deviation, which is 1e-18 added to a variance of zero."""
    x = call.tensor(0)
    axes: Sequence[int] = call.integers("axes") or (0, 2, 3)
    if call.version < 9:
        axes = (0, 2, 3) if call.integer("across_channels", 0) == 0 else (0, 1, 2, 3)
    return call.emit(Normalize(tuple(sorted(call.axes(axes, x.rank))), 1e-18), x)


@handler("LRN")
def lrn(call: Call) -> Tensor:
    op = Lrn(call.integer("size"), call.number("alpha", 1e-4), call.number("beta", 0.75), call.number("bias", 1.0))
    return call.emit(op, call.tensor(0))


@handler("LpNormalization")
def lp_normalization(call: Call) -> Tensor:
    x = call.tensor(0)
    return call.emit(LpNormalize(call.axis(call.integer("axis", -1), x.rank), call.integer("p", 2)), x)
