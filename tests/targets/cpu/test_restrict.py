"""Steps of parts: what the whole's form adds stays, what the part's operator lacks goes."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Activation, Conv, MatMul
from targets.base import Attribute, Form, attributes_of, resolve

TARGET = resolve("cpu")


def convolution() -> tuple[Graph, Node]:
    weights = np.ones((40, 64, 3, 3), np.float32)
    weights[:, ::3] = 0
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu"))
    values = [Value("x", TensorType(DType.F32, (1, 64, 9, 28))), Value.constant("w", weights)]
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w"), ("y",))
    return Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values}), node


def form_of(graph: Graph, node: Node, implementation: str) -> Form:
    return next(form for form in TARGET.forms(graph, node) if form.implementation == implementation)


def test_partial_sums_have_no_activation() -> None:
    graph, node = convolution()
    form = form_of(graph, node, "packed")
    part = node.op.partial(0, 32, [graph.type("x"), graph.type("w")])
    step = TARGET.restrict(graph, node, form, TARGET.lower(graph, node, form), part)
    assert {attribute.name for attribute in step.attributes} == {"strides", "pads", "dilations", "group"}


@pytest.mark.parametrize("filters", [(0, 16), (16, 40), (32, 40)])
def test_parts_of_a_stream(filters: tuple[int, int]) -> None:
    graph, node = convolution()
    form = form_of(graph, node, "sparse")
    whole = TARGET.lower(graph, node, form)
    part = node.op.part(((0, 1), filters, (3, 6), (0, 28)), [graph.type("x"), graph.type("w")])
    step = TARGET.restrict(graph, node, form, whole, part)
    x, values, indices, counts, starts = step.inputs
    assert x is not None
    assert x.box == ((0, 1), (0, 64), (2, 7), (0, 28))
    for operand, source in ((values, whole.inputs[1]), (indices, whole.inputs[2])):
        assert operand is not None
        assert source is not None
        assert operand.data is source.data
        assert operand.box == ((0, len(operand.data)),)  # type: ignore[arg-type]
    assert counts is not None
    assert starts is not None
    assert counts.box is not None
    assert starts.box is not None
    (together,) = (a.ints[0] for a in step.attributes if a.name == "together")
    assert counts.box[1:] == ((filters[0] // together, filters[1] // together), (0, 3))
    assert starts.box[1] == (filters[0] // 16, -(-filters[1] // 16))
    names = {attribute.name for attribute in step.attributes}
    assert {"channels", "kernel", "rows", "activation"} <= names
    assert Attribute("pads", ints=(0, 1, 0, 1)) in step.attributes


@pytest.mark.parametrize(("columns", "blocks"), [((0, 16), (0, 4)), ((16, 70), (4, 18)), ((64, 70), (16, 18))])
def test_parts_of_masks(columns: tuple[int, int], blocks: tuple[int, int]) -> None:
    weights = np.ones((50, 70), np.float32)
    weights[::2] = 0
    op = MatMul(Activation("relu"))
    values = [Value("x", TensorType(DType.F32, (3, 50))), Value.constant("w", weights)]
    values.append(Value.constant("b", np.ones(70, np.float32)))
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w", "b"), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values})
    form = form_of(graph, node, "masked")
    whole = TARGET.lower(graph, node, form)
    part = op.part(((1, 3), columns), [value.type for value in values[:3]])
    step = TARGET.restrict(graph, node, form, whole, part)
    assert step.kernel == "linear_masked"
    boxes = [operand.box for operand in step.inputs if operand is not None]
    assert boxes == [((1, 3), (0, 50)), ((0, 1700 + 256),), (blocks, (0, 4), (0, 4)), (blocks,), (columns,)]
    assert step.attributes == attributes_of(op)


@pytest.mark.parametrize(("columns", "slices"), [((0, 16), (0, 1)), ((16, 70), (1, 5)), ((64, 70), (4, 5))])
def test_parts_of_slices(columns: tuple[int, int], slices: tuple[int, int]) -> None:
    op, weights = MatMul(Activation("relu")), np.eye(50, 70, dtype=np.float32)
    values = [Value("x", TensorType(DType.F32, (3, 50))), Value.constant("w", weights)]
    values.append(Value.constant("b", np.ones(70, np.float32)))
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w", "b"), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values})
    target = resolve("cpu-x86_64-avx512")
    form = next(form for form in target.forms(graph, node) if form.implementation == "sliced")
    part = op.part(((1, 3), columns), [value.type for value in values[:3]])
    step = target.restrict(graph, node, form, target.lower(graph, node, form), part)
    assert step.kernel == "linear_sliced"
    boxes = [operand.box for operand in step.inputs if operand is not None]
    steps = 4  # each has the diagonal of a slice
    assert boxes == [
        ((1, 3), (0, 50)), ((0, 16 * steps),), ((0, 8 * steps),), ((0, steps),), (slices, (0, 2)), (columns,)
    ]  # fmt: skip
    assert step.attributes == attributes_of(op)


@pytest.mark.parametrize(
    ("group", "filters", "read"), [(1, (16, 40), ((0, 1), (16, 40))), (2, (20, 40), ((1, 2), (0, 20)))]
)
def test_parts_of_lines(group: int, filters: tuple[int, int], read: tuple[tuple[int, int], ...]) -> None:
    op = Conv((2, 2), (3, 3, 3, 3), (1, 2), group)
    values = [Value("x", TensorType(DType.F32, (1, 3 * group, 19, 21)))]
    values.append(Value.constant("w", np.ones((40, 3, 7, 5), np.float32)))
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    node = Node(op, ("x", "w"), ("y",))
    graph = Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values})
    target = resolve("cpu", precision="bf16")
    form = next(form for form in target.forms(graph, node) if form.implementation == "lines-bf16")
    part = op.part(((0, 1), filters, (4, 8), (0, 10)), [value.type for value in values[:2]])
    step = target.restrict(graph, node, form, target.lower(graph, node, form), part)
    assert step.kernel == "conv_bf16"
    assert step.inputs[1] is not None
    assert step.inputs[1].box == (*read, (0, 28), (0, 7))  # 3 inputs of each of (5 - 1) * 2 + 1 columns, and a zero
    assert Attribute("kernel", ints=(7, 5)) in step.attributes
    assert Attribute("pads", ints=(0, 4, 0, 4)) in step.attributes


def test_a_stream_is_made_once() -> None:
    graph, node = convolution()
    form = form_of(graph, node, "sparse")
    first, second = (TARGET.on(TARGET.machine.sized(n)).lower(graph, node, form) for n in (1, 3))
    for a, b in zip(first.inputs[1:], second.inputs[1:], strict=True):
        assert a is not None
        assert b is not None
        assert a.data is b.data
