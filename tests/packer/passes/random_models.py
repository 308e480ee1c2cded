"""Random ONNX networks made of the patterns that the passes look for."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

__all__ = ["random_model"]


class _Builder:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[object] = []
        self.weights: list[TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def op(self, kind: str, *inputs: str, shape: tuple[int, ...], **attributes: object) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        self.shapes[name] = shape
        return name

    def constant(self, data: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(data, name))
        return name

    def floats(self, *shape: int) -> str:
        return self.constant(np.asarray(self.random.standard_normal(shape), np.float32))

    # ---- blocks: [1,C,H,W] -> [1,C',H',W'] ----

    def conv(self, x: str) -> str:
        _, channels, height, width = self.shapes[x]
        outputs, k = int(self.random.integers(1, 20)), int(self.random.choice([1, 3]))
        group = channels if self.random.random() < 0.3 else 1
        outputs = channels if group > 1 else outputs
        pad = k // 2
        inputs = [x, self.floats(outputs, channels // group, k, k)]
        if self.random.random() < 0.5:
            inputs.append(self.floats(outputs))
        return self.op(
            "Conv", *inputs, shape=(1, outputs, height, width), kernel_shape=[k, k], pads=[pad] * 4, group=group
        )

    def pruned(self, x: str) -> str:
        """Filters without weights, something between, and columns without weights."""
        _, channels, height, width = self.shapes[x]
        outputs, last = (int(self.random.integers(2, 12)) for _ in range(2))
        weights = self.random.standard_normal((outputs, channels, 3, 3)).astype(np.float32)
        weights[self.random.random(outputs) < 0.5] = 0
        inputs = [x, self.constant(weights)] + ([self.floats(outputs)] if self.random.random() < 0.7 else [])
        y = self.op("Conv", *inputs, shape=(1, outputs, height, width), kernel_shape=[3, 3], pads=[1] * 4)
        for block in (self.function, self.norm, self.pooled, self.branched, self.function):
            if self.random.random() < 0.5:
                y = block(y)
        if self.random.random() < 0.2:
            y = self.op("GlobalAveragePool", y, shape=(*self.shapes[y][:2], 1, 1))
        k = int(self.random.choice([1, 3]))
        weights = self.random.standard_normal((last, self.shapes[y][1], k, k)).astype(np.float32)
        weights[:, self.random.random(weights.shape[1]) < 0.4] = 0
        shape = (1, last, *self.shapes[y][2:])
        return self.op("Conv", y, self.constant(weights), shape=shape, kernel_shape=[k, k], pads=[k // 2] * 4)

    def pooled(self, x: str) -> str:
        kind = str(self.random.choice(["MaxPool", "AveragePool"]))
        counted = {"count_include_pad": int(self.random.integers(2))} if kind == "AveragePool" else {}
        return self.op(kind, x, shape=self.shapes[x], kernel_shape=[3, 3], pads=[1] * 4, **counted)

    def maximum(self, x: str) -> str:
        """A function of the maximum over what a convolution makes."""
        y = self.conv(x)
        y = self.op("MaxPool", y, shape=self.shapes[y], kernel_shape=[3, 3], pads=[1] * 4)
        return self.op("Relu", y, shape=self.shapes[y]) if self.random.random() < 0.6 else self.function(y)

    def branched(self, x: str) -> str:
        _, c, h, w = self.shapes[x]
        weights = self.random.standard_normal((c, 1, 3, 3)).astype(np.float32)
        weights[self.random.random(c) < 0.3] = 0
        deep = self.op("Conv", x, self.constant(weights), shape=(1, c, h, w), pads=[1] * 4, group=c)
        if self.random.random() < 0.5:
            return self.op("Add", x, deep, shape=(1, c, h, w))
        return self.op("Concat", deep, x, axis=1, shape=(1, 2 * c, h, w))

    def padded_conv(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        pads = self.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
        padded = self.op("Pad", x, pads, shape=(n, c, h + 1, w + 2))
        return self.op("Conv", padded, self.floats(4, c, 2, 3), shape=(n, 4, h, w), kernel_shape=[2, 3])

    def patches(self, x: str) -> str:
        """A sparse convolution that sees nothing twice."""
        _, c, h, w = self.shapes[x]
        taps = [min(h, 8), min(w, 8)]
        if taps[0] * taps[1] < 16:
            return self.function(x)
        weights = self.random.standard_normal((5, c, *taps)) * (self.random.random((5, c, *taps)) < 0.15)
        shape = (1, 5, h // taps[0], w // taps[1])
        return self.op("Conv", x, self.constant(weights.astype(np.float32)), shape=shape, strides=taps)

    def transposed(self, x: str) -> str:
        _, c, h, w = self.shapes[x]
        stride = 2 if h * w < 30 else 1
        shape = (1, 3, stride * (h - 1) + 2, stride * (w - 1) + 2)
        y = self.op("ConvTranspose", x, self.floats(c, 3, 2, 2), shape=shape, kernel_shape=[2, 2], strides=[stride] * 2)
        return self.norm(y)

    def norm(self, x: str) -> str:
        c = self.shapes[x][1]
        variance = self.constant(self.random.uniform(0.5, 2, c).astype(np.float32))
        return self.op(
            "BatchNormalization", x, self.floats(c), self.floats(c), self.floats(c), variance, shape=self.shapes[x]
        )

    def normalized(self, x: str) -> str:
        """Layer normalisation over rows, whole or in pieces."""
        shape, axis = self.shapes[x], self.constant(np.array([3]))
        if self.random.random() < 0.4:
            return self.op("LayerNormalization", x, self.floats(shape[3]), self.floats(shape[3]), shape=shape)
        less = self.op("Sub", x, self.op("ReduceMean", x, axis, shape=(*shape[:3], 1)), shape=shape)
        square = self.op("Pow", less, self.constant(np.float32(2)), shape=shape)
        variance = self.op("ReduceMean", square, axis, shape=(*shape[:3], 1))
        spread = self.op("Add", variance, self.constant(np.float32(0.1)), shape=(*shape[:3], 1))
        y = self.op("Div", less, self.op("Sqrt", spread, shape=(*shape[:3], 1)), shape=shape)
        for kind in ("Mul", "Add"):
            if self.random.random() < 0.8:
                y = self.op(kind, y, self.floats(shape[3]), shape=shape)
        return y

    def bounded(self, x: str) -> str:
        """Limits one after the other."""
        for kind in self.random.choice(["Max", "Min", "Relu"], int(self.random.integers(1, 4))):
            limit = [] if kind == "Relu" else [self.constant(np.float32(self.random.normal(0, 0.5)))]
            x = self.op(str(kind), x, *limit, shape=self.shapes[x])
        return x

    def excited(self, x: str) -> str:
        """Channels times their means, of one axis after the other."""
        rows = self.op("ReduceMean", x, self.constant(np.array([3])), shape=(*self.shapes[x][:3], 1))
        means = self.op("ReduceMean", rows, self.constant(np.array([2])), shape=(*self.shapes[x][:2], 1, 1))
        return self.op("Mul", x, means, shape=self.shapes[x])

    def parallel(self, x: str) -> str:
        """A sum of convolutions of one value, and perhaps of a normalisation of it."""
        c = self.shapes[x][1]
        y = self.norm(x) if self.random.random() < 0.5 else ""
        for k in self.random.permutation([1, 3])[: int(self.random.integers(1 if y else 2, 3))]:
            weights, group = self.floats(c, c, k, k), 1
            if self.random.random() < 0.3:
                weights, group = self.floats(c, 1, k, k), c
            branch = self.op("Conv", x, weights, shape=self.shapes[x], pads=[int(k) // 2] * 4, group=group)
            y = self.op("Add", y, branch, shape=self.shapes[x]) if y else branch
        return y

    def gathered(self, x: str) -> str:
        """Some channels, often neighbours; or one row."""
        n, c, h, w = self.shapes[x]
        if self.random.random() < 0.3:
            row = self.op("Gather", x, self.constant(np.array(-1)), shape=(n, c, w), axis=2)
            return self.op("Unsqueeze", row, self.constant(np.array([2])), shape=(n, c, 1, w))
        first, step = int(self.random.integers(c)), int(self.random.choice([1, 1, 2]))
        places = np.arange(first, c, step) if self.random.random() < 0.7 else self.random.integers(0, c, 3)
        return self.op("Gather", x, self.constant(places), shape=(n, len(places), h, w), axis=1)

    def headed(self, x: str) -> str:
        """Transposes on both sides of a reshape, as of heads of attention; where that is not much."""
        _, c, h, w = self.shapes[x]
        if h * w > 12:
            return x
        rows = self.op("Reshape", x, self.constant(np.array([1, c, h * w, 1])), shape=(1, c, h * w, 1))
        wide = self.op("Mul", rows, self.floats(48), shape=(1, c, h * w, 48))
        turned = self.op("Transpose", wide, shape=(1, h * w, c, 48), perm=[0, 2, 1, 3])
        heads = self.op("Reshape", turned, self.constant(np.array([1, h * w, 3 * c, 16])), shape=(1, h * w, 3 * c, 16))
        return self.op("Transpose", heads, shape=(1, 3 * c, h * w, 16), perm=[0, 2, 1, 3])

    def affine(self, x: str) -> str:
        c = self.shapes[x][1]
        for kind in self.random.permutation(["Mul", "Add", "Sub", "Div"])[: int(self.random.integers(1, 4))]:
            other = self.floats(*((c, 1, 1) if self.random.random() < 0.7 else ()))
            swapped = kind in ("Mul", "Add", "Sub") and self.random.random() < 0.4
            x = self.op(str(kind), *((other, x) if swapped else (x, other)), shape=self.shapes[x])
        return x

    def function(self, x: str) -> str:
        kind = str(self.random.choice(["Relu", "Sigmoid", "LeakyRelu", "Tanh", "Elu", "HardSwish", "Identity"]))
        return self.op(kind, x, shape=self.shapes[x])

    def leaky(self, x: str) -> str:
        """A ReLU with a slope, spelled out; sometimes one for each channel."""
        shape = self.shapes[x]
        slope = self.floats(*((shape[1], *(1,) * (len(shape) - 2)) if self.random.random() < 0.5 else ()))
        if self.random.random() < 0.5:
            falling = self.op("Relu", self.op("Neg", x, shape=shape), shape=shape)
            kind = "Sub"
        else:
            half = self.constant(np.asarray(0.5, np.float32))
            falling = self.op("Sub", x, self.op("Abs", x, shape=shape), shape=shape)
            falling, kind = self.op("Mul", falling, half, shape=shape), "Add"
        scaled = self.op("Mul", falling, slope, shape=shape)
        return self.op(kind, self.op("Relu", x, shape=shape), scaled, shape=shape)

    def hard_swish(self, x: str) -> str:
        shape = self.shapes[x]
        add = self.op("Add", x, self.constant(np.float32(3)), shape=shape)
        clip = self.op("Clip", add, self.constant(np.float32(0)), self.constant(np.float32(6)), shape=shape)
        if self.random.random() < 0.5:
            return self.op("Mul", x, self.op("Div", clip, self.constant(np.float32(6)), shape=shape), shape=shape)
        return self.op("Mul", self.op("Mul", clip, x, shape=shape), self.constant(np.float32(1 / 6)), shape=shape)

    def gelu(self, x: str) -> str:
        shape, number = self.shapes[x], lambda value: self.constant(np.float32(value))
        if self.random.random() < 0.5:
            share = self.op("Erf", self.op("Div", x, number(np.sqrt(2)), shape=shape), shape=shape)
        else:
            cube = self.op("Mul", number(0.044715), self.op("Pow", x, number(3), shape=shape), shape=shape)
            inner = self.op("Mul", self.op("Add", x, cube, shape=shape), number(np.sqrt(2 / np.pi)), shape=shape)
            share = self.op("Tanh", inner, shape=shape)
        half = self.op("Mul", x, number(0.5), shape=shape)
        return self.op("Mul", half, self.op("Add", share, number(1), shape=shape), shape=shape)

    def silu(self, x: str) -> str:
        return self.op("Mul", self.op("Sigmoid", x, shape=self.shapes[x]), x, shape=self.shapes[x])

    def residual(self, x: str) -> str:
        y = self.conv(x)
        z = self.conv(x)
        c = min(self.shapes[y][1], self.shapes[z][1])
        h, w = self.shapes[x][2:]
        y, z = (self.op("Conv", t, self.floats(c, self.shapes[t][1], 1, 1), shape=(1, c, h, w)) for t in (y, z))
        return self.op("Relu", self.op("Add", y, z, shape=(1, c, h, w)), shape=(1, c, h, w))

    def shuffled(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        x = self.op("Transpose", x, perm=[0, 2, 3, 1], shape=(n, h, w, c))
        if self.random.random() < 0.5:
            x = self.op("Transpose", x, perm=[0, 2, 1, 3], shape=(n, w, h, c))
            return self.op("Transpose", x, perm=[0, 3, 2, 1], shape=(n, c, h, w))
        flat = self.op("Reshape", x, self.constant(np.array([h * w, c], np.int64)), shape=(h * w, c))
        x = self.op("Reshape", flat, self.constant(np.array([1, h, w, c], np.int64)), shape=(n, h, w, c))
        return self.op("Transpose", x, perm=[0, 3, 1, 2], shape=(n, c, h, w))

    def attended(self, x: str) -> str:
        """Channels scaled by how well they agree with their mean: attention of a single query."""
        n, c, h, w = self.shapes[x]
        keys = self.op("Reshape", x, self.constant(np.array([n, c, h * w], np.int64)), shape=(n, c, h * w))
        axes = self.constant(np.array([1], np.int64))
        query = self.op("ReduceMean", keys, axes, keepdims=1, shape=(n, 1, h * w))
        turned = self.op("Transpose", keys, perm=[0, 2, 1], shape=(n, h * w, c))
        scores = self.op("MatMul", query, turned, shape=(n, 1, c))
        if self.random.random() < 0.5:
            scores = self.op("Add", scores, self.floats(c), shape=(n, 1, c))
        weights = self.op("Reshape", scores, self.constant(np.array([n, c, 1, 1], np.int64)), shape=(n, c, 1, 1))
        return self.op("Mul", x, self.op("Sigmoid", weights, shape=(n, c, 1, 1)), shape=(n, c, h, w))

    def channels_last(self, x: str) -> str:
        """A few operators between a transpose and its inverse, some of which others read, too."""
        n, c, h, w = self.shapes[x]
        x = self.op("Transpose", x, perm=[0, 2, 3, 1], shape=(n, h, w, c))
        for _ in range(int(self.random.integers(1, 4))):
            h, w, c = self.shapes[x][1:]
            match int(self.random.integers(6)):
                case 0:
                    x = self.op("Sigmoid", x, shape=(n, h, w, c))
                case 1:
                    x = self.op("Mul", x, self.floats(c), shape=(n, h, w, c))
                case 2:
                    x = self.op("Add", x, self.op("Tanh", x, shape=(n, h, w, c)), shape=(n, h, w, c))
                case 3:
                    pads = self.constant(np.array([0, 1, 0, 0, 0, 0, 1, 0], np.int64))
                    x = self.op("Pad", x, pads, shape=(n, h + 1, w + 1, c))
                case 4:
                    axes = self.constant(np.array([1, 2], np.int64))
                    mean = self.op("ReduceMean", x, axes, keepdims=1, shape=(n, 1, 1, c))
                    x = self.op("Sub", x, mean, shape=(n, h, w, c))
                case 5:
                    first = self.op("Transpose", x, perm=[0, 3, 1, 2], shape=(n, c, h, w))
                    again = self.op("Transpose", self.function(first), perm=[0, 2, 3, 1], shape=(n, h, w, c))
                    x = self.op("Concat", x, again, axis=3, shape=(n, h, w, 2 * c))
        n, h, w, c = self.shapes[x]
        return self.op("Transpose", x, perm=[0, 3, 1, 2], shape=(n, c, h, w))

    def layer(self, x: str) -> str:
        """A sparse linear layer over all pixels' channels."""
        n, c, h, w = self.shapes[x]
        k = int(self.random.integers(1, 9))
        weights = self.random.standard_normal((c, k)).astype(np.float32) * (self.random.random((c, k)) < 0.15)
        x = self.op("Transpose", x, perm=[0, 2, 3, 1], shape=(n, h, w, c))
        y = self.op("MatMul", x, self.constant(weights), shape=(n, h, w, k))
        if self.random.random() < 0.5:
            y = self.op("Relu", self.op("Add", y, self.floats(k), shape=(n, h, w, k)), shape=(n, h, w, k))
        return self.op("Transpose", y, perm=[0, 3, 1, 2], shape=(n, k, h, w))

    def twice(self, x: str) -> str:
        a, b = (self.op("Relu", x, shape=self.shapes[x]) for _ in range(2))
        return self.op("Mul", a, b, shape=self.shapes[x])

    def joined(self, x: str) -> str:
        _, c, h, w = self.shapes[x]
        y = self.op("Relu", x, shape=self.shapes[x])
        both = self.op("Concat", x, y, axis=1, shape=(1, 2 * c, h, w))
        all = self.op("Concat", x, y, self.op("Neg", both, shape=(1, 2 * c, h, w)), axis=1, shape=(1, 4 * c, h, w))
        weights = self.random.standard_normal((c, 4 * c, 1, 1)).astype(np.float32)
        return self.op("Conv", all, self.constant(weights), shape=(1, c, h, w))

    def levels(self, x: str, scale: float) -> str:
        """x in steps of `scale`, a power of two."""
        step, zero = self.constant(np.float32(scale)), self.constant(np.uint8(self.random.integers(60, 200)))
        shape = self.shapes[x]
        q = self.op("QuantizeLinear", x, step, zero, shape=shape)
        return self.op("DequantizeLinear", q, step, zero, shape=shape)

    def quantized(self, x: str) -> str:
        """Convolutions of bytes, and what lies between them. Steps are powers of two: nothing else rounds."""
        x = self.levels(x, 2.0**-5)
        shape = self.shapes[x]
        c = shape[1]
        group = int(self.random.choice([1, c]))
        weights = self.constant(self.random.integers(-64, 65, (c, c // group, 3, 3)).astype(np.int8))
        scales = self.constant((2.0 ** self.random.integers(-7, -4, c)).astype(np.float32))
        kernel = self.op("DequantizeLinear", weights, scales, shape=(c, c // group, 3, 3), axis=0)
        y = self.op("Conv", x, kernel, shape=shape, pads=[1] * 4, group=group)
        if self.random.random() < 0.5:
            y = self.op("Relu", y, shape=shape)
        y = self.levels(y, 2.0**-3)
        for _ in range(int(self.random.integers(1, 4))):
            kind = str(self.random.choice(["Add", "Concat", "MaxPool", "AveragePool", "Transpose", "Slice"]))
            own = self.shapes[y]
            if kind == "Add":
                y = self.op("Add", y, y if own != shape else x, shape=own)
            elif kind == "Concat":
                y = self.op("Concat", y, self.levels(y, 2.0**-4), axis=1, shape=(1, 2 * own[1], *own[2:]))
            elif kind == "Transpose":
                y = self.op("Transpose", y, perm=[0, 1, 3, 2], shape=(*own[:2], own[3], own[2]))
            elif kind == "Slice":
                bounds = (self.constant(np.array([n], np.int64)) for n in (0, 1, 2))
                y = self.op("Slice", y, *bounds, shape=(*own[:2], 1, own[3]))
            elif min(own[2:]) > 1:
                smaller = (*own[:2], own[2] - 1, own[3] - 1)
                y = self.op(kind, y, shape=smaller, kernel_shape=[2, 2])
            y = self.levels(y, float(self.random.choice([2.0**-3, 2.0**-2])))
        return y

    def dynamic(self, x: str) -> str:
        """A convolution of bytes whose levels the network finds itself."""
        _, c, h, w = self.shapes[x]
        k = int(self.random.integers(1, 6))
        levels, scale, zero = (f"{x}_{name}" for name in ("levels", "scale", "zero"))
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], [levels, scale, zero], name=f"{x}_dynamic"))
        weights = self.constant(self.random.integers(-64, 65, (k, c, 3, 3)).astype(np.int8))
        shape = (1, k, h, w)
        sums = self.op("ConvInteger", levels, weights, zero, shape=shape, pads=[1] * 4)
        factor = self.op("Mul", scale, self.constant(np.float32(2.0**-6)), shape=())
        y = self.op("Mul", self.op("Cast", sums, shape=shape, to=TensorProto.FLOAT), factor, shape=shape)
        y = self.op("Add", y, self.floats(k, 1, 1), shape=shape) if self.random.random() < 0.5 else y
        return self.op("Relu", y, shape=shape) if self.random.random() < 0.5 else y

    def dense(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        flat = self.op("Flatten", x, shape=(n, c * h * w))
        k = 6
        if self.random.random() < 0.5:
            y = self.op(
                "Gemm", flat, self.floats(k, c * h * w), self.floats(k), shape=(n, k), transB=1, alpha=0.5, beta=2.0
            )
        else:
            y = self.op(
                "Add", self.op("MatMul", flat, self.floats(c * h * w, k), shape=(n, k)), self.floats(k), shape=(n, k)
            )
        return self.op("Relu", y, shape=(n, k))


def random_model(seed: int) -> ModelProto:
    """A network of a few random blocks over a [1,C,H,W] input, some intermediate results also being outputs."""
    b = _Builder(seed)
    channels, height, width = (int(b.random.integers(1, n)) for n in (9, 8, 8))
    b.shapes["x"] = (1, channels, height, width)
    blocks = [
        b.conv,
        b.padded_conv,
        b.pruned,
        b.maximum,
        b.transposed,
        b.norm,
        b.normalized,
        b.bounded,
        b.excited,
        b.parallel,
        b.gathered,
        b.headed,
        b.affine,
        b.function,
        b.leaky,
        b.hard_swish,
        b.gelu,
        b.silu,
        b.residual,
        b.shuffled,
        b.twice,
        b.joined,
        b.layer,
        b.patches,
        b.channels_last,
        b.attended,
    ]
    x, outputs = b.quantized("x") if seed % 4 == 3 else b.dynamic("x") if seed % 4 == 2 else "x", []
    for _ in range(int(b.random.integers(2, 7))):
        x = blocks[int(b.random.integers(len(blocks)))](x)
        if b.random.random() < 0.15:
            outputs.append(x)
    if b.random.random() < 0.4:
        x = b.dense(x)
    outputs = list(dict.fromkeys([*outputs, x]))

    def info(name: str) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, b.shapes[name])

    graph = helper.make_graph(b.nodes, "random", [info("x")], [info(name) for name in outputs], b.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    checker.check_model(model)
    return model
