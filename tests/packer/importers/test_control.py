"""Functions, branches and loops are expanded while packing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from packer.errors import ModelError, UnsupportedOperators
from packer.importers import import_onnx
from packer.ir.ops import Where
from tests.packer.importers.models import check, info, model, noise, run

F32, I64, BOOL = np.float32, np.int64, np.bool_
X = noise(2, 3)


def node(op_type: str, inputs: list[str], outputs: list[str], **more: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **more)


def branch(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, "branch", [], [info(output, F32, None)])


THEN = branch([node("Neg", ["x"], ["t"])], "t")
ELSE = branch([node("Exp", ["x"], ["t"])], "t")


@pytest.mark.parametrize("taken", [True, False])
def test_a_constant_condition_takes_one_branch(taken: bool) -> None:
    built = model(
        [node("If", ["c"], ["y"], then_branch=THEN, else_branch=ELSE, name="choice")],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape)],
        initializers={"c": np.array(taken)},
    )
    graph = check(built, {"x": X})
    assert [n.sources for n in graph.nodes] == [("choice/then/Neg_0",) if taken else ("choice/else/Exp_0",)]


def test_the_branch_not_taken_may_be_unsupported() -> None:
    wrong = branch([node("Unique", ["x"], ["t"])], "t")
    built = model(
        [node("If", ["c"], ["y"], then_branch=THEN, else_branch=wrong)],
        [info("x", F32, X.shape)],
        [info("y", F32, None)],
        initializers={"c": np.array(True)},
    )
    assert len(import_onnx(built).nodes) == 1


def test_a_condition_on_data_selects() -> None:
    built = model(
        [node("If", ["c"], ["y"], then_branch=THEN, else_branch=ELSE)],
        [info("x", F32, X.shape), info("c", BOOL, [])],
        [info("y", F32, X.shape)],
    )
    for condition in (True, False):
        graph = check(built, {"x": X, "c": np.array(condition)})
    assert any(isinstance(n.op, Where) for n in graph.nodes)


def test_branches_of_different_shapes_on_data_are_refused() -> None:
    other = branch([node("ReduceSum", ["x"], ["t"])], "t")
    built = model(
        [node("If", ["c"], ["y"], then_branch=THEN, else_branch=other)],
        [info("x", F32, X.shape), info("c", BOOL, [])],
        [info("y", F32, None)],
    )
    with pytest.raises(UnsupportedOperators, match="branches of different shapes"):
        import_onnx(built)


def body(condition: list[onnx.NodeProto], *more: onnx.ValueInfoProto) -> onnx.GraphProto:
    """v_out = v * x + i; also gives v_out as a scan output."""
    nodes = [
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["v", "x"], ["m"]),
        node("Add", ["m", "f"], ["v_out"]),
        node("Identity", ["v_out"], ["each"]),
        *condition,
    ]
    inputs = [info("i", I64, []), info("c", BOOL, []), info("v", F32, X.shape)]
    return helper.make_graph(
        nodes, "body", inputs, [info("c_out", BOOL, []), info("v_out", F32, X.shape), info("each", F32, X.shape)]
    )


def looped(condition: list[onnx.NodeProto], **initializers: object) -> onnx.ModelProto:
    names = ["n" if "n" in initializers else "", "c0" if "c0" in initializers else "", "x"]
    return model(
        [node("Loop", names, ["y", "all"], body=body(condition))],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape), info("all", F32, None)],
        initializers={name: np.asarray(value) for name, value in initializers.items()},
    )


def test_a_loop_with_a_trip_count() -> None:
    check(looped([node("Identity", ["c"], ["c_out"])], n=np.int64(4), c0=True), {"x": X})


def test_a_loop_that_its_condition_ends() -> None:
    condition = [node("Constant", [], ["three"], value_int=3), node("Less", ["i", "three"], ["c_out"])]
    built = looped(condition, n=np.int64(100), c0=True)
    assert check(built, {"x": X}).type("all").shape == (4, 2, 3)


def test_a_loop_of_no_rounds_keeps_its_state() -> None:
    built = model(
        [node("Loop", ["n", "", "x"], ["y"], body=helper.make_graph(
            [node("Neg", ["v"], ["w"])], "body", [info("i", I64, []), info("c", BOOL, []), info("v", F32, X.shape)],
            [info("c", BOOL, []), info("w", F32, X.shape)],
        ))],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape)],
        initializers={"n": np.int64(0)},
    )  # fmt: skip
    (y,) = run(import_onnx(built), {"x": X})
    np.testing.assert_array_equal(y, X)


def test_a_loop_whose_condition_depends_on_data() -> None:
    condition = [node("ReduceSum", ["v_out"], ["s"], keepdims=0), node("Less", ["s", "f"], ["c_out"])]
    with pytest.raises(UnsupportedOperators, match="condition that depends on data"):
        import_onnx(looped(condition, n=np.int64(4), c0=True))


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan(backwards: int) -> None:
    step = helper.make_graph(
        [node("Add", ["s", "e"], ["s_out"]), node("Neg", ["s_out"], ["z"])],
        "step",
        [info("s", F32, [2]), info("e", F32, [2])],
        [info("s_out", F32, [2]), info("z", F32, [2])],
    )
    built = model(
        [node("Scan", ["s0", "x"], ["s", "z"], body=step, num_scan_inputs=1, scan_input_axes=[1],
              scan_input_directions=[backwards], scan_output_axes=[-1], scan_output_directions=[1 - backwards])],
        [info("s0", F32, [2]), info("x", F32, X.shape)],
        [info("s", F32, None), info("z", F32, None)],
    )  # fmt: skip
    check(built, {"s0": noise(2, seed=3), "x": X})


def function(name: str, inputs: list[str], nodes: list[onnx.NodeProto], **more: object) -> onnx.FunctionProto:
    return helper.make_function("local", name, inputs, ["y"], nodes, [helper.make_opsetid("", 21)], **more)


def test_functions_of_the_model_with_attributes() -> None:
    leaky = node("LeakyRelu", ["x"], ["y"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    built = model(
        [node("F", ["x"], ["a"], domain="local", slope=0.5), node("F", ["a"], ["y"], domain="local", name="second")],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape)],
        functions=[function("F", ["x"], [leaky], attribute_protos=[helper.make_attribute("slope", 0.25)])],
    )
    built.opset_import.append(helper.make_opsetid("local", 1))
    graph = check(built, {"x": X})
    assert [n.sources[0] for n in graph.nodes] == ["F_0/LeakyRelu_0", "second/LeakyRelu_0"]


def test_functions_with_operands_left_out() -> None:
    built = model(
        [node("F", ["x"], ["y"], domain="local")],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape)],
        functions=[function("F", ["x", "low"], [node("Clip", ["x", "low"], ["y"])])],
    )
    (y,) = run(import_onnx(built), {"x": X})
    np.testing.assert_array_equal(y, X)


def test_a_body_sees_the_graph_around_it_but_a_function_does_not() -> None:
    built = model(
        [node("Neg", ["x"], ["outer"]), node("F", ["x"], ["y"], domain="local")],
        [info("x", F32, X.shape)],
        [info("y", F32, X.shape)],
        functions=[function("F", ["x"], [node("Add", ["x", "outer"], ["y"])])],
    )
    with pytest.raises(ModelError, match="'outer' is used before it is defined"):
        import_onnx(built)
