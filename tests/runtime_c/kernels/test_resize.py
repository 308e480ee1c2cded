"""resize against the operator's numpy reference, and nearest resizing against ONNX's own rules on exact ties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from packer.ir.ops import Resize
from packer.ir.types import DType, TensorType
from targets.base import Layout, attributes_of
from tests.runtime_c.kernels.harness import Rejected, check_op, random_array, run_step

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SHAPES = (
    ((1, 3, 5, 7), (1, 3, 10, 14)), ((2, 17, 6, 9), (2, 17, 3, 4)), ((1, 2, 4, 4), (1, 2, 1, 9)),
    ((1, 1, 1, 1), (1, 1, 3, 1)), ((1, 3, 9, 12), (1, 3, 17, 23)),
    ((1, 4, 3, 2), (1, 4, 9, 2)), ((1, 4, 3, 2), (1, 4, 3, 7)), ((1, 20, 5, 5), (1, 20, 5, 5)),
)  # fmt: skip


def resize(x: np.ndarray, shape: tuple[int, ...], **fields: object) -> Resize:
    scales = tuple(out / n for out, n in zip(shape, x.shape, strict=True))
    if fields.get("coordinate") == "tf_crop_and_resize":
        fields["roi"] = (0.0,) * x.ndim + (1.0,) * x.ndim if x.ndim != 4 else (0, 0, -0.125, 0.25, 1, 1, 0.75, 1.125)
        fields["extrapolation"] = 7.0
    return Resize(shape, scales, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_nearest(coordinate: str) -> None:
    rng = np.random.default_rng(1)
    for (shape, out), rounding in itertools.product(SHAPES, ROUNDINGS):
        dtype = rng.choice([np.float32, np.uint8, np.int16, np.int64])
        x = random_array(rng, shape, dtype)
        check_op(resize(x, out, coordinate=coordinate, nearest=rounding), [x], "resize")


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_mixing(mode: str, coordinate: str) -> None:
    rng = np.random.default_rng(2)
    for (shape, out), exclude, antialias in itertools.product(SHAPES, (False, True), (False, True)):
        x = random_array(rng, shape, np.float32)
        op = resize(
            x, out, mode=mode, coordinate=coordinate, exclude_outside=exclude, antialias=antialias, cubic_a=-0.5
        )
        check_op(op, [x], "resize", 1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_any_rank_and_axes(mode: str) -> None:
    rng = np.random.default_rng(3)
    for shape, out in (
        ((9,), (4,)), ((5, 6), (5, 3)), ((5, 6), (10, 6)), ((2, 3, 8), (2, 3, 5)), ((1, 2, 3, 4, 5), (1, 2, 6, 3, 7)),
        ((4, 3, 5, 2), (7, 6, 4, 3)), ((1, 6, 5, 3), (1, 12, 10, 3)), ((1, 2, 2, 2, 2, 2, 2), (1, 2, 3, 2, 1, 5, 2)),
    ):  # fmt: skip
        x = random_array(rng, shape, np.float32)
        check_op(resize(x, out, mode=mode), [x], "resize", 1e-5 if mode != "nearest" else 0)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_blocks_of_channels(mode: str) -> None:
    rng = np.random.default_rng(4)
    for channels, coordinate in itertools.product((1, 16, 19, 32), ("half_pixel", "asymmetric", "align_corners")):
        x = random_array(rng, (2, channels, 5, 6), np.float32)
        for out in ((10, 12), (3, 6), (5, 9), (7, 4)):
            op = resize(x, (2, channels, *out), mode=mode, coordinate=coordinate)
            check_op(op, [x], "resize", 1e-5 if mode != "nearest" else 0, layouts=Layout.BLOCK16)
            if mode == "nearest":
                check_op(op, [(np.abs(x) * 99 % 256).astype(np.uint8)], "resize", 0, layouts=Layout.BLOCK16)


def test_scales_that_are_no_ratio() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 1, 4, 8)
    for mode, coordinate in itertools.product(("linear", "cubic"), COORDINATES[:5]):
        scale = float(np.float32(0.6))
        check_op(Resize((1, 1, 2, 4), (1, 1, scale, scale), mode=mode, coordinate=coordinate), [x], "resize", 1e-5)


def test_ratio_ties_are_exact() -> None:
    """7/3 is no float32, yet input 3 must be found at output 7."""
    for n, out in ((3, 7), (10, 23), (49, 31), (100, 37)):
        x = np.arange(n, dtype=np.int32)
        check_op(resize(x, (out,), coordinate="asymmetric", nearest="floor"), [x], "resize")
        check_op(resize(x, (out,), coordinate="asymmetric", nearest="ceil"), [x], "resize")


def test_empty_and_malformed() -> None:
    x = np.zeros((1, 0, 4, 4), np.float32)
    assert run_step(
        "resize", [x], [TensorType(DType.F32, (1, 0, 8, 8))], attributes_of(Resize((1, 0, 8, 8), (1.0, 1.0, 2.0, 2.0)))
    )
    x = np.zeros((1, 1, 4, 4), np.float32)
    for scales in ((1, 1, 0, 1), (1, 1, float("nan"), 1), (1, 1, 1e-30, 1), (1, 1, float("inf"), 1), (1, 1, 1)):
        attributes = attributes_of(Resize((1, 1, 4, 4), scales, mode="linear", antialias=True))
        with pytest.raises(Rejected):
            run_step("resize", [x], [TensorType(DType.F32, (1, 1, 4, 4))], attributes)
