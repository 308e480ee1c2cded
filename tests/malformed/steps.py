"""What no kernel accepts: operands absent, too many or of another type, and attributes outside of their ranges."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ATTRIBUTES", "OPERANDS", "overlapping", "without_attribute"]

Change = Callable[[dict[str, Any]], None]
HUGE = 1 << 31

# For each kernel, attributes with the values nearest to those allowed (of the first entry, if there are several).
ATTRIBUTES: dict[str, dict[str, tuple[int | str, ...]]] = {
    "arg_reduce": {"axis": (-1, 3), "keepdims": (-1, 2), "kind": ("odd",), "select_last": (-1, 2)},
    "attention": {**dict.fromkeys(("k_axes", "q_axes", "v_axes", "y_axes"), (-1, 4)), "zeroed": (-1, 2)},
    "binary": {"kind": ("odd", "")},
    "cast": {"to": (0, 11)},
    "compress": {"axis": (-1, 2)},
    "concat": {"axis": (-1, 3)},
    "conv": {"dilations": (0, HUGE), "group": (0, HUGE), "pads": (-1, HUGE), "strides": (0, HUGE)},
    "conv_depthwise": {"dilations": (0, HUGE), "group": (0, HUGE), "pads": (-1, HUGE), "strides": (0, HUGE)},
    "conv_depthwise_planar": {
        "dilations": (0, HUGE),
        "group": (0, HUGE),
        "kernel": (0, 256),
        "pads": (-1, HUGE),
        "strides": (0, HUGE),
    },
    "conv_transpose": {
        "dilations": (0, HUGE),
        "group": (0, HUGE),
        "output_padding": (-1, HUGE),
        "pads": (-1, HUGE),
        "strides": (0, HUGE),
    },
    "copy": {"offset": (-1,), "shape": (-1,)},
    "cum_sum": {"axis": (-1, 2), "exclusive": (-1, 2), "reverse": (-1, 2)},
    "dequantize_linear": {"axis": (-1, 9)},
    "gather": {"axis": (-1, 2)},
    "gather_elements": {"axis": (-1, 2)},
    "gather_nd": {"batch_dims": (-1, 3)},
    "grid_sample": {"align_corners": (-1, 2), "mode": ("odd",), "padding": ("odd",)},
    "lp_normalize": {"axis": (-1, 2), "p": (0, 3)},
    "lrn": {"size": (0,)},
    "max_unpool": {"index_shape": (-1,), "shape": (-1,)},
    "non_max_suppression": {"center_point_box": (-1, 2), "max_output": (-1,)},
    "one_hot": {"axis": (-1, 3), "depth": (-1,)},
    "pad": {"mode": ("odd",), "pads": (-(1 << 48) - 1, (1 << 48) + 1)},
    "pool": {
        "ceil_mode": (-1, 2),
        "column_major": (-1, 2),
        "count_include_pad": (-1, 2),
        "dilations": (0, HUGE),
        "kernel": (0, HUGE),
        "kind": ("odd",),
        "p": (0, HUGE),
        "pads": (-1, HUGE),
        "strides": (0, HUGE),
    },
    "quantize_linear": {"axis": (-1, 9)},
    "quantized_binary": {"hi": (-1, 256), "kind": ("odd",), "lo": (-1, 256), "zeros": (-1, 256)},
    "recurrent": {
        "batch_major": (-1, 2),
        "direction": ("odd",),
        "hidden": (0, 1 << 57),
        "input_forget": (-1, 2),
        "kind": ("odd",),
        "linear_before_reset": (-1, 2),
    },
    "reduce": {"axes": (-1, 4), "keepdims": (-1, 2), "kind": ("odd",)},
    "resize": {
        "antialias": (-1, 2),
        "coordinate": ("odd",),
        "exclude_outside": (-1, 2),
        "mode": ("odd",),
        "nearest": ("odd",),
    },
    "reverse_sequence": {"batch_axis": (-1, 2), "time_axis": (-1, 1)},
    "roi_align": {
        "half_pixel": (-1, 2),
        "height": (0,),
        "mode": ("odd",),
        "sampling_ratio": (-1, 65),
        "width": (0,),
    },
    "scatter_elements": {"axis": (-1, 2), "reduction": ("odd",)},
    "scatter_nd": {"reduction": ("odd",)},
    "softmax": {"axes": (-1, 2), "kind": ("odd",)},
    "top_k": {"axis": (-1, 2), "k": (-1, 10), "largest": (-1, 2)},
    "trilu": {"upper": (-1, 2)},
    "unary": {"kind": ("odd", "")},
}


def _absent(step: dict[str, Any]) -> None:
    step["inputs"] = np.array([-1, *step["inputs"][1:]])


def _no_inputs(step: dict[str, Any]) -> None:
    step["inputs"] = np.array([], np.int32)


def _more_outputs(step: dict[str, Any]) -> None:
    step["outputs"] = np.array([*step["outputs"]] * 4)


# What is wrong, how it comes about, and what the message says (a regular expression).
OPERANDS: tuple[tuple[str, Change, str], ...] = (
    ("first input absent", _absent, "input( 0)? *\n"),
    ("no inputs", _no_inputs, "number of inputs"),
    ("outputs four times", _more_outputs, "number of outputs"),
)


def without_attribute(described: dict[str, Any], name: str) -> dict[str, Any]:
    """The description with the attribute of its first step taken away."""
    found = copy.deepcopy(described)
    step = found["programs"][0]["steps"][0]
    step["attributes"] = [a for a in step["attributes"] if a["name"] != name]
    return found


def overlapping(described: dict[str, Any], position: int, offset: int) -> dict[str, Any]:
    """The description with the program's input `position` at the arena's start, and its first step's first output, so
    far an output of the program, `offset` bytes from there."""
    found = copy.deepcopy(described)
    program = found["programs"][0]
    target = int(program["steps"][0]["outputs"][0])
    for tensor, side, at in ((position, "inputs", 0), (target, "outputs", offset)):
        program[side] = np.array([i for i in program[side].tolist() if i != tensor])
        program["tensors"][tensor] |= {"place": 0, "index": 0, "offset": at}
        for index, other in enumerate(program[side].tolist()):
            program["tensors"][other]["index"] = index
    program["arena_bytes"] += 1 << 16
    return found
