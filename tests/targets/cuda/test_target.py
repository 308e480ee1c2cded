"""What the packer makes of whole networks for a board with a GPU: places, halos, memory, programs to fall back on."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgert.decisions import parse_plan
from packer.api import compile_model
from packer.bundle.model import Place, Program
from packer.errors import ModelError
from packer.importers import import_onnx
from packer.ir import DType
from packer.passes import optimize
from targets.base import DEVICE_KERNELS, Layout, TargetError, names, resolve, stored_bytes
from targets.cuda import toolchain
from targets.cuda.state import State
from targets.cuda.toolchain import ToolchainError, missing


def network(batch: int = 1) -> onnx.ModelProto:
    """Two branches of convolutions with pads of 1 and 2, joined, layers, and what no GPU does here (TopK)."""
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.standard_normal(shape) * (rng.random(shape) < 0.2)).astype(np.float32)
        for name, shape in {
            "a": (32, 8, 3, 3),
            "b": (16, 8, 5, 5),
            "c": (24, 48, 3, 3),
            "d": (24, 24, 3, 3),
            "e": (9, 24 * 14 * 17),
            "f": (9,),
        }.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["left"], "left", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["x", "b"], ["right"], "right", pads=[2, 2, 2, 2]),
        helper.make_node("Concat", ["left", "right"], ["both"], "join", axis=1),
        helper.make_node("Conv", ["both", "c"], ["third"], "third", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["third"], ["active"], "relu"),
        helper.make_node("Conv", ["active", "d"], ["fourth"], "fourth", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["active", "fourth"], ["sum"], "add"),
        helper.make_node("Conv", ["sum", "d"], ["fifth"], "fifth", pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["fifth"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "e", "f"], ["scores"], "scores", transB=1),
        helper.make_node("TopK", ["scores", "k"], ["best", "where"], "best"),
    ]
    graph = helper.make_graph(
        nodes,
        "branches",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, 14, 17])],
        [
            helper.make_tensor_value_info("best", TensorProto.FLOAT, [batch, 3]),
            helper.make_tensor_value_info("where", TensorProto.INT64, [batch, 3]),
        ],
        [numpy_helper.from_array(array, name) for name, array in {**weights, "k": np.array([3])}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compiled(batch: int = 1, **options: object) -> tuple[Program, ...]:
    options = {"placement": "device", "device_code": "ptx", **options}
    return compile_model(network(batch), targets=["jetson"], golden=False, **options).programs  # type: ignore[arg-type]


def test_boards_are_targets_with_aliases() -> None:
    assert {"jetson", "jetson-tx2", "jetson-orin", "h200"} <= set(names())
    assert resolve("jetson-tx2").name == "jetson"
    assert resolve("jetson").device == "sm_62"


def test_programs_of_the_processor_follow() -> None:
    counts = resolve("cpu-jetson-tx2").core_counts
    device, *others = compiled(cores=counts)
    assert (device.target, device.arch, device.device) == ("jetson", "aarch64", "sm_62")
    assert {(p.target, p.device, len(p.modules)) for p in others} == {("cpu-jetson-tx2", "", 0)}
    assert tuple(p.cores for p in others) == counts
    assert len(counts) == 4
    fewer = [p.cores for p in compiled()[1:]]  # by default only those that save time
    assert fewer[0] == counts[0]
    assert set(fewer) < set(counts)


@pytest.mark.parametrize("tier", ["t1", "t2", "t3"])
def test_a_tier_may_be_asked_for(tier: str) -> None:
    """The processor's programs know no tiers; theirs are as ever."""
    device, *others = compiled(implementation=tier)
    algorithms = [d.algorithm for d in parse_plan(device.plan).decisions if d.operator == "Conv"]
    assert algorithms == [tier] * 5
    assert [p.plan for p in others] == [p.plan for p in compiled()[1:]]


def test_what_can_runs_on_the_device() -> None:
    program = compiled()[0]
    on_host = [step.kernel for step in program.steps if step.kernel not in DEVICE_KERNELS]
    assert on_host == ["top_k"]
    assert [step.kernel for step in program.steps].count("put") == 1
    assert [step.kernel for step in program.steps].count("get") == 1
    for step in program.steps:
        for number in (*step.inputs, *step.outputs):
            place = program.tensors[number].place
            assert step.kernel != "launch" or place in (Place.DEVICE, Place.SEGMENT)


