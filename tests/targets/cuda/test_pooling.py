"""Which poolings a program has in the kernels of convolutions: what allows it, what it saves, how it is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from edgert.cli import app
from edgert.decisions import Plan, parse_plan, read_plan, steps_of
from edgert.reader import read
from packer.api import compile_model, pack
from packer.bundle.model import Program
from packer.importers import import_onnx
from packer.passes import optimize
from packer.planner import make_plan
from packer.planner.select import STRATEGIES
from packer.tune.candidates import Candidates
from packer.tune.probe import probe
from targets.base import Layout, resolve
from targets.cuda.ranking import tier_of
from targets.cuda.toolchain import missing
from tests.e2e.emulated import emulated

INSIDE = {"kernel_shape": [2, 2], "strides": [2, 2]}


def network(
    pool: str = "MaxPool",
    size: tuple[int, int] = (28, 30),
    density: float = 0.15,
    also: str = "",
    batch: int = 1,
    late: bool = False,
    **attributes: object,
) -> onnx.ModelProto:
    """Convolution, ReLU, pooling, convolution; ReLU `late`, after pooling. `also` says who else reads what is pooled: a
    "node" or the "caller"."""
    rng = np.random.default_rng(0)
    shapes = {"a": (48, 8, 3, 3), "c": (16, 48, 3, 3)}
    weights = {n: (rng.standard_normal(s) * (rng.random(s) < density)).astype(np.float32) for n, s in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["first"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["first"], ["active"], "relu"),
        helper.make_node(pool, ["active"], ["pooled"], "pool", **{**INSIDE, **attributes}),
    ]
    if late:
        nodes[1:] = [
            helper.make_node(pool, ["first"], ["active"], "pool", **{**INSIDE, **attributes}),
            helper.make_node("Relu", ["active"], ["pooled"], "relu"),
        ]
    nodes += [
        helper.make_node("Conv", ["pooled", "c"], ["y"], "second", pads=[1, 1, 1, 1]),
    ]
    outputs = ["y"]
    if also == "node":
        nodes.append(helper.make_node("GlobalAveragePool", ["active"], ["z"], "other"))
    if also:
        outputs.append("z" if also == "node" else "active")
    graph = helper.make_graph(
        nodes,
        "pooled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, *size])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compiled(model: onnx.ModelProto, **options: str) -> Program:
    options = {"placement": "device", "device_code": "ptx", **options}
    return compile_model(model, targets=["jetson"], golden=False, **options).programs[0]  # type: ignore[arg-type]


def is_inside(program: Program) -> bool:
    by_name = {d.name: d for d in parse_plan(program.plan).decisions}
    inside = by_name["first"].algorithm.endswith(" pool")
    assert inside == (by_name["pool"].algorithm == "fused")
    assert len([step for step in program.steps if step.kernel == "launch"]) == (2 if inside else 3) + (
        "other" in by_name
    )
    return inside


@pytest.mark.parametrize(
    ("pool", "more", "inside"),
    [
        ("MaxPool", {}, True),
        ("MaxPool", {"late": True}, True),
        ("AveragePool", {}, True),
        ("MaxPool", {"size": (29, 31)}, True),
        ("MaxPool", {"ceil_mode": 1}, True),
        ("MaxPool", {"ceil_mode": 1, "size": (29, 30)}, False),
        ("MaxPool", {"kernel_shape": [3, 3]}, False),
        ("MaxPool", {"strides": [1, 1]}, False),
        ("MaxPool", {"pads": [1, 1, 0, 0]}, False),
        ("LpPool", {}, False),
        ("MaxPool", {"also": "node"}, False),
        ("MaxPool", {"also": "caller"}, False),
    ],
)
def test_pools_of_2_x_2_that_alone_read_a_convolution_are_in_its_kernels(
    pool: str, more: dict[str, object], inside: bool
) -> None:
    assert is_inside(compiled(network(pool, **more))) == inside  # type: ignore[arg-type]


def test_means_of_halves_stay_apart() -> None:
    assert is_inside(compiled(network("MaxPool"), activations="f16"))
    assert not is_inside(compiled(network("AveragePool"), activations="f16"))


def test_what_was_pooled_has_no_memory_of_its_own() -> None:
    program = compiled(network())
    assert "active" not in {tensor.name for tensor in program.tensors}
    apart = compiled(network(), implementation="t1")
    assert not is_inside(apart)
    assert program.device_bytes < apart.device_bytes
    (step,) = (step for step in program.steps if "first" in step.nodes)
    assert step.nodes == ("first", "relu", "pool")
    assert program.tensors[step.outputs[0]].name == "pooled"


def plans(model: onnx.ModelProto, **options: str) -> Plan:
    graph = optimize(import_onnx(model, shapes={}, constants={}))
    return parse_plan(make_plan(graph, resolve("jetson", **options)).explain())


def test_the_cheaper_way_is_taken_and_the_other_one_told() -> None:
    plan = plans(network(size=(112, 112)), placement="device")
    first, pool = plan.decisions[0], plan.decisions[1]
    assert first.algorithm == "t1 + max pool"
    assert (first.layouts, pool.layouts) == ("planes>registers", "registers>planes")
    assert pool.compute == 0
    (other,) = (other for other in pool.others if other.algorithm == "cuda")
    assert (other.decisions, other.compute > 0) == (2, True)


@pytest.mark.parametrize("search", STRATEGIES)
def test_every_strategy_gives_a_plan_that_can_be_made(search: str) -> None:
    if search == "policy":
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'edgert[search]'")
    graph = optimize(import_onnx(network(), shapes={}, constants={}))
    plan = make_plan(graph, resolve("jetson"), search=search)
    assert plan.seconds < 1
    assert plan.program().steps


def test_steps_are_those_of_the_convolution(tmp_path: Path) -> None:
    path = tmp_path / "model.edge"
    pack(network(), path, targets=["jetson"], golden=False, placement="device", device_code="ptx")
    found = read(path)
    plan = read_plan(found, found.programs[0])
    assert [d.name for d in plan.decisions] == ["first", "pool", "second"]
    assert [len(own) for own in steps_of(found.programs[0], plan)][:2] == [1, 0]
    shown = CliRunner().invoke(app, ["info", str(path), "--program", "jetson"])
    assert shown.exit_code == 0, shown.output
    assert "+ max pool" in shown.output
    assert "fused" in shown.output


def test_tuning_times_kernels_with_their_pools() -> None:
    graph, target = optimize(import_onnx(network(), shapes={}, constants={})), resolve("jetson", placement="device")
    candidates = Candidates(graph, target, (1,), {}).all
    assert all(Layout.REGISTERS not in candidate.form.inputs for candidate in candidates)
    inside = [candidate for candidate in candidates if Layout.REGISTERS in candidate.form.outputs]
    assert {tier_of(candidate.form.implementation) for candidate in inside} == {"t1", "t1c", "t2", "t3"}
    for candidate in inside:
        once = probe(candidate.work, candidate.form, target, candidate.reader).bundle.programs[0]
        assert [step.kernel for step in once.steps] == ["put", "launch", "get"]
        assert once.tensors[once.outputs[0]].type.shape == (1, 48, 14, 15)


@pytest.mark.parametrize("tier", ["t1", "t1c", "t1h", "t2", "t3"])
@pytest.mark.parametrize("storage", ["f32", "f16"])
def test_programs_give_the_same_bits_with_and_without(tier: str, storage: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 8, 29, 30)).astype(np.float32)
    model = network(size=(29, 30), batch=2)
    options = {"activations": storage, "weight_rounding": "off", "precision": "f16" if tier == "t1h" else "f32"}
    found = []
    for name in (f"{tier} + max pool", tier):
        path = tmp_path / "model.edge"
        with emulated(model, path, implementation=name, **options) as session:
            found.append(session.run({"x": x})["y"])
        bundle = read(path)
        assert name in {d.algorithm for d in read_plan(bundle, bundle.programs[0]).decisions}
    if tier == "t1h":  # the second convolution may take other chunks
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=2e-3 * np.abs(found[1]).max())
    else:
        assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.skipif(bool(missing(assembler=False)), reason=missing(assembler=False))
def test_both_routes_give_the_same_bits(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 28, 30)).astype(np.float32)
    found = []
    for route in ("direct", "template"):
        with emulated(network(), tmp_path / "model.edge", implementation="t1 + max pool", cuda_route=route) as session:
            found.append(session.run({"x": x})["y"].tobytes())
    assert found[0] == found[1]
