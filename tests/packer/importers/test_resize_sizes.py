"""Sizes and places of resized pictures, as onnxruntime and the frameworks that export them reckon."""

from __future__ import annotations

import numpy as np
import pytest

from packer.importers import import_onnx
from tests.packer.importers.models import check, noise, run, single


def resized(x: np.ndarray, scales: list[float], sizes: list[int], opset: int = 13, **attributes: object) -> None:
    """Compares with onnxruntime; either scales or sizes are given."""
    inputs = [x, np.float32([]), np.float32(scales), *([] if scales else [np.array(sizes)])]
    built, feeds = single("Resize", inputs, opset, constant=range(1, len(inputs)), **attributes)
    check(built, feeds)


@pytest.mark.parametrize("scale", [1.3, 0.7, 0.9, 1.4, 1.8, 3.3, 23 / 15])
@pytest.mark.parametrize("extent", [10, 15, 20])
def test_scales_are_multiplied_in_float32(extent: int, scale: float) -> None:
    resized(noise(1, 2, extent, extent), [1, 1, scale, scale], [], mode="linear")


@pytest.mark.parametrize(("extent", "size"), [(14, 18), (14, 36), (20, 44), (28, 36), (56, 72), (36, 14), (10, 13)])
@pytest.mark.parametrize("coordinate", ["asymmetric", "half_pixel", "pytorch_half_pixel"])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
def test_nearest_of_whole_places(extent: int, size: int, coordinate: str, rounding: str) -> None:
    """Places that are whole numbers are not just below or above them."""
    op = {"mode": "nearest", "coordinate_transformation_mode": coordinate, "nearest_mode": rounding}
    built, feeds = single(
        "Resize", [noise(1, 1, extent, 1), None, None, np.array([1, 1, size, 1])], 13, constant=[3], **op
    )
    place = (np.arange(size) + (0.0 if coordinate == "asymmetric" else 0.5)) * extent / size
    place -= 0.0 if coordinate == "asymmetric" else 0.5
    wanted = np.clip((np.floor if rounding == "floor" else np.ceil)(place), 0, extent - 1).astype(int)
    (got,) = run(import_onnx(built), feeds)
    np.testing.assert_array_equal(got[0, 0, :, 0], feeds["x0"][0, 0, wanted, 0])


@pytest.mark.parametrize("rounding", ["floor", "round_prefer_floor"])
@pytest.mark.parametrize(("extent", "size"), [(5, 10), (10, 5), (7, 16), (13, 9)])
def test_half_pixels_of_tensorflow(extent: int, size: int, rounding: str) -> None:
    resized(
        noise(1, 2, extent, extent),
        [],
        [1, 2, size, size],
        11,
        mode="nearest",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode=rounding,
    )