def test_every_entry_is_in_its_module() -> None:
    program = compiled()[0]
    for step in (step for step in program.steps if step.kernel in DEVICE_KERNELS):
        found = {attribute.name: attribute for attribute in step.attributes}
        entries, modules = found["entries"].text.split(","), found["module"].ints
        assert len(entries) == len(modules) == len(found["threads"].ints) == len(found["grid"].ints) // 3
        for entry, module in zip(entries, modules, strict=True):
            text = program.modules[module].ptx
            assert f".entry {entry}(" in text
            operands = sum(number >= 0 for number in (*step.inputs, *step.outputs))
            assert text.count(".param .u64") == operands


def test_joined_values_lie_in_one_with_the_halo_of_all_readers() -> None:
    graph = optimize(import_onnx(network()))
    state = State(graph)
    assert state.halo("x") == (2, 2, 2, 2)
    assert state.halo("both") == state.halo("left") == state.halo("right") == (1, 1, 1, 1)
    program = compiled()[0]
    joined = next(tensor for tensor in program.tensors if tensor.name == "both" and tensor.layout is Layout.PLANES)
    views = {tensor.name: tensor for tensor in program.tensors if tensor.root >= 0}
    assert program.tensors[views["left"].root] is joined
    assert views["right"].within[1] == (32, 48)
    assert views["right"].halo == joined.halo


def test_what_is_seen_under_another_shape_does_not_lie_in_others() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["whole"]),
        helper.make_node("Slice", ["whole", "begin", "end", "axis"], ["part"], "slice"),
        helper.make_node("Reshape", ["part", "shape"], ["seen"]),
        helper.make_node("Softmax", ["seen"], ["y"], "softmax"),
    ]
    constants = {"begin": [4], "end": [8], "axis": [1], "shape": [4, 25]}
    graph = helper.make_graph(
        nodes,
        "seen",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 25])],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    found = compile_model(model, targets=["jetson"], golden=False, placement="device", device_code="ptx").programs[0]
    assert ("slice",) in [step.nodes for step in found.steps]
    softmax = next(step for step in found.steps if step.nodes == ("softmax",))
    sliced = next(step for step in found.steps if step.nodes == ("slice",))
    seen, part = found.tensors[softmax.inputs[0]], found.tensors[sliced.outputs[0]]
    assert (seen.offset, part.root) == (part.offset, -1)


def test_several_images_are_joined_by_copies() -> None:
    program = compiled(2)[0]
    assert not [tensor for tensor in program.tensors if tensor.root >= 0 and tensor.layout is Layout.PLANES]
    assert any(step.nodes == ("join",) for step in program.steps)


