"""From pixels to what a network wants: channel order, mean and standard deviation, layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgert.dtypes import Array
from edgert.errors import InvalidArgumentError
from edgert.session import TensorInfo

__all__ = ["LAYOUTS", "image_format", "to_input"]

LAYOUTS = ("nchw", "nhwc")


def image_format(info: TensorInfo, layout: str | None = None) -> tuple[str, int, int, int]:
    """(layout, height, width, channels) of the images that an input takes.

    The input has shape [1,C,H,W], [C,H,W], [1,H,W,C], [H,W,C] or [H,W], C being 1 or 3; `layout` ("nchw" or "nhwc")
    decides where both readings fit. Raises InvalidArgumentError for any other input.
    """
    shape = info.shape[1:] if len(info.shape) == 4 and info.shape[0] == 1 else info.shape
    if len(shape) == 2:
        return "nchw", shape[0], shape[1], 1
    if len(shape) == 3:
        if layout in (None, "nchw") and shape[0] in (1, 3):
            return "nchw", shape[1], shape[2], shape[0]
        if layout in (None, "nhwc") and shape[2] in (1, 3):
            return "nhwc", shape[0], shape[1], shape[2]
    raise InvalidArgumentError(
        f"input '{info.name}': expected an image, [1,3,H,W] or [1,H,W,3], got {info} (layout {layout or 'any'})\n"
        "Prepare the array yourself and pass it as .npy or .npz."
    )


def to_input(
    pixels: Array,
    info: TensorInfo,
    layout: str | None = None,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    bgr: bool = False,
) -> Array:
    """The input array for an image: `(pixels - mean) / std`, channels reordered, laid out as the network expects.

    `pixels`: uint8 [H,W,3] RGB, or [H,W,1] grey, of the input's size. `mean` and `std`: one number or one per channel
    in the input's order, in units of pixel values 0..255. `bgr`: the network wants blue first.
    """
    found, height, width, channels = image_format(info, layout)
    if pixels.shape != (height, width, channels):
        expected = f"pixels [{height},{width},{channels}]"
        raise InvalidArgumentError(f"input '{info.name}': expected {expected}, got {list(pixels.shape)}")
    for name, numbers in (("mean", mean), ("std", std)):
        if len(numbers) not in (1, channels):
            expected = "1 number" if channels == 1 else f"1 or {channels} numbers"
            raise InvalidArgumentError(f"{name}: expected {expected}, got {len(numbers)}")
    if not all(std):
        raise InvalidArgumentError(f"std: expected numbers other than 0, got {', '.join(map(str, std))}")
    values = pixels[..., ::-1] if bgr else pixels
    values = (values.astype(np.float32) - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    if found == "nchw":
        values = values.transpose(2, 0, 1)
    if info.dtype.kind in "iu":
        limits = np.iinfo(info.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.ascontiguousarray(values.reshape(info.shape).astype(info.dtype))
