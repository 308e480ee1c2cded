"""make_pointwise: the same sums, exactly, as convolutions of one tap where matrices are sparse and rows are many."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import Graph
from packer.ir.ops import Activation, Conv, MatMul, Reshape, Transpose
from packer.passes import optimize
from packer.passes.make_pointwise import make_pointwise
from tests.packer.passes.sketch import Sketch

RELU = MatMul(Activation("relu"))


def sparse(sketch: Sketch, rows: int, columns: int, zeros: float, dtype: type = np.float32) -> str:
    data = sketch.rng.integers(1, 9, (rows, columns))
    data.reshape(-1)[sketch.rng.permutation(data.size)[: round(zeros * data.size)]] = 0
    return sketch.given(data, dtype)


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


@pytest.mark.parametrize("shape", [(70, 12), (1, 70, 12), (5, 14, 12), (2, 5, 7, 12), (1, 1, 1, 70, 12)])
def test_rows_become_pixels(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    sketch.add(RELU, sketch.input(*shape), sparse(sketch, 12, 20, 0.6), sketch.constant(20))
    _, after = sketch.check(make_pointwise)
    assert kinds(after) == ["Reshape", "Transpose", "Conv", "Transpose", "Reshape"]
    (conv,) = (node for node in after.nodes if isinstance(node.op, Conv))
    assert [after.type(name or "").shape for name in conv.inputs] == [(1, 12, 1, 70), (20, 12, 1, 1), (20,)]
    assert conv.op.activation == RELU.activation  # type: ignore[union-attr]


def test_images_keep_their_extents() -> None:
    sketch = Sketch()
    sketch.add(MatMul(), sketch.input(1, 7, 10, 12), sparse(sketch, 12, 20, 0.6))
    _, after = sketch.check(make_pointwise)
    assert kinds(after) == ["Transpose", "Conv", "Transpose"]
    assert after.type(after.nodes[1].inputs[0] or "").shape == (1, 12, 7, 10)


@pytest.mark.parametrize("shape", [(20,), (1,), (), (1, 20), (1, 1, 1)])
def test_biases_of_columns_and_scalar_ones(shape: tuple[int, ...]) -> None:
    sketch = Sketch()
    x, w = sketch.input(3, 30, 12), sparse(sketch, 12, 20, 0.6)
    sketch.add(MatMul(), x, w, sketch.constant(*shape))
    sketch.add(MatMul(), x, w, sketch.constant(*shape))
    _, after = sketch.check(make_pointwise)
    assert kinds(after).count("Conv") == 2
    assert len({node.inputs[1] for node in after.nodes if isinstance(node.op, Conv)}) == 1, "weights are shared"


@pytest.mark.parametrize("shape", [(70, 12), (2, 40, 12), (1, 7, 10, 12)])
@pytest.mark.parametrize("constant", [False, True])
def test_terms_like_the_output_are_residuals(shape: tuple[int, ...], constant: bool) -> None:
    sketch = Sketch()
    x, term = sketch.input(*shape), (*shape[:-1], 20)
    sketch.add(RELU, x, sparse(sketch, 12, 20, 0.6), sketch.constant(*term) if constant else sketch.input(*term))
    _, after = sketch.check(make_pointwise)
    (conv,) = (node for node in after.nodes if isinstance(node.op, Conv))
    assert conv.inputs[2] is None
    assert after.type(conv.inputs[3] or "") == after.type(conv.outputs[0])


def test_a_stream_of_residuals_stays_transposed() -> None:
    sketch = Sketch()
    x = sketch.input(1, 80, 12)
    first = sketch.add(MatMul(), sketch.input(1, 80, 24), sparse(sketch, 24, 12, 0.6), x)
    y = sketch.add(MatMul(), sketch.input(1, 80, 24), sparse(sketch, 24, 12, 0.6), first)
    after = optimize(Graph("g", tuple(sketch.inputs), (y,), tuple(sketch.nodes), sketch.values))
    assert kinds(after).count("Conv") == 2
    assert kinds(after).count("Transpose") == 4, "of the inputs and of the output alone"


def test_layers_that_follow_one_another_stay_transposed() -> None:
    sketch = Sketch()
    hidden = sketch.add(RELU, sketch.input(1, 80, 12), sparse(sketch, 12, 24, 0.6), sketch.constant(24))
    y = sketch.add(MatMul(), hidden, sparse(sketch, 24, 12, 0.6))
    after = optimize(Graph("g", tuple(sketch.inputs), (y,), tuple(sketch.nodes), sketch.values))
    assert kinds(after).count("Conv") == 2
    assert sum(isinstance(node.op, Transpose) for node in after.nodes) == 2
    assert sum(isinstance(node.op, Reshape) for node in after.nodes) == 2


@pytest.mark.parametrize(
    ("rows", "zeros", "dtype"),
    [
        (15, 0.95, np.float32),
        (16, 0.65, np.float32),
        (31, 0.65, np.float32),
        (63, 0.55, np.float32),
        (64, 0.45, np.float32),
        (80, 0.9, np.int32),
    ],
)
def test_few_rows_many_weights_and_integers_stay_products(rows: int, zeros: float, dtype: type) -> None:
    sketch = Sketch()
    sketch.add(MatMul(), sketch.input(1, rows, 20, dtype=dtype), sparse(sketch, 20, 20, zeros, dtype))
    before, after = sketch.check(make_pointwise)
    assert after is before


@pytest.mark.parametrize(("rows", "zeros"), [(16, 0.7), (32, 0.6), (64, 0.5)])
def test_from_so_many_rows_and_zeros_on(rows: int, zeros: float) -> None:
    sketch = Sketch()
    sketch.add(MatMul(), sketch.input(1, rows, 20), sparse(sketch, 20, 20, zeros))
    assert "Conv" in kinds(sketch.check(make_pointwise)[1])


def test_what_is_no_layer_stays() -> None:
    """Biases of rows, matrices that are not constant, batches of matrices, vectors."""
    sketch = Sketch()
    x, w = sketch.input(1, 70, 20), sparse(sketch, 20, 20, 0.9)
    sketch.add(MatMul(), x, w, sketch.constant(70, 1))
    sketch.add(MatMul(), x, w, sketch.input(20))
    sketch.add(MatMul(), x, sketch.input(20, 20))
    sketch.add(MatMul(), x, sketch.given(np.eye(20)[None]))
    sketch.add(MatMul(), sketch.input(20), w)
    before, after = sketch.check(make_pointwise)
    assert after is before