def test_planes_with_halos_share_memory_with_their_like_alone() -> None:
    program = compiled()[0]
    roots = [t for t in program.tensors if t.place is Place.DEVICE and t.root < 0]
    spans = [(t.offset, t.offset + stored_bytes(t.type, t.layout, t.halo)) for t in roots]
    assert max(end for _, end in spans) <= program.device_bytes
    shared = 0
    for (one, a), (other, b) in combinations(zip(roots, spans, strict=True), 2):
        if a[0] < b[1] and b[0] < a[1]:
            shared += 1
            assert one.halo == other.halo
            if one.halo:
                assert one.type.shape[2:] == other.type.shape[2:]
                plane = (a[1] - a[0]) // one.type.shape[1]
                assert (a[0] - b[0]) % plane == 0
    assert shared


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"weight_rounding": "19bit"}, "weight rounding: expected off, auto, 20bit or a positive number, got '19bit'"),
        ({"activations": "f8"}, "activations: expected f32, f16, got 'f8'"),
        ({"placement": "gpu"}, "placement: expected cost, device, got 'gpu'"),
        ({"device_code": "sass"}, "device code: expected cubin, ptx, got 'sass'"),
        ({"cuda_route": "paper"}, "CUDA route: expected direct, template, got 'paper'"),
        ({"cuda_route": "template", "activations": "f16"}, "template: expected activations f32, got 'f16'"),
    ],
)
def test_unknown_settings_are_refused(option: dict[str, str], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        compiled(**option)


def test_templates_need_their_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ToolchainError("NVRTC is missing; install it: pip install 'edgert[cuda]'")

    monkeypatch.setattr(toolchain, "_nvrtc", absent)
    with pytest.raises(TargetError, match=r"CUDA route template: NVRTC is missing; install it: pip install"):
        compiled(cuda_route="template")


@pytest.mark.skipif(bool(missing(assembler=False)), reason=missing(assembler=False))
def test_templates_leave_activations_that_they_do_not_know_to_other_tiers() -> None:
    """A Tanh; the direct route has instructions for it."""
    model = network()
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Tanh"
    for route, known in (("direct", True), ("template", False)):
        options = {"placement": "device", "device_code": "ptx", "cuda_route": route}
        program = compile_model(model, targets=["jetson"], golden=False, **options).programs[0]  # type: ignore[arg-type]
        found = {d.name: d.algorithm for d in parse_plan(program.plan).decisions}
        assert found["third"].startswith("t1") is known
        assert found["left"].startswith("t1")


def test_tolerance_of_the_sample_follows_the_rounding() -> None:
    found = {
        (rounding, storage): compile_model(
            network(), targets=["jetson"], device_code="ptx", placement="device", weight_rounding=rounding,
            activations=storage,
        ).goldens[0].rtol
        for rounding, storage in (("off", "f32"), ("20bit", "f32"), ("off", "f16"))
    }  # fmt: skip
    assert found["off", "f32"] == 1e-4 < found["20bit", "f32"] < 1e-2
    assert 2e-4 < found["off", "f16"] < 1e-2


def rounding_of(target: str, **options: str) -> tuple[Program, dict[str, float | None], float | None]:
    options = {"placement": "device", "device_code": "ptx", **options}
    program = compile_model(network(), targets=[target], **options).programs[0]  # type: ignore[arg-type]
    plan = parse_plan(program.plan)
    return program, {decision.name: decision.rounding for decision in plan.decisions}, plan.rounding


def test_errors_of_layers_and_network_are_told() -> None:
    _, layers, whole = rounding_of("jetson", weight_rounding="20bit")
    assert {name for name, error in layers.items() if error} == {"left", "right", "third", "fourth", "fifth"}
    assert all(1e-5 < error < 3e-4 for error in layers.values() if error is not None)
    assert whole is not None
    assert 1e-5 < whole < 1e-3
    _, layers, whole = rounding_of("jetson", weight_rounding="off")
    assert (set(layers.values()), whole) == ({None}, 0.0)


def test_small_layers_are_exact_first_if_the_budget_wants_it() -> None:
    _, every, whole = rounding_of("jetson", weight_rounding="20bit")
    assert whole is not None
    found = []
    for budget in (1.0, 4 * whole, 1e-9):
        _, layers, error = rounding_of("jetson", weight_rounding=str(budget))
        assert error is not None
        assert error <= budget
        found.append({name for name, own in layers.items() if own})
    assert found[0] == {name for name, own in every.items() if own} > found[1] > found[2] == set()
    non_zeros = {tensor.name: np.count_nonzero(numpy_helper.to_array(tensor)) for tensor in network().graph.initializer}
    weights = {node.name: non_zeros[node.input[1]] for node in network().graph.node if node.op_type == "Conv"}
    assert min(weights[name] for name in found[1]) >= max(weights[name] for name in found[0] - found[1])


def test_immediates_of_32_bits_hold_all_weights() -> None:
    assert rounding_of("h200")[1:] == (dict.fromkeys(rounding_of("jetson")[1]), 0.0)
    assert rounding_of("jetson")[2] != 0.0


def test_weights_in_memory_are_not_rounded() -> None:
    """Those of dense layers, which gain nothing by it."""
    dense = network()
    for tensor in dense.graph.initializer:
        if tensor.name != "k":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(0.1), tensor.name))
    program = compile_model(dense, targets=["jetson"], placement="device", device_code="ptx").programs[0]
    plan = parse_plan(program.plan)
    assert [d.algorithm for d in plan.decisions if d.operator == "Conv"] == ["t3"] * 5
    assert (plan.rounding, {d.rounding for d in plan.decisions}) == (0.0, {None})


def test_halves_are_half_the_memory() -> None:
    whole, halves = compiled()[0], compiled(activations="f16")[0]
    assert halves.device_bytes < 0.55 * whole.device_bytes
    for tensor in halves.tensors:
        if tensor.place is Place.DEVICE:
            assert tensor.type.dtype is DType.F16
    _, layers, error = rounding_of("jetson", activations="f16", weight_rounding="off")
    assert set(layers.values()) == {None}
    assert error is not None
    assert 5e-5 < error < 5e-3


def test_numbers_beyond_halves_are_refused() -> None:
    large = network()
    for tensor in large.graph.initializer:
        if tensor.name in ("a", "b"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e4), tensor.name))
    compile_model(large, targets=["jetson"], device_code="ptx")
    with pytest.raises(ModelError, match="too large for float16"):
        compile_model(large, targets=["jetson"], placement="device", device_code="ptx", activations="f16")
