"""Records overrule the model, which still knows slow cores and shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Conv, MatMul
from packer.planner.costs import Costs, signature, uneven, work_of
from targets.base import Form, Layout, Work, resolve
from targets.machine import Machine

PLANAR = Layout.PLANAR
FORM = Form((PLANAR, PLANAR), (PLANAR,))
SHAPES = [TensorType(DType.F32, shape) for shape in ((1, 2048), (2048, 1024), (1, 1024))]
WORK = Work(MatMul(), (SHAPES[0], SHAPES[1]), (SHAPES[2],), (False, True))
_ROW = TensorType(DType.F32, (1, 100))
WORK_OF_ROW = Work(MatMul(), (TensorType(DType.F32, (1, 10)), TensorType(DType.F32, (10, 100))), (_ROW,), (False, True))
FAR = (0, 1 << 30, 0)  # weights from memory


def costs(machine: str, records: dict[str, float]) -> Costs:
    return Costs(resolve("cpu").on(Machine.load(machine)), records)


def seconds(which: Costs, core: int, active: int, distances: tuple[int, ...] = FAR) -> float:
    return which.seconds(WORK, FORM, (which.number(WORK), which.number(FORM)), distances, core, active)


def test_a_record_is_the_time_of_one_busy_fast_core() -> None:
    measured = costs("jetson-tx2", {signature(WORK, FORM): 0.5})
    assert seconds(measured, 0, 1) == pytest.approx(0.5)
    assert seconds(measured, 0, 1, (0, 0, 0)) == pytest.approx(0.5)
    assert seconds(measured, 5, 1) == pytest.approx(0.5 / measured.target.machine.speed(5))


def test_busy_neighbours_slow_a_record_as_they_slow_the_model() -> None:
    model, measured = costs("zen4-server", {}), costs("zen4-server", {signature(WORK, FORM): 0.5})
    slower = seconds(model, 0, 2) / seconds(model, 0, 1)
    assert slower > 1.05
    assert seconds(measured, 0, 2) == pytest.approx(0.5 * slower)


def test_the_model_answers_for_what_was_not_measured() -> None:
    other = Form((PLANAR, PLANAR), (PLANAR,), "another")
    measured, model = costs("zen4-server", {signature(WORK, other): 0.5}), costs("zen4-server", {})
    assert seconds(measured, 0, 1) == seconds(model, 0, 1)


def test_distances_are_told_apart_where_a_cache_ends() -> None:
    near, far = (0, 17 << 20, 0), (0, 24 << 20, 0)
    assert seconds(costs("zen4-server", {}), 0, 1, near) < seconds(costs("zen4-server", {}), 0, 1, far)


def test_work_tells_how_dense_its_weights_are() -> None:
    def work(zeros: int) -> Work:
        weights = np.arange(1000, dtype=np.float32).reshape(10, 100)
        weights[:, :zeros] = 0
        values = [Value("x", TensorType(DType.F32, (1, 10))), Value.constant("w", weights), Value("y", _ROW)]
        graph = Graph("g", ("x",), ("y",), (Node(MatMul(), ("x", "w"), ("y",)),), {v.name: v for v in values})
        return work_of(graph, graph.nodes[0])

    assert work(90).density == 0.1
    assert work(0).density == 1.0
    assert signature(work(0), FORM) == signature(WORK_OF_ROW, FORM)
    assert len({signature(work(zeros), FORM) for zeros in (0, 50, 90)}) == 3


@pytest.mark.parametrize(("op", "axis"), [(Conv((1,), (0, 0), (1,), 1), 0), (MatMul(), -1)])
def test_parts_know_their_own_density(op: Conv | MatMul, axis: int) -> None:
    """A quarter of the filters has half of its weights, the others a tenth of them. If all have about as many, parts
    are alike."""
    random = np.random.default_rng(0)
    filters = np.where(np.arange(128) < 32, 0.5, 0.1)
    for share, expected in ((filters, [0.5, 0.1]), (np.full(128, 0.2), [0.2, 0.2])):
        weights = (random.random((128, 600)) < share[:, None]).astype(np.float32)
        data = weights[:, :, None] if axis == 0 else weights.T
        x = TensorType(DType.F32, (1, 600, 5) if axis == 0 else (5, 600))
        values = [Value("x", x), Value.constant("w", data)]
        values.append(Value("y", op.infer([value.type for value in values])[0]))
        graph = Graph("g", ("x",), ("y",), (Node(op, ("x", "w"), ("y",)),), {v.name: v for v in values})
        assert (uneven(graph, graph.nodes[0]) is None) == (expected[0] == expected[1])
        assert work_of(graph, graph.nodes[0]).density == pytest.approx(0.2, abs=0.01)
        for span, density in zip([(0, 32), (32, 128)], expected, strict=True):
            box = ((0, 1), span, (0, 5)) if axis == 0 else ((0, 5), span)
            part = op.part(box, [graph.type("x"), graph.type("w")])
            work = work_of(graph, graph.nodes[0], part)
            assert work.density == pytest.approx(density, rel=0.03)
            assert work.of == (work_of(graph, graph.nodes[0]) if axis == 0 else None)
