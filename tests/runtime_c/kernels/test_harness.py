"""The harness itself: what surrounds a view is seen, and boxes are those of the format."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.types import DType, TensorType
from targets.base import Layout
from tests.runtime_c.kernels.harness import check_views, random_box, run_step, takes_views


def test_a_kernel_that_knows_no_views_is_caught() -> None:
    assert not takes_views("non_zero")
    x = np.zeros((3, 5), np.float32)
    outputs = [TensorType(DType.I64, (2, 15)), TensorType(DType.I64, (1,))]
    compact = run_step("non_zero", [x], outputs)
    with pytest.raises(AssertionError, match=r"outside the output|depend on what surrounds"):
        check_views("non_zero", [x], outputs, compact)


@pytest.mark.parametrize(
    ("layout", "shape", "blocked", "complete"),
    [
        (Layout.PLANAR, (3, 20, 5), (), ()),
        (Layout.BLOCK16, (2, 20, 5, 3), (1,), ()),
        (Layout.BLOCK16, (2, 32, 5), (1,), ()),
        (Layout.BLOCK16, (32,), (0,), ()),
        (Layout.WEIGHT16, (2, 20, 32, 3, 3), (1, 2), (3, 4)),
        (Layout.DEPTH16, (32, 3), (0,), (1,)),
    ],
)
def test_boxes(layout: Layout, shape: tuple[int, ...], blocked: tuple[int, ...], complete: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    boxes = [random_box(rng, shape, layout) for _ in range(200)]
    for axis, size in enumerate(shape):
        edges = {(box.begin[axis], box.whole[axis] - box.begin[axis] - size) for box in boxes}
        assert all(before >= 0 and behind >= 0 for before, behind in edges)
        assert (edges == {(0, 0)}) == (axis in complete)
        if axis in blocked:
            assert all(before % 16 == 0 and (size % 16 == 0 or behind == 0) for before, behind in edges)
