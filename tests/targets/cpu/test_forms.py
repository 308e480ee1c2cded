"""Which forms operators have, and which of them give the same bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from packer.importers.onnx import import_onnx
from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Recurrent
from packer.planner.costs import work_of
from targets.base import Form, Layout, resolve

PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16


def graph(op: str, shape: tuple[int, ...], weights: np.ndarray | None = None, **attributes: object) -> Graph:
    inputs = ["x"] if weights is None else ["x", "w"]
    made = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))],
        [] if weights is None else [numpy_helper.from_array(weights, "w")],
    )
    model: onnx.ModelProto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)])
    return import_onnx(model)


def forms(found: Graph) -> tuple[Form, ...]:
    return resolve("cpu").forms(found, found.nodes[0])


def planar(found: Graph) -> list[Form]:
    return [form for form in forms(found) if form.inputs[0] is form.outputs[0] is PLANAR]


def test_spatial_means_of_planar_rows_add_in_another_order() -> None:
    found = forms(graph("GlobalAveragePool", (1, 40, 7, 7)))
    assert {form.arithmetic for form in found if form.inputs[0] is BLOCK16} == {""}
    assert {form.arithmetic for form in found if form.inputs[0] is PLANAR} == {"rows"}


def test_spatial_maxima_are_the_same_in_every_form() -> None:
    found = forms(graph("GlobalMaxPool", (1, 40, 7, 7)))
    assert {form.inputs[0] for form in found} == {PLANAR, BLOCK16}
    assert {form.arithmetic for form in found} == {""}


def test_depthwise_over_planar_rows_gives_the_bits_of_blocks() -> None:
    weights = np.ones((8, 1, 3, 3), np.float32)
    found = planar(graph("Conv", (1, 8, 9, 9), weights, group=8))
    assert ("depthwise-planar", "") in {(form.implementation, form.arithmetic) for form in found}


def test_depthwise_lists_need_few_taps_and_finite_weights() -> None:
    infinite = np.ones((8, 1, 3, 3), np.float32)
    infinite[3] = np.inf
    for weights in (np.ones((8, 1, 16, 16), np.float32), infinite):
        names = {form.implementation for form in planar(graph("Conv", (1, 8, 20, 20), weights, group=8))}
        assert "depthwise" in names
        assert "depthwise-planar" not in names


def test_few_filters_of_a_group_may_be_a_stream_whatever_they_hold() -> None:
    def implementations(filters: int, groups: int, kernel: int) -> set[str]:
        weights = np.ones((filters * groups, 4, kernel, kernel), np.float32)
        return {form.implementation for form in forms(graph("Conv", (1, 4 * groups, 8, 8), weights, group=groups))}

    for most, kernel in ((3, 1), (8, 3)):
        assert "sparse" in implementations(1, 1, kernel) & implementations(most, 1, kernel)
        assert "sparse" in implementations(most, 3, kernel)
        assert "sparse" not in implementations(most + 1, 1, kernel) | implementations(most + 1, 3, kernel)


def test_single_zeros_of_a_matrix_may_be_masked_and_blocks_are_a_stream() -> None:
    random = np.random.default_rng(0)
    dense, single, blocks = random.random((3, 64, 64), np.float32) + 1
    single[random.random((64, 64)) < 0.5] = 0
    blocks[random.random((64, 16)).repeat(4, 1) < 0.5] = 0
    graphs, target = [graph("MatMul", (1, 64), w) for w in (dense, single, blocks)], resolve("cpu-x86_64-avx512")
    names = [{form.implementation for form in target.forms(found, found.nodes[0])} for found in graphs]
    assert names == [{""}, {"packed", "sparse", "masked", "sliced"}, {"packed", "sparse"}]
    dense[:, ::5] = 0
    assert "masked" not in {form.implementation for form in forms(graph("MatMul", (1, 64), dense))}, "too few zeros"
    reduced = resolve("cpu", precision="f16")
    found = graph("MatMul", (1, 64), single)
    assert "masked-f16" in {form.implementation for form in reduced.forms(found, found.nodes[0])}
    single[3, 3] = 1e9
    found = graph("MatMul", (1, 64), single)
    assert "masked" in {form.implementation for form in reduced.forms(found, found.nodes[0])}


def test_slices_need_large_vectors_float32_and_a_window() -> None:
    weights = np.random.default_rng(0).random((64, 64), np.float32)
    weights[weights < 0.5] = 0

    def offered(target: str, weights: np.ndarray, precision: str = "f32") -> bool:
        found = graph("MatMul", (1, len(weights)), weights)
        ways = resolve(target, precision=precision).forms(found, found.nodes[0])
        return "sliced" in {form.arithmetic for form in ways}

    assert offered("cpu-x86_64-avx512", weights)
    assert not offered("cpu-jetson-tx2", weights)
    assert not offered("cpu-x86_64-avx512", weights, "bf16")
    assert not offered("cpu-x86_64-avx512", weights[:15])
    weights[0, 0] = np.inf
    assert not offered("cpu-x86_64-avx512", weights)


@pytest.mark.parametrize(("w", "r", "sliced"), [(0.1, 0.1, True), (0.1, 0.9, False), (0.9, 0.1, False)])
def test_recurrent_layers_of_which_both_weights_are_sparse_may_be_slices(w: float, r: float, sliced: bool) -> None:
    random, op = np.random.default_rng(0), Recurrent("gru", "forward", 32, ("sigmoid", "tanh"), (0.0,) * 2, (0.0,) * 2)
    values = [Value("x", TensorType(DType.F32, (7, 1, 32)))]
    for name, density in (("w", w), ("r", r)):
        values.append(Value.constant(name, (random.random((1, 96, 32)) < density).astype(np.float32)))
    values += [Value(f"y{i}", type) for i, type in enumerate(op.infer([value.type for value in values]))]
    node = Node(op, ("x", "w", "r"), ("y0", "y1"))
    found = Graph("g", ("x",), ("y0", "y1"), (node,), {value.name: value for value in values})
    target = resolve("cpu-x86_64-avx512")
    assert ([form.implementation for form in target.forms(found, node)] == ["packed", "sliced"]) == sliced
    assert work_of(found, node).density == pytest.approx((w + r) / 2, abs=0.02)
