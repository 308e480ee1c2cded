"""make_products: the same sums, exactly, as matrix products where convolutions have one position."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import Graph
from packer.ir.ops import Activation, Binary, Conv, MatMul, Reduce, Reshape
from packer.passes import optimize
from packer.passes.make_products import make_products
from tests.packer.passes.sketch import Sketch

POINT = Conv((1, 1), (0,) * 4, (1, 1))


def kinds(graph: Graph) -> list[str]:
    return [type(node.op).__name__ for node in graph.nodes]


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("extents", [(1, 1), (3, 2), (1,), (4,), (1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_whole_images_become_rows(images: int, extents: tuple[int, ...], bias: bool) -> None:
    sketch, rank = Sketch(), len(extents)
    op = Conv((1,) * rank, (0,) * (2 * rank), (1,) * rank, 1, Activation("relu"))
    terms = [sketch.constant(20)] if bias else []
    sketch.add(op, sketch.input(images, 12, *extents), sketch.constant(20, 12, *extents), *terms)
    _, after = sketch.check(make_products)
    assert kinds(after) == ["Reshape", "MatMul", "Reshape"]
    product = after.nodes[1]
    assert product.op == MatMul(Activation("relu"))
    assert [after.type(name or "").shape for name in product.inputs[:2]] == [
        (images, 12 * int(np.prod(extents))),
        (12 * int(np.prod(extents)), 20),
    ]


@pytest.mark.parametrize("strides", [(2, 2), (7, 3)])
def test_strides_and_unread_dilations_do_not_matter(strides: tuple[int, int]) -> None:
    sketch = Sketch()
    sketch.add(Conv(strides, (0,) * 4, (3, 5)), sketch.input(1, 12, 1, 1), sketch.constant(20, 12, 1, 1))
    _, after = sketch.check(make_products)
    assert kinds(after) == ["Reshape", "MatMul", "Reshape"]


def test_a_residual_is_what_is_added() -> None:
    sketch = Sketch()
    x, w = sketch.input(2, 12, 1, 1), sketch.constant(20, 12, 1, 1)
    sketch.add(POINT, x, w, None, sketch.input(2, 20, 1, 1))
    _, after = sketch.check(make_products)
    assert kinds(after) == ["Reshape", "Reshape", "MatMul", "Reshape"]
    assert len(after.nodes[2].inputs) == 3


def test_weights_of_several_stay_one_constant() -> None:
    sketch = Sketch()
    w = sketch.constant(12, 12, 1, 1)
    first = sketch.add(POINT, sketch.input(1, 12, 1, 1), w)
    sketch.add(POINT, first, w)
    _, after = sketch.check(make_products)
    assert len({node.inputs[1] for node in after.nodes if isinstance(node.op, MatMul)}) == 1


def test_what_stays_a_convolution() -> None:
    def one(op: Conv, x: tuple[int, ...], w: tuple[int, ...], *, constant: bool = True, both: bool = False) -> None:
        sketch = Sketch()
        terms = [sketch.constant(w[0]), sketch.input(x[0], w[0], 1, 1)] if both else []
        sketch.add(op, sketch.input(*x), sketch.constant(*w) if constant else sketch.input(*w), *terms)
        before, after = sketch.check(make_products)
        assert after is before

    one(POINT, (1, 12, 1, 2), (20, 12, 1, 1))  # two positions
    one(POINT, (1, 12, 3, 3), (20, 12, 3, 2))
    one(Conv((1, 1), (0,) * 4, (1, 1), 2), (1, 12, 1, 1), (20, 6, 1, 1))  # groups
    one(Conv((2, 2), (1, 1, 1, 1), (1, 1)), (1, 12, 1, 1), (20, 12, 3, 3))  # padding
    one(POINT, (1, 12, 1, 1), (20, 12, 1, 1), constant=False)
    one(POINT, (1, 12, 1, 1), (20, 12, 1, 1), both=True)


def test_no_images() -> None:
    sketch = Sketch()
    sketch.add(POINT, sketch.input(0, 12, 1, 1), sketch.constant(20, 12, 1, 1))
    before, after = sketch.check(make_products)
    assert after is before


def test_gates_of_squeeze_and_excitation() -> None:
    """Between the mean and the gate's product there are two matrix products, and no reshape between them is left."""
    sketch = Sketch()
    x = sketch.input(1, 32, 6, 6)
    mean = sketch.add(Reduce("mean", (2, 3)), x)
    relu, sigmoid = (Conv((1, 1), (0,) * 4, (1, 1), 1, Activation(kind)) for kind in ("relu", "sigmoid"))
    narrow = sketch.add(relu, mean, sketch.constant(8, 32, 1, 1), sketch.constant(8))
    wide = sketch.add(sigmoid, narrow, sketch.constant(32, 8, 1, 1), sketch.constant(32))
    y = sketch.add(Binary("mul"), x, wide)
    after = optimize(Graph("g", tuple(sketch.inputs), (y,), tuple(sketch.nodes), sketch.values))
    made = [node for node in after.nodes if not isinstance(node.op, Reshape)]
    assert [type(node.op).__name__ for node in made] == ["Reduce", "MatMul", "MatMul", "Binary"]
    assert made[2].inputs[0] == made[1].outputs[0]


def test_many_sparse_rows_are_pixels() -> None:
    """Images of one position become rows, and rows with sparse weights the pixels of one image."""
    sketch = Sketch()
    weights = sketch.rng.integers(1, 9, (20, 12, 1, 1)) * (sketch.rng.random((20, 12, 1, 1)) < 0.2)
    y = sketch.add(POINT, sketch.input(64, 12, 1, 1), sketch.given(weights, np.float32))
    after = optimize(Graph("g", tuple(sketch.inputs), (y,), tuple(sketch.nodes), sketch.values))
    (conv,) = (node for node in after.nodes if isinstance(node.op, Conv))
    assert after.type(conv.outputs[0]).shape[2] * after.type(conv.outputs[0]).shape[3] == 64
