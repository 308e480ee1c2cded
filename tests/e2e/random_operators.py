"""What random networks are made of: functions that add one operator, or a few that belong together, to a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from tests.e2e.random_builder import Builder
from tests.e2e.random_quantized import dynamic_quantized, quantized

__all__ = ["INTEGERS", "OPERATORS"]

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint32, np.uint64)


FUNCTIONS = (
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish", "Softplus",
    "Softsign", "Mish", "Gelu", "Erf", "Sin", "Cos", "Atan", "Identity", "Exp", "Sinh",
)  # fmt: skip


# ---- pointwise ----


def unary(b: Builder) -> None:
    x = b.pick()
    if x is not None:
        kind = b.text(*FUNCTIONS)
        b.op(kind, x, exact=kind in ("Abs", "Neg", "Relu", "Identity"))


def clip(b: Builder) -> None:
    x = b.pick()
    if x is not None:
        b.op("Clip", x, b.constant(np.float32(-1)), b.constant(np.float32(1.5)), exact=True)


def root(b: Builder) -> None:
    x = b.pick()
    if x is not None:
        positive = b.op("Add", *b.op("Abs", x), b.constant(np.float32(0.5)))
        for name in positive:
            b.op(b.text("Sqrt", "Log", "Reciprocal"), name)


def jump(b: Builder) -> None:
    x = b.pick(exact=True)
    if x is not None:
        kind = b.text("Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Shrink", "IsNaN", "IsInf", "Hardmax")
        b.op(kind, x, exact=True)


def bits(b: Builder) -> None:
    x = b.pick(INTEGERS)
    if x is not None:
        signed = b.values[x].dtype.kind == "i"
        b.op(b.text("BitwiseNot", "Abs", "Sign", "Neg" if signed else "BitwiseNot"), x)


def _partner(b: Builder, x: str) -> str:
    """Something that broadcasts with x: itself, a value of its type, a channel's worth, a scalar, a row."""
    shape, dtype = b.shape(x), b.values[x].dtype.type
    alike = [n for n, v in b.values.items() if v.dtype.type is dtype and v.shape == shape and n not in b.dynamic]
    if b.chance(0.4) and alike:
        return str(b.one(*alike))
    channels = (*shape[1:2], *(1 for _ in shape[2:]))
    kept = tuple(n if b.chance(0.5) else 1 for n in shape)
    wanted = [shape, channels, (1, *channels) if len(shape) > 1 else shape, (), shape[-1:], kept][b.integer(0, 5)]
    data = b.array(wanted, dtype)
    return b.constant(data) if b.chance(0.7) else b.input(wanted, dtype)


def binary(b: Builder) -> None:
    x = b.pick()
    if x is None:
        return
    pair = [x, _partner(b, x)]
    if b.chance(0.5):
        pair.reverse()
    kind = b.text("Add", "Add", "Sub", "Mul", "Max", "Min")
    b.op(kind, *pair, exact=True)


def divide(b: Builder) -> None:
    x = b.pick()
    if x is not None:
        divisor = b.constant(np.float32(b.one(0.5, -3.0, 7.0)) + b.random.random(b.shape(x)[-1:]).astype(np.float32))
        b.op("Div", x, divisor)


def prelu(b: Builder) -> None:
    x = b.pick(least=2)
    if x is not None:
        b.op("PRelu", x, b.weight(b.shape(x)[1], *(1 for _ in b.shape(x)[2:])), exact=True)


def power(b: Builder) -> None:
    x = b.pick()
    if x is not None:
        b.op("Pow", x, b.constant(np.float32(b.one(2, 3))))


def modulo(b: Builder) -> None:
    x = b.pick((np.float32, *INTEGERS), exact=True)
    if x is not None:
        is_float = b.values[x].dtype == np.float32
        divisor = b.constant(np.asarray(3, b.values[x].dtype))
        b.op("Mod", x, divisor, exact=True, **({"fmod": 1} if is_float else {}))


def integer_binary(b: Builder) -> None:
    x = b.pick(INTEGERS)
    if x is not None:
        b.op(b.text("Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"), x, _partner(b, x))


