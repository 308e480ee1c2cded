"""The good bundles that fuzzing starts from: `python -m tests.fuzz.seeds FOLDER` writes small ones of every kernel.

With `--all`, also what can be packed of the onnx package's node tests, where it gives steps that no other seed has.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgert.reader import Bundle, read
from packer.api import pack
from packer.bundle.model import Bundle as Made
from packer.bundle.writer import write_bundle
from packer.errors import ModelError
from packer.importers import import_onnx
from packer.passes import optimize
from targets.base import DEVICE_KERNELS, resolve
from tests.edgert.device_bundles import affine, two_runs
from tests.fuzz.blocked import blocked_bundles
from tests.packer.importers.sweep import cases
from tests.packer.passes.random_models import random_model
from tests.runtime_c.bundles import cores_bundle

__all__ = ["TARGET", "networks", "write_seeds"]

OPSET = 20
TARGET = "cpu-x86_64-avx512" if platform.machine() == "x86_64" else "cpu"  # with all kernels
MOST_BYTES = 100_000  # of a bundle
SEARCHES = (("exact", 1), ("rows", 2))  # strategies of the planner, and how many cores: with views and without
IMPLEMENTATIONS = {  # of convolutions and matrix products, by precision
    "f32": (
        "direct", "depthwise", "sparse", "masked", "sliced", "unrolled", "winograd2", "winograd4", "im2col-caffe",
        "im2col-nhwc",
    ),
    "f16": ("packed-f16", "sparse-f16", "masked-f16", "winograd4-lean-f16"),
    "bf16": (
        "packed-bf16", "bf16", "lines-bf16", "sparse-bf16", "masked-bf16", "winograd2-lean-bf16", "winograd2-bf16",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """An operand given at run time."""

    shape: tuple[int, ...]
    dtype: str


Operand = Input | np.ndarray | None


def f(*shape: int) -> Input:
    """A float32 input."""
    return Input(shape, "float32")


def i(*shape: int) -> Input:
    """An int64 input."""
    return Input(shape, "int64")


def of(dtype: str, *shape: int) -> Input:
    """An input of another type."""
    return Input(shape, dtype)


def w(*shape: int) -> np.ndarray:
    """Constant weights."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def pruned(*shape: int) -> np.ndarray:
    """Constant weights, four of five zero."""
    return np.where(np.random.default_rng(sum(shape) + 1).random(shape) < 0.2, w(*shape), np.float32(0))


def k(*values: int) -> np.ndarray:
    """A constant int64 vector."""
    return np.array(values, np.int64)


def s(value: float) -> np.ndarray:
    """A constant float32 scalar."""
    return np.array(value, np.float32)


