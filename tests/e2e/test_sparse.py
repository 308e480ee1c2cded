"""Pruned networks: kernels that walk non-zeros give what the dense ones give, the same bits on any number of cores."""

from __future__ import annotations

import platform
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import edgert
from edgert.devices import this_machine
from edgert.selftest import selftest
from edgert.summary import summarize
from packer.api import pack
from packer.bundle.model import Bundle
from packer.bundle.writer import write_bundle
from packer.importers import import_onnx
from packer.ir import SINGLE, Block, DType
from packer.ir.rounding import nearest
from packer.passes import optimize
from packer.planner import make_plans
from packer.planner.pbqp import Solution
from packer.planner.problem import Problem
from packer.planner.select import Strategy, sample
from targets.base import resolve
from tests.e2e.conftest import relative_error, tensor
from tests.fuzz.seeds import TARGET

WIDE = "cpu-x86_64-avx512"  # whose processors slices suit
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="runs programs for x86-64")
STREAMS = {"conv_sparse", "conv_unrolled"}  # kernels of non-zeros, of which the processor decides
CASES = [
    # x, weights, attributes
    ((1, 24, 40, 40), (40, 24, 1, 1), {}),
    ((2, 19, 21, 33), (37, 19, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 130, 7, 7), (33, 130, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 40, 28, 28), (48, 40, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((1, 40, 29, 31), (48, 40, 1, 1), {"strides": [2, 2]}),
    ((1, 3, 64, 80), (16, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    ((1, 32, 20, 20), (48, 16, 3, 3), {"group": 2, "pads": [0, 1, 2, 1]}),
    ((1, 8, 25, 30), (20, 8, 3, 3), {"dilations": [2, 3], "pads": [3, 2, 1, 4]}),
    ((1, 16, 30, 31), (96, 16, 3, 3), {"dilations": [6, 7], "pads": [6, 5, 6, 7]}),
    ((2, 20, 90), (18, 20, 5), {"strides": [3], "pads": [2, 1]}),
    ((1, 6, 9, 12, 14), (17, 6, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    ((1, 3, 4, 300), (5, 3, 1, 3), {"pads": [0, 1, 0, 1]}),
]
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]


def pruned(random: np.random.Generator, shape: tuple[int, ...], zeros: float, block: Block = SINGLE) -> np.ndarray:
    """Random zeros, in such blocks."""
    weights = random.standard_normal(shape).astype(np.float32)
    places = random.random((shape[0] // block.filters, shape[1] // block.channels, *shape[2:])) < zeros
    weights[places.repeat(block.filters, 0).repeat(block.channels, 1)] = 0
    return weights


def finished(nodes: list, values: dict[str, np.ndarray], x: tuple[int, ...], rank: int) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "pruned",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        [numpy_helper.from_array(data, name) for name, data in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions(case: Case, zeros: float = 0.8, block: Block = SINGLE) -> ModelProto:
    """relu(conv(x) + bias + conv(-x)): bias, residual and activation are fused into the second convolution."""
    x, weights, attributes = case
    random = np.random.default_rng(0)
    values = {name: pruned(random, weights, zeros, block) for name in ("w", "v")}
    values["b"] = random.standard_normal(weights[0]).astype(np.float32)
    values["v"][3] = 0
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Conv", ["n", "v"], ["d"], **attributes),
        helper.make_node("Add", ["c", "d"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    return finished(nodes, values, x, len(x))


def fully_connected(rows: int, block: Block, form: str = "MatMul") -> ModelProto:
    """x [rows, 5000] times weights that are written as an operator's form takes them; 95 % are zero."""
    weights = pruned(np.random.default_rng(7), (72, 5000), 0.95, block)  # as filters [K, C]
    transposed = form == "Gemm, transB"
    node = helper.make_node(form.partition(",")[0], ["x", "w"], ["y"], **{"transB": 1} if transposed else {})
    return finished([node], {"w": weights if transposed else np.ascontiguousarray(weights.T)}, (rows, 5000), 2)


def check(path: Path, kernel: str, feeds: dict[str, np.ndarray], want: np.ndarray) -> None:
    """Every program runs `kernel`, gives what is wanted, and the same bits as the others."""
    programs = edgert.read(path).programs
    assert all(kernel in {step.kernel for step in program.steps} for program in programs)
    for isa in this_machine().isas:
        bits = set()
        for program in programs:
            with edgert.load(path, isa=isa, threads=program.cores) as session:
                got = session.run(feeds)["y"]
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * float(np.abs(want).max()), err_msg=isa)
            bits.add(got.tobytes())
        assert len(bits) == 1, f"{isa}: programs of {[program.cores for program in programs]} cores give other bits"


def drawn(problem: Problem) -> Solution:
    return sample(problem, np.random.default_rng(3))


@pytest.mark.parametrize("search", ["exact", drawn])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "x".join(map(str, (*case[0], "by", *case[1]))))
def test_convolutions(tmp_path: Path, case: Case, search: str | Strategy) -> None:
    network = convolutions(case)
    feeds = {"x": np.random.default_rng(1).standard_normal(case[0]).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    path = tmp_path / "model.edge"
    pack(network, path, cores=(1, 2, 3), implementation="sparse", search=search, golden=False)
    check(path, "conv_sparse", feeds, want)


@pytest.mark.parametrize(
    ("case", "block"),
    [(case, Block(4, 1)) for case in CASES if case[1][0] % 16 == 0]
    + [(case, Block(1, 4)) for case in CASES if case[1][1] % 4 == 0],
    ids=str,
)
def test_blocks_of_zeros_are_recognised(tmp_path: Path, case: Case, block: Block) -> None:
    """Four filters that have weights at the same places share what is loaded; an index is stored once for them, and for
    four channels of a filter."""
    network, others = convolutions(case, 0.8, block), convolutions(case, 0.8)
    feeds = {"x": np.random.default_rng(1).standard_normal(case[0]).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    path = tmp_path / "model.edge"
    for model, together in ((network, block[:2] if block.channels > 1 else block[:1]), (others, (1,))):
        pack(model, path, cores=(1, 2, 3), implementation="sparse", golden=False)
        steps = [s for program in edgert.read(path).programs for s in program.steps if s.kernel == "conv_sparse"]
        assert {a.ints for step in steps for a in step.attributes if a.name == "together"} == {together}
        if model is network:
            check(path, "conv_sparse", feeds, want)


@pytest.mark.parametrize("zeros", [0.8, 0.95])
def test_filters_of_different_numbers_of_weights(tmp_path: Path, zeros: float) -> None:
    """Cores get as many weights, not as many filters, and give the same bits; a fully connected layer likewise."""
    random = np.random.default_rng(4)
    values = {"w": pruned(random, (256, 96, 3, 3), zeros), "v": pruned(random, (256, 320), zeros)}
    values["w"][96:, :72] = 0
    values["v"][:64, 80:] = 0
    values["v"][64:, 160:] = 0
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    network = finished(nodes, values, (1, 96, 7, 7), 2)
    feeds = {"x": random.standard_normal((1, 96, 7, 7)).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    path = tmp_path / "model.edge"
    pack(network, path, cores=(1, 2, 3), implementation="sparse", golden=False)
    for kernel in ("conv_sparse", "linear_sparse"):
        check(path, kernel, feeds, want)
        for program in edgert.read(path).programs[1:]:
            sizes = [program.tensors[step.outputs[0]].shape[1] for step in program.steps if step.kernel == kernel]
            assert len(sizes) == program.cores
            assert max(sizes) >= 32 + min(sizes), "pieces are of different size"


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("implementation", ["sparse", "unrolled"])
def test_streams_are_proven_by_all_threads(tmp_path: Path, implementation: str, threads: int) -> None:
    """Whichever of them meets places of non-zeros that there are not, the message is about the first step that has
    some."""
    case: Case = ((1, 64, 40, 40), (64, 64, 1, 1), {})
    graph = optimize(import_onnx(convolutions(case), shapes={}, constants={}))
    (plan,) = make_plans(graph, resolve(TARGET), (threads,), implementation=implementation)
    program, path, places = plan.program(), tmp_path / "model.edge", 2 if implementation == "sparse" else 3
    operands = {n: step.inputs[places] for n, step in enumerate(program.steps) if step.kernel in STREAMS}
    assert len(operands) >= 2 * threads
    for wrong in (set(), {max(operands)}, set(operands) - {min(operands)}, set(operands)):
        tensors = list(program.tensors)
        for operand in {operands[step] for step in wrong}:
            data = np.full_like(tensors[operand].data, 0x3F3F3F3F if implementation == "unrolled" else 0xFF)
            tensors[operand] = replace(tensors[operand], data=data)
        write_bundle(Bundle("a test", "made", (replace(program, tensors=tuple(tensors)),), ()), path)
        first = [step for step, operand in operands.items() if operand in {operands[other] for other in wrong}][:1]
        with pytest.raises(edgert.BadStepError, match=rf"step {first[0]}, ") if first else nullcontext():
            edgert.load(path, threads=threads).close()


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_fully_connected(tmp_path: Path, rows: int) -> None:
    random = np.random.default_rng(2)
    values = {"w": pruned(random, (5000, 70), 0.9), "b": np.ones(70, np.float32), "v": pruned(random, (70, 40), 0.6)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["t"]),
        helper.make_node("Sigmoid", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "v"], ["y"]),
    ]
    network = finished(nodes, values, (rows, 5000), 2)
    feeds = {"x": random.standard_normal((rows, 5000)).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    for implementation in ("sparse", "packed"):
        path = tmp_path / f"{implementation}.edge"
        pack(network, path, cores=(1, 2, 3), implementation=implementation, golden=False)
        check(path, "linear_sparse" if implementation == "sparse" else "linear", feeds, want)


@pytest.mark.parametrize("rows", [1, 3, 20])
@pytest.mark.parametrize("precision", ["f32", "f16", "bf16"])
def test_masked_fully_connected(tmp_path: Path, rows: int, precision: str) -> None:
    """A bit for every weight: the same bits on any number of cores, and summaries count what there is."""
    random = np.random.default_rng(2)
    values = {"w": pruned(random, (5000, 70), 0.5), "b": np.ones(70, np.float32), "v": pruned(random, (70, 41), 0.3)}
    values["w"] /= np.float32(50)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["t"]),
        helper.make_node("Sigmoid", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "v"], ["y"]),
    ]
    network, path = finished(nodes, values, (rows, 5000), 2), tmp_path / "model.edge"
    rounded = {name: data if name == "b" else nearest(data, DType[precision.upper()]) for name, data in values.items()}
    feeds = {"x": random.standard_normal((rows, 5000)).astype(np.float32)}
    (want,) = ReferenceEvaluator(finished(nodes, rounded, (rows, 5000), 2)).run(None, feeds)
    implementation = "masked" if precision == "f32" else f"masked-{precision}"
    pack(network, path, cores=(1, 2, 3), implementation=implementation, precision=precision, golden=False)
    check(path, "linear_masked", feeds, want)
    bundle = edgert.read(path)
    nonzeros = sum(np.count_nonzero(rounded[name]) for name in ("w", "v"))
    for program in bundle.programs:
        layers = [layer for layer in summarize(bundle, program).layers if layer.kernel == "linear_masked"]
        assert sum(layer.weights for layer in layers) == 5000 * 70 + 70 * 41
        assert sum(layer.nonzeros for layer in layers) == nonzeros


@X86
@pytest.mark.parametrize("rows", [1, 3])
def test_sliced_fully_connected(tmp_path: Path, rows: int) -> None:
    """The same bits on any number of cores, and summaries count what there is."""
    random = np.random.default_rng(2)
    values = {"w": pruned(random, (500, 70), 0.8), "b": np.ones(70, np.float32), "v": pruned(random, (70, 41), 0.7)}
    values["w"] /= np.float32(15)
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["t"]),
        helper.make_node("Sigmoid", ["t"], ["u"]),
        helper.make_node("MatMul", ["u", "v"], ["y"]),
    ]
    network, path = finished(nodes, values, (rows, 500), 2), tmp_path / "model.edge"
    feeds = {"x": random.standard_normal((rows, 500)).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    pack(network, path, targets=(WIDE,), cores=(1, 2, 3), implementation="sliced", golden=False)
    check(path, "linear_sliced", feeds, want)
    bundle = edgert.read(path)
    for program in bundle.programs:
        layers = [layer for layer in summarize(bundle, program).layers if layer.kernel == "linear_sliced"]
        assert sum(layer.weights for layer in layers) == 500 * 70 + 70 * 41
        assert sum(layer.nonzeros for layer in layers) == sum(np.count_nonzero(values[name]) for name in ("w", "v"))


@X86
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_sparse_recurrent_layers(tmp_path: Path, kind: str, gates: int) -> None:
    """Both directions: what the dense kernel gives, but for rounding; and summaries count what there is."""
    random = np.random.default_rng(4)
    values = {"w": pruned(random, (2, gates * 40, 32), 0.9), "r": pruned(random, (2, gates * 40, 40), 0.9)}
    how = {"hidden_size": 40, "direction": "bidirectional"}
    network = finished([helper.make_node(kind, ["x", "w", "r"], ["y"], **how)], values, (9, 1, 32), 4)
    feeds, results = {"x": random.standard_normal((9, 1, 32)).astype(np.float32)}, {}
    for way in ("packed", "sliced"):
        path = tmp_path / f"{way}.edge"
        pack(network, path, targets=(WIDE,), cores=(1, 2), implementation=way, golden=False)
        results[way] = edgert.load(path, threads=1).run(feeds)["y"]
    check(path, "recurrent_sliced", feeds, results["packed"])
    bundle = edgert.read(path)
    (layer,) = (found for found in summarize(bundle, bundle.programs[0]).layers if found.kernel == "recurrent_sliced")
    assert layer.weights == 2 * gates * 40 * (32 + 40)
    assert layer.nonzeros == sum(map(np.count_nonzero, values.values()))


@X86
@pytest.mark.parametrize("way", ["packed", "sliced"])
@pytest.mark.parametrize(("kind", "gates", "hidden"), [("RNN", 1, 256), ("GRU", 3, 160), ("LSTM", 4, 128)])
def test_cores_share_a_recurrent_layer(tmp_path: Path, kind: str, gates: int, hidden: int, way: str) -> None:
    """One sequence in one direction: each core computes some of the units, and needs no memory of its own for it."""
    random, path = np.random.default_rng(5), tmp_path / "b.edge"
    values = {"w": pruned(random, (1, gates * hidden, 32), 0.9), "r": pruned(random, (1, gates * hidden, hidden), 0.9)}
    values["r"] /= np.float32(8)  # or errors would grow from step to step
    network = finished([helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden)], values, (50, 1, 32), 4)
    feeds = {"x": random.standard_normal((50, 1, 32)).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    pack(network, path, targets=(WIDE,), cores=(1, 2, 3), implementation=way, golden=False)
    check(path, {"packed": "recurrent", "sliced": "recurrent_sliced"}[way], feeds, want)
    for cores in (1, 2, 3):
        with edgert.load(path, threads=cores) as session:
            assert (session.describe().scratch_bytes == 0) == (cores > 1)


@pytest.mark.parametrize(("side", "zeros", "kernel"), [
    (4096, 0.0, "linear"), (4096, 0.5, "linear_masked"), (6144, 0.9, "linear_sparse"),
    (4096, 0.9, "linear_sliced"), (512, 0.5, "linear_sliced"), (512, 0.95, "linear_sliced"),
])  # fmt: skip
def test_zeros_decide_of_fully_connected_layers(tmp_path: Path, side: int, zeros: float, kernel: str) -> None:
    """Those out of memory save bytes first, those in a cache work."""
    values = {"w": np.where(np.random.default_rng(3).random((side, side), np.float32) < zeros, np.float32(0), 1)}
    values["w"] = values["w"].astype(np.float32)
    network = finished([helper.make_node("MatMul", ["x", "w"], ["y"])], values, (1, side), 2)
    pack(network, tmp_path / "model.edge", targets=(WIDE,), cores=(1, 2), golden=False)
    programs = edgert.read(tmp_path / "model.edge").programs
    assert {step.kernel for program in programs for step in program.steps} == {kernel}


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("form", ["Gemm", "Gemm, transB", "MatMul"])
@pytest.mark.parametrize("block", [Block(4, 1), Block(1, 4)], ids=str)
def test_blocks_of_fully_connected_layers_are_recognised(tmp_path: Path, block: Block, form: str, rows: int) -> None:
    """Four columns of an input, or four inputs of a column, have one index, however the weights are written; not so
    where zeros lie anywhere."""
    feeds = {"x": np.random.default_rng(1).standard_normal((rows, 5000)).astype(np.float32)}
    path = tmp_path / "model.edge"
    for zeros, together in ((block, block[:2] if block.channels > 1 else block[:1]), (SINGLE, (1,))):
        network = fully_connected(rows, zeros, form)
        (want,) = ReferenceEvaluator(network).run(None, feeds)
        forced = None if zeros is block else "sparse"  # single ones may be slices, too
        pack(network, path, cores=(1, 2, 3), implementation=forced, golden=False)
        bundle = edgert.read(path)
        steps = [step for program in bundle.programs for step in program.steps if step.kernel == "linear_sparse"]
        assert {a.ints for step in steps for a in step.attributes if a.name == "together"} == {together}
        check(path, "linear_sparse", feeds, want)
        nonzeros = np.count_nonzero(numpy_helper.to_array(network.graph.initializer[0]))
        stored = sum(segment.length for segment in bundle.segments if segment.name.startswith("weights"))
        assert stored < (4.4 if zeros is block else 5.2) * nonzeros + 1000
        assert summarize(bundle, bundle.programs[0]).sparsity == pytest.approx(1 - nonzeros / (72 * 5000))


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_values_of_16_bits(tmp_path: Path, precision: str) -> None:
    """A non-zero takes two bytes less, of convolutions and fully connected layers, and none is lost that matters."""
    random = np.random.default_rng(5)
    values = {"w": pruned(random, (128, 96, 3, 3), 0.9), "v": pruned(random, (128 * 49, 256), 0.9)}
    values["w"] /= np.float32(9)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    network, path = finished(nodes, values, (1, 96, 7, 7), 2), tmp_path / "model.edge"
    feeds = {"x": random.standard_normal((1, 96, 7, 7)).astype(np.float32)}
    rounded = {name: nearest(data, DType[precision.upper()]) for name, data in values.items()}
    (want,) = ReferenceEvaluator(finished(nodes, rounded, (1, 96, 7, 7), 2)).run(None, feeds)
    sizes = []
    for implementation, stored in (("sparse", "f32"), (f"sparse-{precision}", precision)):
        pack(network, path, cores=(1, 2, 3), implementation=implementation, precision=stored)
        assert selftest(path, runs=1).passed
        sizes.append(sum(s.length for s in edgert.read(path).segments if s.name.startswith("weights")))
    for kernel in ("conv_sparse", "linear_sparse"):
        check(path, kernel, feeds, want)
    nonzeros = sum(map(np.count_nonzero, values.values()))
    assert sizes[0] - 2.1 * nonzeros < sizes[1] < sizes[0] - 1.9 * nonzeros


def test_a_value_beyond_16_bits_keeps_all_in_float32(tmp_path: Path) -> None:
    network = convolutions(CASES[1], 0.9)
    weights = numpy_helper.to_array(network.graph.initializer[0]).copy()
    weights[5, 5, 1, 1] = 65520
    network.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    pack(network, tmp_path / "model.edge", cores=(1,), precision="f16", golden=False)
    program = edgert.read(tmp_path / "model.edge").programs[0]
    steps = [step for step in program.steps if step.kernel in STREAMS]
    assert [program.tensors[step.inputs[1]].dtype for step in steps] == [np.float32, np.float16]


def test_zeros_decide(tmp_path: Path) -> None:
    """Dense weights stay dense, pruned ones become streams, stored once whatever the number of programs."""
    sizes = {}
    for zeros in (0.0, 0.05, 0.9):
        path = tmp_path / f"{zeros}.edge"
        pack(convolutions(((1, 128, 28, 28), (128, 128, 1, 1), {}), zeros), path, cores=(1, 2, 3))
        kernels = {step.kernel for program in edgert.read(path).programs for step in program.steps}
        assert bool(STREAMS & kernels) == (zeros == 0.9)
        sizes[zeros] = sum(s.length for s in edgert.read(path).segments if s.name.startswith("weights"))
    assert sizes[0.9] < 5.75 * 0.1 * 2 * 128 * 128 + 2000
    assert sizes[0.0] > 4 * 2 * 128 * 128


def test_streams_are_not_cut_into_partial_sums(tmp_path: Path) -> None:
    network = convolutions(((1, 256, 7, 7), (64, 256, 3, 3), {"pads": [1] * 4}))
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 256, 7, 7)).astype(np.float32)}
    (want,) = ReferenceEvaluator(network).run(None, feeds)
    path = tmp_path / "model.edge"
    pack(network, path, cores=(2,), implementation="sparse", search=drawn, partial_sums=True, golden=False)
    check(path, "conv_sparse", feeds, want)


def test_weights_that_are_not_finite_stay_dense(tmp_path: Path) -> None:
    network = convolutions(CASES[1], 0.9)
    weights = numpy_helper.to_array(network.graph.initializer[0]).copy()
    weights[5, 5] = np.inf
    network.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    pack(network, tmp_path / "model.edge", cores=(1,), implementation="sparse", golden=False)
    kernels = [step.kernel for step in edgert.read(tmp_path / "model.edge").programs[0].steps]
    assert kernels.count("conv_sparse") == 1


@pytest.mark.parametrize("name", ["lenet5_dns_sparse", "squeezenet_dc", "mp_face_detection_full_range_sparse"])
def test_real_pruned_networks(models: Path, tmp_path: Path, name: str) -> None:
    """Forced sparse and forced dense agree with the vectors."""
    vectors = models / "vectors" / name / "test_data_set_0"
    for implementation in ("sparse", "packed"):
        path = tmp_path / f"{implementation}.edge"
        pack(models / "onnx" / f"{name}.onnx", path, cores=(1, 2), implementation=implementation, golden=False)
        for program in edgert.read(path).programs:
            with edgert.load(path, threads=program.cores) as session:
                (feed,) = session.inputs
                got = session.run({feed.name: tensor(vectors / "input_0.pb")})
            for i, output in enumerate(got.values()):
                assert relative_error(output, tensor(vectors / f"output_{i}.pb")) < 1e-4
