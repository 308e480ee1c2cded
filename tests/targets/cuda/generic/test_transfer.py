"""Staging memory to values and back."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from targets.cuda.array import Array
from targets.cuda.generic.transfer import get, put
from tests.targets.cuda.generic.check import laid
from tests.targets.cuda.launch import run

RNG = np.random.default_rng(43)
SHAPES = [(), (5,), (3, 1001), (1, 3, 16, 20), (2, 3, 5, 7), (1, 1, 1, 1), (2, 3, 2, 3, 4)]


@pytest.mark.parametrize("device", [DType.F32, DType.F16, DType.I64, DType.U8])
@pytest.mark.parametrize("halo", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_put_can_be_got(shape: tuple[int, ...], halo: bool, device: DType) -> None:
    host = DType.F32 if device is DType.F16 else device
    staging, value = Array.dense(host, shape), laid(device, shape, halo)
    data = RNG.integers(-100, 100, shape).astype(host.numpy)
    if host is DType.F32:
        data = (data * 1.01).astype(np.float32)
    (there,) = run(put(staging, value), [(staging, data)], [value])
    np.testing.assert_array_equal(there, data.astype(device.numpy))
    (back,) = run(get(value, staging), [(value, there)], [staging])
    np.testing.assert_array_equal(back, there.astype(host.numpy))


def test_an_empty_value_needs_no_kernel() -> None:
    empty = Array.dense(DType.F32, (0, 3))
    assert put(empty, empty).kernels == get(empty, empty).kernels == ()
