"""One broken bundle for each rule of the metadata: what to change in the description, and what the error says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.edgert.edge_files import PAGE

__all__ = ["RULES", "G", "P", "at"]


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change that sets what lies at a path such as "programs.0.tensors.2.offset"."""

    def change(described: dict[str, Any]) -> None:
        place: Any = described
        *way, last = (int(part) if part.isdecimal() else part for part in path.split("."))
        for part in way:
            place = place[part]
        place[last] = value

    return change


P, G = "programs.0.", "goldens.0."
RULES: list[tuple[str, Any, str]] = [
    ("segments.0.offset", 4097, "segments.0..offset"),
    ("segments.0.offset", 2 * PAGE, "segments.0..offset"),
    ("segments.1.offset", PAGE, "segments.1..offset"),
    ("segments.1.length", 1 << 63, "segments.1..length"),
    ("segments.0.sha256", np.zeros(31, np.uint8), "segments.0..sha256"),
    (P + "tensors.0.dtype", 0, "dtype"),
    (P + "tensors.0.dtype", 11, "dtype"),
    (P + "tensors.0.layout", 4, "layout"),
    (P + "tensors.0.layout", 1, "layout"),
    (P + "tensors.0.place", 4, "place"),
    (P + "tensors.3.shape", [1, -1, 4, 4], "shape"),
    (P + "tensors.3.shape", [1] * 9, "at most 8 dimensions"),
    (P + "tensors.3.shape", [1, 1 << 40, 1 << 40], "at most 2.48"),
    (P + "tensors.3.shape", [0, 1 << 40, 1 << 40], "at most 2.48"),
    (P + "tensors.3.shape", [], "dimensions or more"),
    (P + "tensors.2.shape", [5, 3], "dimensions or more"),
    (P + "tensors.2.offset", 32, "a multiple of 64"),
    (P + "tensors.2.offset", 64, "an end within 192 bytes"),
    (P + "tensors.2.offset", (1 << 64) - 64, "an end within 192 bytes"),
    (P + "tensors.2.index", 2, "a segment below 2"),
    (P + "tensors.3.offset", 32, "a multiple of 64"),
    (P + "tensors.3.offset", 128, "an end within 1088 bytes"),
    (P + "arena_bytes", 1087, "an end within 1087 bytes"),
    (P + "tensors.3.shape", [1 << 49, 0], "extents of 0 to 2.48"),
    (P + "target", "", "a target and an arch"),
    (P + "arch", "", "a target and an arch"),
    (P + "steps.0.kernel", "", "kernel"),
    (P + "steps.1.outputs", [3], "a step that writes it"),
    (P + "steps.0.attributes.0.name", "", "ascending order"),
    (P + "tensors.0.index", 1, "position among the program's inputs|as the program's input"),
    (P + "tensors.1.index", 1, "as the program's output"),
    (P + "tensors.4.place", 2, "position among the program's inputs|as the program's input"),
    (P + "tensors.5.extent_axis", 2, "extent_axis"),
    (P + "tensors.5.extent_axis", -2, "extent_axis"),
    (P + "tensors.5.extent_count", 6, "extent_count"),
    (P + "tensors.5.extent_count", 0, "one planar int64"),
    (P + "tensors.0.offset", 64, "offset: expected 0"),
    (P + "inputs", [6], "its position among the program's inputs"),
    (P + "inputs", [0, 6], "a tensor below 6"),
    (P + "inputs", [0, 0], "a tensor of index 1"),
    (P + "inputs", [1], "as the program's input"),
    (P + "inputs", [], "position among the program's inputs|as the program's input"),
    (P + "outputs", [5, 1], "as the program's output"),
    (P + "steps.0.inputs", [6], "tensors below 6, or -1"),
    (P + "steps.0.inputs", [-2], "tensors below 6, or -1"),
    (P + "steps.0.outputs", [-1], "outputs: expected tensors below 6"),
    (P + "steps.0.outputs", [0], "may be written"),
    (P + "steps.0.outputs", [2], "may be written"),
    (P + "steps.0.attributes.1.name", "activation", "ascending order"),
    (P + "steps.0.attributes.1.name", "a", "ascending order"),
    (G + "inputs.0.segment", 2, "a segment below 2"),
    (G + "inputs.0.offset", 1 << 60, "an end within"),
    (G + "outputs.1.length", 1 << 60, "an end within"),
    (G + "atol", -1.0, "finite tolerances"),
    (G + "rtol", float("nan"), "finite tolerances"),
]