def compare(b: Builder) -> None:
    x = b.pick((np.float32, *INTEGERS), exact=True)
    if x is not None:
        b.op(
            b.text("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
            x,
            b.constant(b.array(b.shape(x)[-1:], b.values[x].dtype.type)),
            exact=True,
        )


def logic(b: Builder) -> None:
    x = b.pick(np.bool_)
    if x is not None and not (b.chance(0.3) and b.op("Not", x, exact=True)):
        b.op(b.text("And", "Or", "Xor"), x, _partner(b, x), exact=True)


def where(b: Builder) -> None:
    condition, x = b.pick(np.bool_), b.pick()
    if condition is not None and x is not None:
        other = b.constant(b.array(b.shape(x)))
        b.op("Where", condition, x, other, exact=True)
        mask = b.constant(b.array(b.shape(x), np.bool_))
        b.op("Where", mask, *((x, other) if b.chance(0.5) else (other, x)), exact=True)


def cast(b: Builder) -> None:
    x = b.pick((np.float32, np.bool_, *INTEGERS), exact=True)
    if x is not None:
        if b.values[x].dtype == np.float32:
            target = b.one(TensorProto.INT32, TensorProto.INT64, TensorProto.INT8, TensorProto.BOOL)
        else:
            target = b.one(TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8)
        b.op("Cast", x, to=target, exact=True)


def batch_norm(b: Builder) -> None:
    x = b.pick(least=2)
    if x is not None:
        c = b.shape(x)[1]
        runtime = b.chance(0.15)
        mean, variance = b.constant(b.array((c,))), b.constant(b.random.uniform(0.5, 2, c).astype(np.float32))
        scale, shift = (b.input((c,)) if runtime else b.weight(c) for _ in range(2))
        b.op("BatchNormalization", x, scale, shift, mean, variance)


def quantize(b: Builder) -> None:
    x = b.pick(least=1, exact=True)
    if x is not None:
        axis = b.integer(0, len(b.shape(x)) - 1)
        size = (b.shape(x)[axis],) if b.chance(0.5) else ()
        dtype = b.one(np.uint8, np.int8)
        scale, zero = b.constant(np.full(size, 0.25, np.float32)), b.constant(np.full(size, 3, dtype))  # type: ignore[call-overload]
        for y in b.op("QuantizeLinear", x, scale, zero, axis=axis, exact=True):
            b.op("DequantizeLinear", y, scale, zero, axis=axis, exact=True)


# ---- windows ----


def _window(b: Builder, x: str, symmetric: bool) -> tuple[list[int], dict[str, object]]:
    """A kernel that fits x, with strides, pads and dilations."""
    spatial = b.shape(x)[2:]
    kernel = [b.integer(1, min(3, n)) for n in spatial]
    dilations = [2 if b.chance(0.2) and 2 * k - 1 <= n else 1 for k, n in zip(kernel, spatial, strict=True)]
    begins = [b.integer(0, min(1, k - 1)) for k in kernel]
    if symmetric:
        begins = [min(begins)] * len(spatial)
    ends = begins if symmetric else [b.integer(0, min(1, k - 1)) for k in kernel]
    return kernel, {
        "kernel_shape": kernel,
        "strides": [b.integer(1, 2) if b.chance(0.3) else 1 for _ in spatial],
        "pads": begins + ends,
        "dilations": dilations,
    }


def conv(b: Builder) -> None:
    x = b.pick(least=3, most=5)
    if x is None or 0 in b.shape(x)[2:]:
        return
    kernel, attributes = _window(b, x, symmetric=False)
    channels = b.shape(x)[1]
    groups = [g for g in (1, 2, 3, 4, channels) if g > 0 and channels % g == 0]
    group = int(b.one(*groups))  # type: ignore[call-overload]
    filters = channels if b.chance(0.5) and channels else group * int(b.one(1, 2, 5, 16, 17))  # type: ignore[call-overload]
    inputs = [x, b.weight(filters, channels // group, *kernel)]
    if b.chance(0.5):
        inputs.append(b.weight(filters))
    for y in b.op("Conv", *inputs, group=group, **attributes):
        if b.chance(0.5):
            b.op(b.text("Relu", "Sigmoid", "HardSwish", "LeakyRelu"), y)


def residual(b: Builder) -> None:
    x = b.pick(least=3, most=5)
    if x is None or 0 in b.shape(x)[2:]:
        return
    channels, spatial = b.shape(x)[1], len(b.shape(x)) - 2
    depthwise = b.chance(0.4) and channels > 0
    weights = b.weight(channels, 1 if depthwise else channels, *(3 for _ in range(spatial)))
    for y in b.op("Conv", x, weights, pads=[1] * (2 * spatial), group=channels if depthwise else 1):
        for z in b.op("Add", *((x, y) if b.chance(0.5) else (y, x))):
            b.op(b.text("Relu", "Tanh", "Identity"), z)


def conv_transpose(b: Builder) -> None:
    x = b.pick(least=3, most=4)
    if x is None or 0 in b.shape(x):
        return
    channels, spatial = b.shape(x)[1], len(b.shape(x)) - 2
    group = channels if b.chance(0.3) else 1
    strides = [b.integer(1, 2) for _ in range(spatial)]
    weights = b.weight(channels, b.integer(1, 5), *(b.integer(1, 3) for _ in range(spatial)))
    bias = [b.weight(b.shape(weights)[1])] if group == 1 and b.chance(0.5) else []  # onnx.reference: wrong with groups
    b.op("ConvTranspose", x, weights, *bias, strides=strides, group=group, output_padding=[s - 1 for s in strides])


def pool(b: Builder) -> None:
    x = b.pick(least=3, most=5)
    if x is None or 0 in b.shape(x):
        return
    _, attributes = _window(b, x, symmetric=True)  # onnx.reference does no others right
    kind = b.text("MaxPool", "MaxPool", "AveragePool", "LpPool")
    if kind == "AveragePool":
        attributes["count_include_pad"] = b.integer(0, 1)
    b.op(kind, x, exact=kind == "MaxPool", **attributes)


def pool_indices(b: Builder) -> None:
    x = b.pick(least=4, most=4, exact=True)
    if x is not None and min(b.shape(x)[2:]) >= 2:
        attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
        pooled = b.op("MaxPool", x, outputs=2, exact=True, **attributes)
        if pooled:
            b.op("MaxUnpool", *pooled, exact=True, **attributes)


def global_pool(b: Builder) -> None:
    x = b.pick(least=3, most=5)
    if x is not None and 0 not in b.shape(x):
        b.op(b.text("GlobalAveragePool", "GlobalMaxPool" if len(b.shape(x)) == 4 else "GlobalAveragePool"), x)


def lrn(b: Builder) -> None:
    x = b.pick(least=4, most=4)
    if x is not None and 0 not in b.shape(x):
        b.op("LRN", x, size=int(b.one(1, 3, 5)), alpha=0.1, beta=0.75, bias=1.0)  # type: ignore[call-overload]


def resize(b: Builder) -> None:
    x = b.pick(least=4, most=4)
    if x is None or 0 in b.shape(x):
        return
    sizes = b.ints(*b.shape(x)[:2], *(b.integer(1, 8) for _ in range(2)))
    coordinate = b.text("half_pixel", "asymmetric", "align_corners")
    mode = b.text("linear", "linear", "cubic")
    b.op("Resize", x, "", "", sizes, mode=mode, coordinate_transformation_mode=coordinate)


def upsample(b: Builder) -> None:
    x = b.pick(least=3, most=4)
    if x is not None and 0 not in b.shape(x):
        scales = b.constant(np.array([1, 1, *(2 for _ in b.shape(x)[2:])], np.float32))
        b.op("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
             exact=True)  # fmt: skip


def sample(b: Builder) -> None:
    x = b.pick(least=4, most=4)
    if x is None or 0 in b.shape(x):
        return
    grid = b.constant(b.random.uniform(-1.2, 1.2, (b.shape(x)[0], 3, 4, 2)).astype(np.float32))
    b.op("GridSample", x, grid, mode="linear", padding_mode=b.text("zeros", "border"), align_corners=b.integer(0, 1))
    rois = b.constant(np.array([[0, 0, 2, 2], [0.5, 0.25, 3, 2]], np.float32))
    b.op("RoiAlign", x, rois, b.ints(0, b.shape(x)[0] - 1), output_height=2, output_width=3, sampling_ratio=2)


# ---- products, reductions, normalisation ----


def dense(b: Builder) -> None:
    x = b.pick(least=1)
    if x is None:
        return
    depth, columns = b.shape(x)[-1], int(b.one(1, 5, 16, 19))  # type: ignore[call-overload]
    for y in b.op("MatMul", x, b.weight(depth, columns)):
        if b.chance(0.6):
            b.op("Add", y, b.weight(columns) if b.chance(0.7) else b.weight(1))


def gemm(b: Builder) -> None:
    x = b.pick(least=2, most=2)
    if x is not None:
        columns = b.integer(1, 18)
        bias = [b.weight(columns)] if b.chance(0.6) else []
        for y in b.op("Gemm", x, b.weight(columns, b.shape(x)[1]), *bias, transB=1, alpha=0.5):
            b.op("BatchNormalization", y, *(b.constant(b.array((columns,)) ** 2 + 1) for _ in range(4)))


def product(b: Builder) -> None:
    x = b.pick(least=2)
    if x is not None:
        rank = len(b.shape(x))
        for t in b.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2], exact=True):
            b.op("MatMul", x, t)
            b.op("Mul", t, b.constant(np.float32(0.5)))


def reduce(b: Builder) -> None:
    x = b.pick(least=1)
    if x is not None and 0 not in b.shape(x):
        rank = len(b.shape(x))
        axes = [a for a in range(rank) if b.chance(0.5)] or [b.integer(0, rank - 1)]
        kind = b.text("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod")
        b.op(f"Reduce{kind}", x, b.ints(*axes), keepdims=b.integer(0, 1), exact=kind in ("Sum", "Max", "Min", "L1"))


def spatial_mean(b: Builder) -> None:
    """Squeeze and excitation."""
    x = b.pick(least=3, most=5)
    if x is not None and 0 not in b.shape(x):
        c, spatial = b.shape(x)[1], len(b.shape(x)) - 2
        for mean in b.op("ReduceMean", x, b.ints(*range(2, 2 + spatial)), keepdims=1):
            for y in b.op("Conv", mean, b.weight(c, c, *(1 for _ in range(spatial)))):
                for gate in b.op("Sigmoid", y):
                    b.op("Mul", x, gate)


def select(b: Builder) -> None:
    x = b.pick(least=1, exact=True)
    if x is None:
        return
    axis = b.integer(0, len(b.shape(x)) - 1)
    if b.chance(0.5):
        b.op(b.text("ArgMax", "ArgMin"), x, axis=axis, keepdims=b.integer(0, 1), select_last_index=0, exact=True)
    elif b.shape(x)[axis]:
        k = b.ints(b.integer(1, b.shape(x)[axis]))
        b.op("TopK", x, k, axis=axis, largest=b.integer(0, 1), outputs=2, exact=True)


def accumulate(b: Builder) -> None:
    x = b.pick(least=1)
    if x is not None:
        axis = b.constant(np.int64(b.integer(0, len(b.shape(x)) - 1)))
        b.op("CumSum", x, axis, exclusive=b.integer(0, 1), reverse=b.integer(0, 1), exact=True)


def softmax(b: Builder) -> None:
    x = b.pick(least=1)
    if x is not None and 0 not in b.shape(x):
        b.op(b.text("Softmax", "LogSoftmax"), x, axis=b.integer(0, len(b.shape(x)) - 1))


def attend(b: Builder) -> None:
    """Of every row to every row; of small numbers, whose exponentials are as exact as they are."""
    x = b.pick(least=2)
    if x is None or 0 in b.shape(x):
        return
    for rows in b.op("Reshape", x, b.ints(1, -1, b.shape(x)[-1]), exact=True):
        extent = b.shape(rows)[1]
        for small in b.op("Tanh", rows):
            for t in b.op("Transpose", small, perm=[0, 2, 1]):
                for scores in b.op("MatMul", small, t):
                    if b.chance(0.5):
                        scores = b.op("Mul", scores, b.constant(np.float32(0.25)))[0]
                    if b.chance(0.5):
                        scores = b.op("Add", scores, b.weight(extent))[0]
                    for powers in b.op("Softmax", scores, axis=-1):
                        for y in b.op("MatMul", powers, rows):
                            b.op("Transpose", y, perm=[1, 0, 2] if b.chance(0.5) else [0, 2, 1])


def normalize(b: Builder) -> None:
    x = b.pick(least=3)
    if x is None or 0 in b.shape(x):
        return
    c, axis = b.shape(x)[1], b.integer(1, len(b.shape(x)) - 1)
    which = b.integer(0, 2)
    if which == 0:
        b.op("InstanceNormalization", x, b.constant(b.array((c,))), b.constant(b.array((c,))), epsilon=0.1)
    elif which == 1:
        scale = b.constant(b.array(b.shape(x)[axis:]))
        b.op("LayerNormalization", x, scale, axis=axis, epsilon=0.1)
    else:
        b.op("LpNormalization", x, axis=axis, p=2)


# ---- movement ----


def transpose(b: Builder) -> None:
    x = b.pick((np.float32, np.int64, np.bool_), least=1)
    if x is not None:
        b.op("Transpose", x, perm=[int(p) for p in b.random.permutation(len(b.shape(x)))], exact=True)


def reshape(b: Builder) -> None:
    x = b.pick((np.float32, np.int64))
    if x is None:
        return
    shape = list(b.shape(x))
    if len(shape) > 1 and b.chance(0.5):
        at = b.integer(0, len(shape) - 2)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    else:
        shape.insert(b.integer(0, len(shape)), 1)
    b.op("Reshape", x, b.ints(*shape), allowzero=1, exact=True)


def regroup(b: Builder) -> None:
    x = b.pick(least=4, most=4)
    if x is not None:
        _, c, h, w = b.shape(x)
        if c % 4 == 0 and c:
            b.op("DepthToSpace", x, blocksize=2, mode=b.text("DCR", "CRD"), exact=True)
        elif h % 2 == 0 and w % 2 == 0 and h and w:
            b.op("SpaceToDepth", x, blocksize=2, exact=True)


def slice_(b: Builder) -> None:
    x = b.pick((np.float32, np.int64, np.uint8), least=1)
    if x is not None:
        axis = b.integer(0, len(b.shape(x)) - 1)
        if b.chance(0.3):
            b.op("Slice", x, b.ints(-1), b.ints(-1000), b.ints(axis), b.ints(-1), exact=True)
        else:
            b.op("Slice", x, b.ints(b.integer(0, 2)), b.ints(1000), b.ints(axis), b.ints(b.integer(1, 2)), exact=True)


def concat(b: Builder) -> None:
    x = b.pick(least=1)
    if x is not None:
        axis = b.integer(0, len(b.shape(x)) - 1)
        parts = [x]
        for _ in range(b.integer(0, 2)):
            shape = list(b.shape(x))
            shape[axis] = b.integer(0, 17)
            parts.append(b.constant(b.array(tuple(shape))) if b.chance(0.4) else b.input(tuple(shape)))
        parts += [x] if b.chance(0.3) else []
        b.op("Concat", *parts, axis=axis, exact=True)


def split(b: Builder) -> None:
    x = b.pick(least=1)
    if x is not None:
        axis = b.integer(0, len(b.shape(x)) - 1)
        if b.shape(x)[axis] >= 2:
            b.op("Split", x, axis=axis, num_outputs=2, outputs=2, exact=True)


def expand(b: Builder) -> None:
    x = b.pick((np.float32, np.bool_), most=4)
    if x is not None:
        b.op("Expand", x, b.ints(b.integer(1, 2), *(1 for _ in b.shape(x))), exact=True)
        b.op("Tile", x, b.ints(*(b.integer(1, 2) for _ in b.shape(x))), exact=True)


def pad(b: Builder) -> None:
    x = b.pick((np.float32, np.int32), least=1, most=5)
    if x is not None:
        mode = b.text("constant", "constant", "reflect", "edge", "wrap")
        limit = 2 if mode in ("constant", "edge") else min(1, min(b.shape(x)) - 1)
        if limit >= 0 and 0 not in b.shape(x):
            only_spatial, rank = b.chance(0.5), len(b.shape(x))
            pads = [0 if only_spatial and a % rank < 2 else b.integer(0, limit) for a in range(2 * rank)]
            b.op("Pad", x, b.ints(*pads), mode=mode, exact=True)


def gather(b: Builder) -> None:
    x = b.pick((np.float32, np.int64), least=1, most=4)
    if x is None or 0 in b.shape(x):
        return
    rank = len(b.shape(x))
    axis = b.integer(0, rank - 1)
    n = b.shape(x)[axis]
    indices = b.constant(b.random.integers(-n, n, (2, 3)).astype(np.int64))
    which = b.integer(0, 2)
    if which == 0:
        b.op("Gather", x, indices, axis=axis, exact=True)
    elif which == 1:
        shape = tuple(max(1, s - 1) for s in b.shape(x))
        b.op("GatherElements", x, b.constant(b.random.integers(0, n, shape).astype(np.int64)), axis=axis, exact=True)
    else:
        depth = b.integer(1, rank)
        rows = np.stack([b.random.integers(0, s, 4) for s in b.shape(x)[:depth]], -1)
        b.op("GatherND", x, b.constant(rows.astype(np.int64)), exact=True)


def scatter(b: Builder) -> None:
    x = b.pick(least=1, most=4)
    if x is None or 0 in b.shape(x):
        return
    axis = b.integer(0, len(b.shape(x)) - 1)
    reduction = b.text("none", "add", "max", "min", "mul")
    if b.chance(0.5):
        shape = tuple(1 if i == axis else s for i, s in enumerate(b.shape(x)))
        at = b.constant(b.random.integers(0, b.shape(x)[axis], shape).astype(np.int64))
        b.op("ScatterElements", x, at, b.constant(b.array(shape)), axis=axis, reduction=reduction, exact=True)
    else:
        rows = b.random.permutation(b.shape(x)[0])[: b.integer(1, 2), None].astype(np.int64)
        updates = b.array((len(rows), *b.shape(x)[1:]))
        b.op("ScatterND", x, b.constant(rows), b.constant(updates), reduction=reduction, exact=True)


def index(b: Builder) -> None:
    x = b.pick((np.float32, np.int64, np.int32), least=2, most=4, exact=True)
    if x is None or 0 in b.shape(x):
        return
    which = b.integer(0, 2)
    if which == 0:
        b.op("Trilu", x, b.constant(np.int64(b.integer(-1, 1))), upper=b.integer(0, 1), exact=True)
    elif which == 1:
        time, batch = b.shape(x)[:2]
        lengths = b.constant(b.random.integers(1, time + 1, batch).astype(np.int64))
        b.op("ReverseSequence", x, lengths, time_axis=0, batch_axis=1, exact=True)
    else:
        for best in b.op("ArgMax", x, axis=0, keepdims=0, exact=True):
            values = b.constant(np.array([0.5, 2], np.float32))
            b.op("OneHot", best, b.constant(np.int64(3)), values, axis=b.integer(-1, 0), exact=True)


def recurrent(b: Builder) -> None:
    x = b.pick(least=3, most=3)
    if x is None or 0 in b.shape(x):
        return
    depth, hidden = b.shape(x)[2], b.integer(1, 9)
    kind = b.text("LSTM", "GRU", "RNN")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    scale = np.float32(1 / (1 + depth))
    parameters = [
        b.constant(b.array((1, gates * hidden, depth)) * scale),
        b.constant(b.array((1, gates * hidden, hidden)) / np.float32(16)),
        b.constant(b.array((1, 2 * gates * hidden)) / np.float32(8)),
    ]
    b.op(kind, x, *parameters, hidden_size=hidden, outputs=2)


# ---- sizes that depend on data: results only ----


def dynamic(b: Builder) -> None:
    x = b.pick(least=1, most=4, exact=True)
    if x is None or 0 in b.shape(x):
        return
    which = b.integer(0, 2)
    if which == 0:
        made = b.op("NonZero", x)
    elif which == 1:
        axis = b.integer(0, len(b.shape(x)) - 1)
        made = b.op("Compress", x, b.input((b.shape(x)[axis],), np.bool_), axis=axis)
    else:
        boxes, scores = b.input((1, 9, 4)), b.input((1, 2, 9))
        overlap, least = b.constant(np.float32([0.4])), b.constant(np.float32([0.0]))
        made = b.op("NonMaxSuppression", boxes, scores, b.ints(4), overlap, least)
    b.dynamic += made
    if made and b.values[made[0]].dtype == np.int64 and b.chance(0.5):
        b.dynamic += b.op("Cast", *made, to=TensorProto.FLOAT)


OPERATORS: tuple[Callable[[Builder], None], ...] = (
    unary, clip, root, jump, bits, binary, divide, prelu, power, modulo, integer_binary, compare, logic, where, cast,
    batch_norm, quantize, quantized, dynamic_quantized, conv, conv, residual, conv_transpose, pool, pool_indices,
    global_pool, lrn, resize, upsample, sample, dense, gemm, product, reduce, spatial_mean, select, accumulate, softmax,
    attend, normalize, transpose, reshape, regroup, slice_, concat, split, expand, pad, gather, scatter, index,
    recurrent, dynamic,
)  # fmt: skip