def model(operator: str, *operands: Operand, outputs: int = 1, opset: int = OPSET, **attributes: object) -> ModelProto:
    """A network of one node."""
    names, inputs, weights = [], [], []
    for number, operand in enumerate(operands):
        names.append("" if operand is None else f"x{number}")
        if isinstance(operand, Input):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))
            inputs.append(helper.make_tensor_value_info(names[-1], kind, operand.shape))
        elif operand is not None:
            weights.append(numpy_helper.from_array(operand, names[-1]))
    results = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(operator, names, results, name=operator, **attributes)
    infos = [helper.make_empty_tensor_value_info(name) for name in results]
    graph = helper.make_graph([node], operator, inputs, infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def quantized(operator: str, x: Input, weights: np.ndarray | None = None, **attributes: object) -> ModelProto:
    """A network of one node over bytes: its operands are dequantized, its result is quantized."""
    constants = {"scale": s(0.05), "zero": np.array(7, np.uint8)}
    nodes, operands = [helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"])], ["a"]
    if weights is not None:
        constants["w"] = (weights * 40).astype(np.int8)
        nodes, operands = [*nodes, helper.make_node("DequantizeLinear", ["w", "scale"], ["b"])], ["a", "b"]
    nodes += [
        helper.make_node(operator, operands, ["c"], **attributes),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["y"]),
    ]
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), x.shape)
    stored = [numpy_helper.from_array(data, name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, operator, [info], [helper.make_empty_tensor_value_info("y")], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def dynamic(operator: str, x: Input, weights: np.ndarray, **attributes: object) -> ModelProto:
    """A product of bytes whose levels are found when it runs, as integers and scaled."""
    data = numpy_helper.from_array((weights * 40).astype(np.int8), "w")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["b", "scale", "zero"]),
        helper.make_node(operator, ["b", "w", "zero"], ["sums"], **attributes),
        helper.make_node(operator, ["b", "w", "zero"], ["again"], **attributes),
        helper.make_node("Cast", ["again"], ["floats"], to=1),
        helper.make_node("Mul", ["floats", "scale"], ["scaled"]),
        helper.make_node("Relu", ["scaled"], ["y"]),
    ]
    info = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), x.shape)
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("sums", "y")]
    graph = helper.make_graph(nodes, operator, [info], outputs, [data])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def attention(batch: int, rows: int, keys: int, *mask: int) -> ModelProto:
    """Attention of 3 heads, which lie between rows and columns of its operands, and a mask."""
    sizes = {"q": (batch, rows, 3, 5), "k": (1, keys, 3, 5), "v": (batch, keys, 3, 18), "mask": mask}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    nodes = [
        helper.make_node("Transpose", ["q"], ["rows"], perm=[0, 2, 1, 3]),
        helper.make_node("Transpose", ["k"], ["keys"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["rows", "keys"], ["products"]),
        helper.make_node("Add", ["products", "mask"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["powers"], axis=-1),
        helper.make_node("Transpose", ["v"], ["values"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["powers", "values"], ["sums"]),
        helper.make_node("Transpose", ["sums"], ["y"], perm=[0, 2, 1, 3]),
    ]
    graph = helper.make_graph(nodes, "attention", infos, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def models() -> Iterator[ModelProto]:
    """Small networks whose bundles use every kernel, most of them in several ways."""
    pads = [1, 1, 1, 1]
    yield model("Conv", f(1, 3, 6, 7), w(5, 3, 3, 3), w(5), pads=pads)
    yield model("Conv", f(2, 16, 5, 5), w(32, 16, 1, 1), strides=[2, 2])
    yield model("Conv", f(1, 8, 9), w(6, 4, 3), w(6), group=2, dilations=[2], pads=[2, 1])
    yield model("Conv", f(1, 18, 6, 6), w(18, 1, 3, 3), w(18), group=18, pads=pads)
    yield model("Conv", f(1, 2, 4, 5, 3), w(3, 2, 2, 2, 2), pads=[0, 1, 0, 1, 0, 1])
    yield model("Conv", f(1, 3, 6, 6), f(4, 3, 3, 3))
    yield model("Conv", f(1, 12, 6, 7), pruned(20, 12, 3, 3), w(20), pads=pads)
    yield model("Conv", f(2, 24, 5, 5), pruned(18, 24, 1, 1), strides=[2, 2])
    yield model("Conv", f(1, 12, 9), pruned(8, 6, 3), w(8), group=2, dilations=[2], pads=[2, 1])
    yield model("Conv", f(1, 18, 6, 6), pruned(18, 1, 3, 3), group=18, strides=[2, 2], pads=pads)
    yield model("ConvTranspose", f(1, 4, 5, 5), w(4, 3, 3, 3), w(3), strides=[2, 2], output_padding=[1, 0])
    yield model("ConvTranspose", f(1, 4, 7), w(4, 2, 3), group=2, dilations=[2], pads=[1, 2])
    yield model("Gemm", f(3, 17), w(17, 20), w(20))
    yield model("MatMul", f(2, 3, 5), w(5, 33))
    yield model("Conv", f(1, 20, 6, 9), np.repeat(pruned(5, 20, 3, 3), 4, axis=0), w(20), pads=pads)
    yield model("Conv", f(1, 20, 6, 9), np.repeat(pruned(18, 5, 3, 3), 4, axis=1), w(18), pads=pads)
    yield model("Conv", f(1, 20, 6, 8), np.repeat(pruned(18, 5, 1, 1), 4, axis=1))
    yield model("Conv", f(1, 40, 7, 7), pruned(8, 40, 3, 3), w(8), pads=pads)  # gaps
    yield model("Conv", f(1, 2, 3, 12), pruned(440, 2, 1, 5), w(440))  # sorted rows
    yield model("Conv", f(1, 6, 13, 13), pruned(64, 6, 3, 3), w(64), dilations=[6, 6], pads=[6, 6, 6, 6])  # spread taps
    yield model("Conv", f(1, 32, 4, 4), np.repeat(pruned(520, 8, 1, 4), 4, axis=1), pads=[0, 1, 0, 2])
    yield model("Gemm", f(2, 300), pruned(300, 20), w(20))
    yield model("Gemm", f(1, 300), np.repeat(pruned(75, 20), 4, axis=0), w(20))
    yield model("Gemm", f(5, 300), np.repeat(pruned(300, 5), 4, axis=1))
    yield quantized("Conv", of("uint8", 1, 20, 6, 5), w(18, 20, 3, 3), pads=pads)
    yield quantized("Conv", of("uint8", 1, 40, 6, 5), pruned(18, 40, 3, 3), pads=pads)
    yield quantized("Conv", of("uint8", 2, 32, 5), w(32, 16, 1), group=2, strides=[2])
    yield quantized("MatMul", of("uint8", 3, 21), w(21, 18))
    yield quantized("Conv", of("uint8", 1, 20, 7, 6), w(20, 1, 3, 3), group=20, pads=pads, strides=[2, 1])
    yield quantized("Conv", of("uint8", 2, 18, 9), w(18, 1, 3), group=18, dilations=[2])
    yield quantized("Conv", of("uint8", 1, 20, 6, 5), w(24, 5, 1, 1), group=4)
    yield dynamic("ConvInteger", f(1, 20, 6, 5), w(18, 20, 3, 3), pads=pads)
    yield quantized("Mul", of("uint8", 1, 20, 5, 4), w(20, 1, 1))
    yield quantized("Sigmoid", of("uint8", 3, 40))
    yield dynamic("ConvInteger", f(1, 20, 5, 4), w(20, 1, 3, 3), group=20, pads=pads)
    yield dynamic("MatMulInteger", f(3, 21), w(21, 18))
    yield model("MatMul", f(2, 1, 3, 5), f(4, 5, 6))
    yield model("MatMul", i(3, 4), i(4, 2))
    yield model("Gemm", f(5, 3), f(5, 4), f(4), transA=1, alpha=0.5)
    yield model("Relu", f(3, 7))
    yield model("HardSigmoid", f(2, 40))
    yield model("Gelu", f(33))
    yield model("Not", of("bool", 5))
    yield model("IsInf", f(9))
    yield model("Abs", of("int8", 3, 3))
    yield model("Add", f(2, 3, 4), f(3, 1))
    yield model("Mul", f(2, 16, 4, 4), w(16, 1, 1))
    yield model("Pow", f(4, 5), f(5))
    yield model("Div", i(3, 4), i(4))
    yield model("Mod", of("int32", 6), of("int32", 2, 6))
    yield model("BitShift", of("uint8", 7), of("uint8", 7), direction="LEFT")
    yield model("PRelu", f(2, 3, 4), w(3, 1))
    yield model("Less", f(2, 3), f(2, 3))
    yield model("And", of("bool", 3, 1), of("bool", 4))
    yield model("Where", of("bool", 2, 1), f(3), f(2, 3))
    yield model("BatchNormalization", f(2, 18, 3, 3), w(18), w(18), w(18), np.abs(w(18)) + 1)
    yield model("Cast", f(4, 5), to=2)
    yield model("Cast", i(7), to=1)
    yield model("QuantizeLinear", f(3, 4), w(4) ** 2 + 1, np.zeros(4, np.uint8), axis=1)
    yield model("DequantizeLinear", of("int8", 3, 4), s(0.5), np.array(3, np.int8))
    yield model("Transpose", f(3, 4, 5), perm=[2, 0, 1])
    yield model("Slice", f(5, 6), k(1, -1), k(5, -7), k(0, 1), k(2, -2))
    yield model("Expand", f(3, 1), k(2, 3, 4))
    yield model("Tile", of("uint8", 2, 3), k(2, 2))
    yield model("Concat", f(2, 3, 4), f(2, 5, 4), axis=1)
    yield model("Split", f(6, 4), k(2, 4), outputs=2, axis=0)
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield model("Pad", f(4, 5), k(1, -1, 2, 3), mode=mode)
    yield model("Gather", f(5, 4), i(3), axis=0)
    yield model("Gather", f(3, 5, 2), of("int32", 2, 2), axis=1)
    yield model("GatherElements", f(4, 3), i(2, 3), axis=0)
    yield model("GatherND", f(2, 3, 4), i(2, 2, 1), batch_dims=1)
    for reduction in ("none", "add", "max"):
        yield model("ScatterElements", f(4, 3), i(2, 3), f(2, 3), axis=0, reduction=reduction)
        yield model("ScatterND", f(4, 3), i(2, 1), f(2, 3), reduction=reduction)
    yield model("OneHot", i(2, 3), k(5), w(2), axis=1)
    yield model("ReverseSequence", f(4, 3, 2), i(3), batch_axis=1, time_axis=0)
    yield model("Trilu", f(2, 4, 5), k(1).reshape(()), upper=0)
    yield model("Compress", f(4, 3), of("bool", 3), axis=0)
    yield model("Compress", f(4, 3), of("bool", 9))
    yield model("NonZero", f(3, 4))
    for kind in ("MaxPool", "AveragePool"):
        yield model(kind, f(1, 18, 6, 7), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield model("MaxPool", f(1, 3, 8), kernel_shape=[3], strides=[2], ceil_mode=1, outputs=2)
    yield model("MaxPool", of("uint8", 1, 2, 5, 5), kernel_shape=[2, 2], dilations=[2, 2])
    yield model("AveragePool", f(1, 2, 4, 4, 3), kernel_shape=[2, 2, 2], pads=[1] * 6, count_include_pad=1)
    yield model("LpPool", f(1, 2, 6, 6), kernel_shape=[3, 3], p=3)
    yield model("MaxUnpool", f(1, 1, 2, 2), i(1, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    yield model("GlobalAveragePool", f(2, 20, 5, 5))
    for kind in ("ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"):
        yield model(kind, f(2, 17, 3, 4), k(1, 3), keepdims=0)
    yield model("ReduceSum", i(3, 4), k(0))
    yield model("ArgMax", f(3, 5, 2), axis=1, select_last_index=1)
    yield model("CumSum", f(3, 5), k(1).reshape(()), exclusive=1, reverse=1)
    yield model("Softmax", f(3, 19), axis=1)
    yield attention(2, 17, 21, 21)
    yield attention(1, 8, 3, 3, 8, 1)
    yield model("LogSoftmax", f(2, 5, 3), axis=1)
    yield model("LayerNormalization", f(3, 18), w(18), w(18))
    yield model("InstanceNormalization", f(2, 3, 4, 5), w(3), w(3))
    yield model("LpNormalization", f(3, 5), axis=1, p=1)
    yield model("LRN", f(1, 18, 3, 3), size=5)
    for mode in ("nearest", "linear", "cubic"):
        yield model("Resize", f(1, 2, 5, 6), None, np.array([1, 1, 1.7, 0.6], np.float32), mode=mode)
        yield model("GridSample", f(1, 2, 4, 5), f(1, 3, 3, 2), mode=mode, padding_mode="reflection")
    yield model("Resize", f(1, 18, 4, 4), None, None, k(1, 18, 8, 8), mode="linear")
    for mode in ("avg", "max"):
        yield model("RoiAlign", f(2, 3, 8, 8), f(4, 4), i(4), output_height=3, output_width=2, mode=mode)
    yield model("TopK", f(3, 9), k(4), outputs=2, axis=1, largest=0)
    yield model("NonMaxSuppression", f(1, 6, 4), f(1, 2, 6), k(3), s(0.5), s(0.1))
    both = {"direction": "bidirectional"}
    yield model("RNN", f(4, 2, 3), w(2, 5, 3), w(2, 5, 5), w(2, 10), outputs=2, hidden_size=5, **both)
    yield model("LSTM", f(4, 2, 3), w(1, 20, 3), w(1, 20, 5), w(1, 40), of("int32", 2), outputs=3, hidden_size=5)
    yield model("GRU", f(3, 2, 17), pruned(1, 48, 17), pruned(1, 48, 16), outputs=2, hidden_size=16)
    yield model("GRU", f(4, 2, 3), w(1, 15, 3), w(1, 15, 5), outputs=2, hidden_size=5, direction="reverse")
    yield from (random_model(seed) for seed in range(12))


def networks() -> Iterator[tuple[ModelProto, dict[str, str]]]:
    """The small networks, also by every implementation that one of their nodes offers in some precision."""
    for network in models():
        yield network, {}
        graph = optimize(import_onnx(network))
        for precision, implementations in IMPLEMENTATIONS.items():
            target = resolve(TARGET, precision=precision)
            offered = {form.implementation for node in graph.nodes for form in target.forms(graph, node)}
            for name in implementations:
                if name in offered:
                    yield network, {"implementation": name, "precision": precision}


def node_tests() -> Iterator[ModelProto]:
    """The onnx package's tests with their shape-determining inputs made constants."""
    for test in cases():
        values = dict(zip((x.name for x in test.model.graph.input), map(np.asarray, test.data_sets[0][0]), strict=True))
        pins: dict[str, np.ndarray] = {}
        while True:
            try:
                import_onnx(test.model, constants=pins)
            except ModelError as error:
                if error.input_name is None or error.input_name in pins:
                    break
                pins[error.input_name] = values[error.input_name]
                continue
            except Exception:
                break
            for name, value in pins.items():
                test.model.graph.initializer.append(numpy_helper.from_array(value, name))
            kept = [x for x in test.model.graph.input if x.name not in pins]
            del test.model.graph.input[:]
            test.model.graph.input.extend(kept)
            yield test.model
            break


def signature(bundle: Bundle) -> str:
    """Equal for bundles whose steps differ in names and constants only."""
    program = bundle.programs[0]
    types = [(t.dtype.str, t.layout, t.shape, t.place, t.root, t.begin, t.halo) for t in program.tensors]
    steps = [(s.kernel, s.inputs, s.outputs, s.attributes, s.core, s.phase) for s in program.steps]
    return hashlib.sha256(repr((types, steps)).encode()).hexdigest()[:12]


def write_device_seeds(folder: Path) -> set[str]:
    """Writes bundles with programs for a device, floats in 16 bits in half of them; returns the kernels they use."""
    kernels: set[str] = set()
    path = folder / "new"
    for number, builder in enumerate((affine(), two_runs())):
        made = Made("edgert tests", "device", (builder.program(),), ())
        write_bundle(made, folder / f"device-made-{number}.edge")
        kernels.update(step.kernel for step in made.programs[0].steps)
    for network, activations in zip(models(), itertools.cycle(("f32", "f16"))):
        options = {"placement": "device", "device_code": "ptx", "activations": activations}
        pack(network, path, targets=("jetson",), golden=False, **options)
        found = read(path)
        used = [step.kernel for step in found.programs[0].steps]
        if path.stat().st_size <= MOST_BYTES and not {*used}.isdisjoint(DEVICE_KERNELS):
            kernels.update(used)
            path.rename(folder / f"device-{signature(found)}.edge")
    return kernels


def write_seeds(folder: Path, every: bool = False) -> set[str]:
    """Writes the bundles, named after what they hold; returns the kernels they use."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = write_device_seeds(folder)
    path = folder / "new"
    for number, bundle in enumerate((*blocked_bundles(), cores_bundle())):
        write_bundle(bundle, folder / f"made-{number}.edge")
        kernels.update(step.kernel for step in bundle.programs[0].steps)
    tests: list[tuple[ModelProto, dict[str, str]]] = [(network, {}) for network in (node_tests() if every else ())]
    for (network, options), (search, cores) in itertools.product((*networks(), *tests), SEARCHES):
        try:
            pack(
                network,
                path,
                targets=(TARGET,),
                golden=network.graph.name == "random",
                search=search,
                cores=(cores,),
                **options,
            )
        except ModelError:
            if not every:
                raise
            continue
        found = read(path)
        if path.stat().st_size > MOST_BYTES or not found.programs[0].steps:
            path.unlink()
            continue
        used = [step.kernel for step in found.programs[0].steps]
        kernels.update(used)
        path.rename(folder / f"{used[0]}-{signature(found)}.edge")
    return kernels


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="also from the onnx package's node tests")
    options = parser.parse_args(arguments)
    kernels = write_seeds(options.folder, options.all)
    print(f"{len(list(options.folder.glob('*.edge')))} bundles, {len(kernels)} kernels in {options.folder}")


if __name__ == "__main__":
    main()
