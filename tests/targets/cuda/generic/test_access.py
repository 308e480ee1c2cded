"""Walks over boxes, and elements of every type moved by kernels."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from targets.cuda.array import Array
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import Walk, address, kernel, load, offsets, store, strides_over
from targets.cuda.kernel import Code
from tests.targets.cuda.launch import run

RNG = np.random.default_rng(41)


@pytest.mark.parametrize(
    ("shape", "strides", "extents", "merged"),
    [
        ((2, 3, 4), [(12, 4, 1)], (24,), ((1,),)),
        ((2, 3, 4), [(12, 4, 1), (0, 4, 1)], (2, 12), ((12, 1), (0, 1))),
        ((2, 1, 4), [(7, 99, 1)], (2, 4), ((7, 1),)),
        ((2, 3, 4), [(24, 8, 2)], (24,), ((2,),)),
        ((2, 3), [(-3, -1)], (6,), ((-1,),)),
        ((1, 1), [(5, 6), (7, 8)], (), ((), ())),
    ],
)
def test_a_walk_has_no_more_dimensions_than_it_needs(
    shape: tuple[int, ...], strides: list[tuple[int, ...]], extents: tuple[int, ...], merged: tuple[tuple[int, ...]]
) -> None:
    walk = Walk.over(shape, *strides)
    assert (walk.extents, walk.strides) == (extents, merged)
    assert walk.elements == np.prod(shape)


def copy(source: Array, target: Array, strides: tuple[int, ...], origin: int) -> Code:
    walk = Walk.over(target.shape, strides, target.strides)

    def body(b: Builder, index: str) -> None:
        begin, end = offsets(b, walk, index, (origin, target.origin))
        value = load(b, source.dtype, address(b, "x", begin, source.dtype))
        store(b, target.dtype, address(b, "y", end, target.dtype), value)

    return Code((kernel("copy", ("x", "y"), walk.elements, body),), (0,))


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.BF16])
def test_elements_of_every_type_are_moved(dtype: DType) -> None:
    target = Array(dtype, (2, 3, 5, 7), (216, 72, 9, 1), 10)
    source = Array.dense(dtype, (3, 1, 7))
    data = RNG.integers(0, 256, 21 * dtype.bytes).astype(np.uint8).view(dtype.numpy).reshape(source.shape)
    if dtype is DType.BOOL:
        data = data.view(np.uint8) % 2 == 1
    if dtype.numpy.kind == "f":
        data = RNG.standard_normal(source.shape).astype(dtype.numpy)
    (found,) = run(copy(source, target, strides_over(source, target.shape), 0), [(source, data)], [target])
    np.testing.assert_array_equal(found, np.broadcast_to(data, target.shape))


@pytest.mark.parametrize("count", [1, 255, 256, 1000])
def test_steps_may_lead_backwards(count: int) -> None:
    array = Array.dense(DType.F32, (count,))
    data = RNG.standard_normal(count).astype(np.float32)
    (found,) = run(copy(array, array, (-1,), count - 1), [(array, data)], [array])
    np.testing.assert_array_equal(found, data[::-1])


@pytest.mark.parametrize(("stored", "widened"), [(DType.F16, DType.F32), (DType.F32, DType.F16)])
def test_halves_become_floats_and_floats_halves(stored: DType, widened: DType) -> None:
    source, target = Array.dense(stored, (3, 50)), Array.dense(widened, (3, 50))
    with np.errstate(over="ignore"):
        data = (RNG.standard_normal((3, 50)) * 10.0 ** RNG.integers(-9, 7, (3, 50))).astype(stored.numpy)
    (found,) = run(copy(source, target, source.strides, 0), [(source, data)], [target])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, data.astype(widened.numpy))
