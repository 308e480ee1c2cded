"""Resize, RoiAlign and GridSample against ONNX's reference."""

import itertools

import numpy as np
import pytest

from packer.ir.ops import GridSample, Resize, RoiAlign
from tests.packer.ir.oracle import check, onnx_run, run

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MODES = [("nearest", r) for r in ROUNDINGS] + [("linear", "floor"), ("cubic", "floor")]


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize(("mode", "nearest"), MODES)
def test_resize(coordinate: str, mode: str, nearest: str) -> None:
    rng = np.random.default_rng(0)
    for shape in [(5,), (1, 2, 3, 4), (1, 1, 7, 5), (2, 1, 4)]:
        x = numbers(rng, *shape)
        common = {"mode": mode, "coordinate_transformation_mode": coordinate, "nearest_mode": nearest}
        for scale in (0.625, 1.0, 1.4375, 2.0, rng.random(len(shape)) + 0.7):
            factors = np.full(len(shape), scale, np.float32)
            out = tuple(np.floor(np.float64(factors) * shape).astype(int).tolist())
            expected = onnx_run("Resize", [x, None, factors], **common)
            assert expected[0].shape == out
            if coordinate == "pytorch_half_pixel" and 1 in out:
                continue  # ONNX's reference has -0.5 where its text has 0: see below
            check(Resize(out, tuple(factors.tolist()), mode, coordinate, nearest), [x], expected)
        sizes = tuple(int(n) for n in rng.integers(2, 9, len(shape)))
        factors = tuple(n / m for n, m in zip(sizes, shape, strict=True))
        expected = onnx_run("Resize", [x, None, None, np.int64(sizes)], **common)
        check(Resize(sizes, factors, mode, coordinate, nearest), [x], expected)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_antialias_outside_and_cubic_coefficient(mode: str) -> None:
    rng = np.random.default_rng(1)
    for antialias, outside, factor in itertools.product((0, 1), (0, 1), (0.3, 0.55, 1.0, 1.7)):
        x, factors = numbers(rng, 1, 2, 9, 7), np.float32([1, 1, factor, factor * 1.2])
        expected = onnx_run(
            "Resize", [x, None, factors], mode=mode, antialias=antialias, exclude_outside=outside, cubic_coeff_a=-0.5
        )
        op = Resize(
            expected[0].shape, tuple(factors.tolist()), mode, "half_pixel", "floor", -0.5, bool(outside),
            antialias=bool(antialias),
        )  # fmt: skip
        check(op, [x], expected)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_crops(mode: str) -> None:
    rng = np.random.default_rng(2)
    x = numbers(rng, 1, 1, 6, 5)
    for roi in [(0, 0, 0.25, 0.3, 1, 1, 0.8, 0.9), (0, 0, 0.5, -0.2, 1, 1, 1.4, 0.7), (0, 0, 0.9, 0, 1, 1, 0.15, 1)]:
        for sizes in [(1, 1, 4, 3), (1, 1, 1, 6), (1, 1, 6, 5)]:
            expected = onnx_run(
                "Resize", [x, np.float32(roi), None, np.int64(sizes)], mode=mode, extrapolation_value=9.5,
                coordinate_transformation_mode="tf_crop_and_resize",
            )  # fmt: skip
            factors = tuple(n / m for n, m in zip(sizes, x.shape, strict=True))
            exact = tuple(float(np.float32(v)) for v in roi)
            op = Resize(sizes, factors, mode, "tf_crop_and_resize", extrapolation=9.5, roi=exact)
            check(op, [x], expected)


def test_resize_corners() -> None:
    x = np.arange(5, dtype=np.uint8)
    (y,) = run(Resize((10,), (2.0,), "nearest", "asymmetric", "floor"), x)
    assert y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    (y,) = run(Resize((1,), (0.2,), "cubic", "pytorch_half_pixel"), x.astype(np.float32))
    assert y.tolist() == [0]
    (y,) = run(Resize((1,), (1 / 49,), "linear", "pytorch_half_pixel"), np.arange(49, dtype=np.float32))
    assert y.tolist() == [0]
    assert run(Resize((0, 3), (1.0, 1.5)), np.zeros((0, 2), np.float32))[0].shape == (0, 3)


@pytest.mark.parametrize(("mode", "half_pixel", "ratio"), list(itertools.product(("avg", "max"), (0, 1), (0, 1, 3))))
def test_roi_align(mode: str, half_pixel: int, ratio: int) -> None:
    rng = np.random.default_rng(3)
    x = numbers(rng, 2, 3, 7, 9)
    begin = rng.random((6, 2)) * 12 - 4
    rois = np.concatenate([begin, begin + rng.random((6, 2)) * 14], 1).astype(np.float32)
    if not half_pixel:
        rois[0, 2:] = rois[0, :2] - 1  # malformed
    inputs = [x, rois, rng.integers(0, 2, 6)]
    expected = onnx_run(
        "RoiAlign", inputs, mode=mode, output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=0.6,
        coordinate_transformation_mode="half_pixel" if half_pixel else "output_half_pixel",
    )  # fmt: skip
    check(RoiAlign(mode, 3, 2, ratio, 0.6, bool(half_pixel)), inputs, expected, 1e-4, 1e-5)


def test_roi_align_of_nothing() -> None:
    op = RoiAlign("avg", 2, 2, 0, 1.0, True)
    x, rois = np.ones((1, 2, 4, 4), np.float32), np.float32([[3, 3, 1, 1]])
    assert not run(op, x, rois, np.int64([0]))[0].any()
    assert run(op, x, rois[:0], np.zeros(0, np.int64))[0].shape == (0, 2, 2, 2)


GRIDS = list(itertools.product(("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)))


@pytest.mark.parametrize(("mode", "padding", "align"), GRIDS)
def test_grid_sample(mode: str, padding: str, align: int) -> None:
    rng = np.random.default_rng(4)
    for spatial, out in [((4, 5), (3, 6)), ((2, 3), (1, 4)), ((3, 4, 2), (2, 3, 2)), ((1, 1), (2, 2))]:
        if spatial == (1, 1) and padding == "reflection" and align:
            continue  # ONNX's reference divides by zero
        x = numbers(rng, 2, 2, *spatial)
        grid = (rng.random((2, *out, len(spatial))) * 3.2 - 1.6).astype(np.float32)
        expected = onnx_run("GridSample", [x, grid], mode=mode, padding_mode=padding, align_corners=align)
        check(GridSample(mode, padding, bool(align)), [x, grid], expected, 1e-4, 1e-4)


def test_grid_sample_far_away_stays_inside() -> None:
    x, grid = np.ones((1, 1, 1, 3), np.float32), np.float32([[[[1e30, -1e30], [np.nan, 0], [-4, 5]]]])
    for mode, padding, align in GRIDS:
        (y,) = run(GridSample(mode, padding, bool(align)), x, grid)
        assert y.shape == (1, 1, 1, 3)
    assert run(GridSample("linear", "zeros"), x, grid[:, :, :0])[0].shape == (1, 1, 1, 0)
