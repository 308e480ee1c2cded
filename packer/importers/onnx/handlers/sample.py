"""Resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.registry import handler
from packer.ir.ops import GridSample, Resize, RoiAlign

_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
)  # fmt: skip

# Of tf_half_pixel_for_nn, whose places lie half a pixel further: what rounds half pixels to the same.
_HALF_FURTHER = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}


@handler("Upsample")
def upsample(call: Call) -> Tensor:
    """By factors, with the pixel grids aligned at their origin."""
    scales = call.constant(1, "'scales'").reshape(-1).tolist() if call.version >= 9 else call.numbers("scales")
    if scales is None:  # opset 1
        scales = (1.0, 1.0, call.number("height_scale"), call.number("width_scale"))
    return _by_scales(call, [float(scale) for scale in scales], range(call.tensor(0).rank))


@handler("Resize", since=10)
def resize_10(call: Call) -> Tensor:
    """By factors, with the pixel grids aligned at their origin."""
    scales = call.constant(1, "'scales'").reshape(-1).tolist()
    return _by_scales(call, [float(scale) for scale in scales], range(call.tensor(0).rank))


def _by_scales(call: Call, scales: Sequence[float], axes: Sequence[int]) -> Tensor:
    x = call.tensor(0)
    factors = _spread(call, scales, axes, 1.0)
    mode = {"bilinear": "linear"}.get(call.text("mode", "nearest"), call.text("mode", "nearest"))
    op = Resize(_scaled(x.shape, factors), factors, mode, "asymmetric", "floor")
    return _emit(call, op)


def _scaled(shape: Sequence[int], scales: Sequence[float]) -> tuple[int, ...]:
    """Rounded down from products in float32, as those who write scales reckon: ten times 1.3 is 13."""
    return tuple(math.floor(np.float32(size) * np.float32(scale)) for size, scale in zip(shape, scales, strict=True))


def _spread(call: Call, values: Sequence[float], axes: Sequence[int], default: float) -> tuple[float, ...]:
    """One value a dimension from one a named axis."""
    if len(values) != len(axes):
        raise call.error("scales, sizes or axes do not fit", expected=f"{len(axes)} values", got=str(len(values)))
    found = [default] * call.tensor(0).rank
    for axis, value in zip(axes, values, strict=True):
        found[axis] = float(value)
    return tuple(found)


def _emit(call: Call, op: Resize) -> Tensor:
    x = call.tensor(0)
    if min(op.scales, default=1.0) <= 0:
        raise call.error("a scale is not positive", got=str(op.scales))
    if op.mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"mode {op.mode}")
    same = op.shape == x.shape and all(scale == 1.0 for scale in op.scales) and not op.roi
    return x if same else call.emit(op, x)


@handler("Resize", since=11)
def resize(call: Call) -> Tensor:
    x = call.tensor(0)
    given = call.integers("axes")
    axes = call.axes(given, x.rank) if given is not None else tuple(range(x.rank))
    scales, sizes = (
        call.constant(i, role).reshape(-1) if call.has(i) else np.zeros(0)
        for i, role in ((2, "'scales'"), (3, "'sizes'"))
    )
    if bool(scales.size) == bool(sizes.size):
        raise call.error("Resize takes scales or sizes", got="both" if scales.size else "neither")
    if scales.size:
        factors = _spread(call, scales.astype(float).tolist(), axes, 1.0)
        shape = _scaled(x.shape, factors)
    else:
        shape, factors = _by_sizes(call, [int(size) for size in sizes], axes)
    coordinate = call.text("coordinate_transformation_mode", "half_pixel")
    rounding = call.text("nearest_mode", "round_prefer_floor")
    if coordinate == "tf_half_pixel_for_nn" and rounding in _HALF_FURTHER:
        coordinate, rounding = "half_pixel", _HALF_FURTHER[rounding]
    if coordinate not in _COORDINATES:
        raise Unsupported(f"coordinates {coordinate}")
    op = Resize(
        shape, factors, call.text("mode", "nearest"), coordinate, rounding,
        cubic_a=call.number("cubic_coeff_a", -0.75), exclude_outside=bool(call.integer("exclude_outside", 0)),
        extrapolation=call.number("extrapolation_value", 0.0), antialias=bool(call.integer("antialias", 0)),
    )  # fmt: skip
    if coordinate == "tf_crop_and_resize":
        roi = call.constant(1, "'roi'").reshape(-1).astype(float).tolist()
        half = len(roi) // 2
        op = replace(op, roi=(*_spread(call, roi[:half], axes, 0.0), *_spread(call, roi[half:], axes, 1.0)))
    return _emit(call, op)


def _by_sizes(call: Call, sizes: Sequence[int], axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Output shape and factors for wanted sizes, with the aspect ratio kept where the node says so."""
    x = call.tensor(0)
    wanted = _spread(call, sizes, axes, -1)
    if any(x.shape[axis] == 0 for axis in axes):
        raise call.error("nothing to resize", got=str(x.type))
    factors = [wanted[axis] / x.shape[axis] for axis in axes]
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy in ("not_larger", "not_smaller"):
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        wanted = _spread(call, [math.floor(factor * x.shape[axis] + 0.5) for axis in axes], axes, -1)
    elif policy != "stretch":
        raise call.error("keep_aspect_ratio_policy not known", got=policy)
    shape = tuple(n if size < 0 else int(size) for n, size in zip(x.shape, wanted, strict=True))
    return shape, _spread(call, factors, axes, 1.0)


@handler("RoiAlign")
def roi_align(call: Call) -> Tensor:
    half_pixel = call.version >= 16 and call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    op = RoiAlign(
        call.text("mode", "avg"), call.integer("output_height", 1), call.integer("output_width", 1),
        call.integer("sampling_ratio", 0), call.number("spatial_scale", 1.0), half_pixel,
    )  # fmt: skip
    return call.emit(op, call.tensor(0), call.tensor(1), call.tensor(2))


@handler("GridSample")
def grid_sample(call: Call) -> Tensor:
    mode = call.text("mode", "linear" if call.version >= 20 else "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    op = GridSample(mode, call.text("padding_mode", "zeros"), bool(call.integer("align_corners", 0)))
    return call.emit(op, call.tensor(0), call.tensor(1))
