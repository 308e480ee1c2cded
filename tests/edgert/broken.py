"""Broken bundles for each rule of the metadata: what to change in the description, and what the error says.

RULES change `description()`, SPLIT_RULES `split_description()`, DEVICE_RULES `device_description()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.edgert.edge_files import PAGE

__all__ = ["DEVICE_RULES", "RULES", "SPLIT_RULES", "G", "P", "at", "together"]


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change that sets what lies at a path such as "programs.0.tensors.2.offset"."""

    def change(described: dict[str, Any]) -> None:
        place: Any = described
        *way, last = (int(part) if part.isdecimal() else part for part in path.split("."))
        for part in way:
            place = place[part]
        place[last] = value

    return change


def together(*changes: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """All changes, one after the other."""

    def change(described: dict[str, Any]) -> None:
        for single in changes:
            single(described)

    return change


P, G = "programs.0.", "goldens.0."
RULES: list[tuple[str, Any, str]] = [
    ("segments.0.offset", 4097, "segments.0..offset"),
    ("segments.0.offset", 2 * PAGE, "segments.0..offset"),
    ("segments.1.offset", PAGE, "segments.1..offset"),
    ("segments.1.length", 1 << 63, "segments.1..length"),
    ("segments.0.sha256", np.zeros(31, np.uint8), "segments.0..sha256"),
    (P + "tensors.0.dtype", 0, "dtype"),
    (P + "tensors.0.dtype", 13, "dtype"),
    (P + "tensors.0.dtype", 11, "place"),
    (P + "tensors.0.layout", 4, "planes on a device, and nowhere else"),
    (P + "tensors.0.layout", 5, "a layout of 0 to 4"),
    (P + "tensors.0.layout", 1, "layout"),
    (P + "tensors.0.place", 4, "planes on a device, and nowhere else"),
    (P + "tensors.0.place", 5, "a place of 0 to 4"),
    (P + "tensors.0.halo", [1, 1, 1, 1], "halo: expected none"),
    (P + "device_bytes", 1, "0 without a device"),
    (P + "modules", [{}], "none without a device"),
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
    (P + "tensors.3.begin", [0, 0, 0, 0], "none without a root"),
    (P + "cores", 0, "1 to 255"),
    (P + "cores", 256, "1 to 255"),
    (P + "cores", (1 << 32) - 1, "1 to 255"),
    (P + "speeds", [1.0, 1.0], "none, or those of 1 cores"),
    (P + "speeds", [0.5], "relative to the fastest"),
    (P + "plan", 2, "plan: expected -1 or a segment below 2"),
    (P + "plan", -2, "plan: expected -1 or a segment below 2"),
    (P + "plan", (1 << 31) - 1, "plan: expected -1 or a segment below 2"),
    (P + "steps.0.core", 1, "core: expected below 1, or 255"),
    (P + "steps.0.core", 254, "core: expected below 1, or 255"),
    (P + "steps.0.phase", 1, "phase: expected 0"),
    (P + "steps.2.phase", 2, "phase: expected 0 or 1"),
    (P + "steps.2.phase", (1 << 32) - 1, "phase: expected 0 or 1"),
    (G + "inputs.0.segment", 2, "a segment below 2"),
    (G + "inputs.0.offset", 1 << 60, "an end within"),
    (G + "outputs.1.length", 1 << 60, "an end within"),
    (G + "atol", -1.0, "finite tolerances"),
    (G + "rtol", float("nan"), "finite tolerances"),
]

T = P + "tensors."  # roots: 0 x, 1 y, 2 w, 3 a, 4 b (block16), 5 c (block16); then two views of each
WEIGHTS, DEPTHS = 2, 3  # layouts


def _added(*tensors: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Tensors in the arena, from 18 on, that no step uses."""

    def change(described: dict[str, Any]) -> None:
        described["programs"][0]["tensors"] += tensors
        described["programs"][0]["arena_bytes"] = 1 << 20

    return change


def _cut(layout: int, whole: list[int], begin: list[int], shape: list[int]) -> Callable[[dict[str, Any]], None]:
    """A tensor that no step uses, and a view of it."""
    root = {"name": "r", "dtype": 1, "layout": layout, "shape": whole}
    return _added(root, root | {"root": 18, "begin": begin, "shape": shape})


def _phases(*phases: int) -> Callable[[dict[str, Any]], None]:
    """The phases of the steps."""
    return together(*(at(f"{P}steps.{number}.phase", phase) for number, phase in enumerate(phases)))


def _view_6(begin: int, channels: int) -> Callable[[dict[str, Any]], None]:
    """Other channels of the first view of x."""
    return together(at(T + "6.begin", [0, begin, 0, 0]), at(T + "6.shape", [1, channels, 3, 4]))


COUNTS = {"name": "counts", "dtype": 7, "shape": [2]}
SPLIT_RULES: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("root behind the tensors", at(T + "6.root", 18), "root: expected -1 or a tensor below 18"),
    ("negative root", at(T + "6.root", -2), "root: expected -1 or a tensor below 18"),
    ("lowest root", at(T + "6.root", -(1 << 31)), "root: expected -1 or a tensor below 18"),
    ("view of itself", at(T + "6.root", 6), "no view"),
    ("view of a view", at(T + "6.root", 7), "no view"),
    ("view without a root", at(T + "6.root", -1), "none without a root"),
    ("root of another element type", at(T + "6.dtype", 6), "as of its root"),
    ("root of another layout", at(T + "14.layout", 0), "as of its root"),
    ("root in another place", at(T + "6.place", 3), "as of its root"),
    ("root of another input", at(T + "6.index", 1), "as of its root"),
    ("root in another segment", at(T + "10.index", 1), "as of its root"),
    ("root at another offset", at(T + "14.offset", 0), "as of its root"),
    ("view of lower rank", at(T + "6.shape", [16, 3, 4]), "4 dimensions as of its root"),
    ("view of higher rank", at(T + "6.shape", [1, 16, 3, 4, 1]), "4 dimensions as of its root"),
    ("no begin", at(T + "6.begin", []), "begin: expected 4 entries"),
    ("begin of another rank", at(T + "6.begin", [0, 0, 0]), "begin: expected 4 entries"),
    ("begin before the root", at(T + "6.begin", [0, -1, 0, 0]), "a box within 32"),
    ("lowest begin", at(T + "6.begin", [0, -(1 << 63), 0, 0]), "a box within 32"),
    ("highest begin", at(T + "6.begin", [0, (1 << 63) - 1, 0, 0]), "a box within 32"),
    ("view beyond the root", at(T + "6.begin", [0, 17, 0, 0]), "a box within 32"),
    ("view longer than the root", at(T + "6.shape", [1, 33, 3, 4]), "a box within 32"),
    ("empty view beyond the root", _view_6(33, 0), "a box within 32"),
    ("view with an extent", at(T + "6.extent_axis", 1), "-1, as it is a view"),
    ("view in the middle of a block", at(T + "14.begin", [0, 8, 0, 0]), "whole blocks of 16 of 32"),
    ("view of half a block", at(T + "14.shape", [1, 8, 3, 4]), "whole blocks of 16 of 32"),
    ("half a block of a vector", _cut(1, [20], [0], [8]), "whole blocks of 16 of 20"),
    ("half a block of outputs", _cut(WEIGHTS, [2, 20, 40, 3], [0, 0, 0, 0], [2, 8, 40, 3]), "whole blocks of 16"),
    ("half a block of inputs", _cut(WEIGHTS, [2, 20, 40, 3], [0, 0, 8, 0], [2, 20, 32, 3]), "whole blocks of 16"),
    ("part of a kernel", _cut(WEIGHTS, [2, 20, 40, 3], [0, 0, 0, 0], [2, 20, 40, 2]), "all of the kernel's 3"),
    ("half a block of a depthwise", _cut(DEPTHS, [40, 3, 3], [8, 0, 0], [32, 3, 3]), "whole blocks of 16 of 40"),
    ("part of a depthwise kernel", _cut(DEPTHS, [40, 3, 3], [0, 0, 1], [40, 3, 2]), "all of the kernel's 3"),
    (
        "a count that is a view",
        _added(
            COUNTS,
            COUNTS | {"root": 18, "begin": [1], "shape": [1]},
            {"name": "counted", "dtype": 1, "shape": [4], "extent_axis": 0, "extent_count": 19},
        ),
        "one planar int64, no view",
    ),
    ("a view as an input", together(at(P + "inputs", [6]), _view_6(0, 32)), "a tensor that is no view"),
    ("a view as an output", together(at(P + "outputs", [8]), at(T + "8.shape", [1, 32, 3, 4])), "that is no view"),
    ("half a view as an input", at(P + "inputs", [6]), "768 bytes"),
    ("one speed of two", at(P + "speeds", [1.0]), "none, or those of 2 cores"),
    ("a speed of 0", at(P + "speeds", [1.0, 0.0]), "relative to the fastest"),
    ("a negative speed", at(P + "speeds", [1.0, -1.0]), "relative to the fastest"),
    ("a speed that is no number", at(P + "speeds", [1.0, float("nan")]), "relative to the fastest"),
    ("an infinite speed", at(P + "speeds", [1.0, float("inf")]), "relative to the fastest"),
    ("a speed above 1", at(P + "speeds", [1.0, 1.5]), "relative to the fastest"),
    ("no fastest core", at(P + "speeds", [0.5, 0.5]), "relative to the fastest"),
    ("a core too many", at(P + "steps.2.core", 2), "core: expected below 2, or 255"),
    ("fewer cores", together(at(P + "cores", 1), at(P + "speeds", [])), "core: expected below 1, or 255"),
    ("phases that fall", _phases(0, 0, 0, 0, 1, 0, 1, 2, 2), "phase: expected 1 or 2, got 0"),
    ("a phase left out", _phases(0, 0, 0, 0, 1, 3, 3, 4, 4), "phase: expected 1 or 2, got 3"),
    ("no first phase", _phases(1, 1, 1, 1, 2, 3, 3, 4, 4), "phase: expected 0, got 1"),
    ("both cores write the same", at(P + "steps.2.outputs", [12]), "memory apart from other cores'"),
    ("a core reads what the other writes", at(P + "steps.2.inputs", [12, 11]), "memory apart from other cores'"),
    ("a core writes what the other reads", at(P + "steps.0.inputs", [13, 10]), "memory apart from other cores'"),
    ("a core writes all of a tensor", at(P + "steps.7.outputs", [1]), "memory apart from other cores'"),
    ("a core reads all of a tensor", at(P + "steps.3.inputs", [3]), "memory apart from other cores'"),
    ("no barrier before a shared step", _phases(0, 0, 0, 0, 0, 1, 1, 2, 2), "memory apart from other cores'"),
    ("no barrier after a shared step", _phases(0, 0, 0, 0, 1, 1, 1, 2, 2), "memory apart from other cores'"),
    ("no barrier at all", _phases(0, 0, 0, 0, 0, 0, 0, 0, 0), "memory apart from other cores'"),
    ("two shared steps at once", at(P + "steps.3.core", 255), "memory apart from other cores'"),
    ("more pairs than may be compared", at(P + "steps.2.inputs", [7] * 2000), "at most [0-9]* pairs of operands"),
    ("overlapping roots that differ", at(P + "steps.6.outputs", [13]), "memory apart from other cores'"),
]

HALO, ROOTED, MODULE = T + "3.halo", T + "5.", P + "modules.0."  # of device_description()


def _no_device(described: dict[str, Any]) -> None:
    described["programs"][0] |= {"device": "", "device_bytes": 0, "modules": []}


def _both(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """The same of the root in planes and its first view."""
    return together(at(f"{T}4.{field}", value), at(ROOTED + field, value))


def _planes_of(rank: int) -> Callable[[dict[str, Any]], None]:
    """Another rank of the root in planes, as of its first view."""
    return together(_both("shape", [1] * rank), at(ROOTED + "begin", [0] * rank))


DEVICE_RULES: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("memory of no device", at(P + "device", ""), "device_bytes: expected 0 without a device"),
    ("modules of no device", together(_no_device, at(P + "modules", [{}])), "modules: expected none without a device"),
    ("tensors of no device", _no_device, "one of 0 to 3, as there is no device"),
    ("a planar tensor on a device", at(T + "3.layout", 0), "planes on a device, and nowhere else"),
    ("blocks on a device", at(T + "7.layout", 1), "planes on a device, and nowhere else"),
    ("planes in the arena", at(T + "3.place", 0), "planes on a device, and nowhere else"),
    ("planes in a segment", at(T + "2.layout", 4), "planes on a device, and nowhere else"),
    ("an input on a device", at(P + "inputs", [3]), "a tensor placed as input|as the program's input"),
    ("an output on a device", at(P + "outputs", [4]), "a tensor placed as output|as the program's output"),
    ("bf16 on a device", at(T + "7.dtype", 12), "a segment for f16 and bf16, or for f16 a device"),
    ("f16 in the arena", together(at(T + "7.place", 0), at(T + "7.layout", 0)), "a segment for f16 and bf16"),
    ("an offset between words", at(T + "3.offset", 8), "a multiple of 16"),
    ("a tensor behind the memory", at(T + "3.offset", 1312), "an end within 1312 bytes"),
    ("a tensor beyond all memory", at(T + "3.offset", (1 << 64) - 16), "an end within 1312 bytes"),
    ("too little memory", at(P + "device_bytes", 1295), "an end within 1295 bytes"),
    ("halos that need more memory", at(HALO, [9, 9, 9, 9]), "an end within 1312 bytes"),
    ("three sides", at(HALO, [1, 1, 1]), "none, or 4 numbers"),
    ("five sides", at(HALO, [1, 1, 1, 1, 1]), "none, or 4 numbers"),
    ("a halo of nothing", at(HALO, [0, 0, 0, 0]), "none, or 4 numbers"),
    ("a halo that is too large", at(HALO, [0, 65536, 0, 0]), "none, or 4 numbers"),
    ("the largest halo", at(HALO, [0, 0, 0, (1 << 32) - 1]), "none, or 4 numbers"),
    ("a halo of a constant", at(T + "2.halo", [1, 1, 1, 1]), "none, or 4 numbers"),
    ("a halo of rank 3", at(T + "3.shape", [3, 4, 5]), "none, or 4 numbers"),
    ("a halo of rank 5", at(T + "3.shape", [1, 1, 3, 4, 5]), "none, or 4 numbers"),
    ("planes that are too large", at(T + "3.shape", [1, 1 << 28, 1 << 16, 1]), "at most 2.48 bytes"),
    ("none of planes that are too large", at(T + "3.shape", [1, 0, 1 << 48, 1]), "at most 2.48 bytes"),
    ("a view without its root's halo", at(T + "4.halo", [1, 0, 0, 0]), "as of its root"),
    ("a view with a halo of its own", at(ROOTED + "halo", [1, 0, 0, 0]), "as of its root"),
    ("a view of some rows", at(ROOTED + "shape", [1, 4, 3, 5]), "all 4 of its root"),
    ("a view of some columns", at(ROOTED + "shape", [1, 4, 4, 4]), "all 5 of its root"),
    ("a view of several images", _both("shape", [2, 1, 4, 5]), "two dimensions or more, the first 1"),
    ("a view of no image", _both("shape", [0, 1, 4, 5]), "two dimensions or more, the first 1"),
    ("a view of one dimension", _planes_of(1), "two dimensions or more, the first 1"),
    ("a view of a scalar", _planes_of(0), "two dimensions or more, the first 1"),
    ("planes beyond the root", at(T + "6.begin", [0, 5, 0, 0]), "a box within 6"),
    ("both cores write the same planes", at(P + "steps.2.outputs", [5]), "memory apart from other cores'"),
    ("a core writes what the other reads", at(P + "steps.2.inputs", [5, 2]), "memory apart from other cores'"),
    (
        "planes in the halo of others",
        together(at(T + "7.offset", 560), at(P + "steps.2.outputs", [7])),
        "memory apart from other cores'",
    ),
    ("a count on a device", together(at(T + "1.extent_axis", 0), at(T + "1.extent_count", 4)), "one planar int64"),
    ("a module without code", at(P + "modules.1.ptx_segment", -1), "a cubin, PTX or both"),
    ("a cubin in no segment", at(MODULE + "cubin_segment", 3), "-1 or a segment below 3"),
    ("a cubin in a negative segment", at(MODULE + "cubin_segment", -2), "-1 or a segment below 3"),
    ("PTX in no segment", at(MODULE + "ptx_segment", 3), "-1 or a segment below 3"),
    ("PTX in the last segment of all", at(MODULE + "ptx_segment", -(1 << 31)), "-1 or a segment below 3"),
    ("a cubin out of line", at(MODULE + "cubin_offset", 32), "a multiple of 64"),
    ("PTX out of line", at(MODULE + "ptx_offset", 63), "a multiple of 64"),
    ("a cubin behind its segment", at(MODULE + "cubin_offset", 64), "1 byte or more within 200"),
    ("a cubin beyond all segments", at(MODULE + "cubin_offset", (1 << 64) - 64), "1 byte or more within 200"),
    ("an empty cubin", at(MODULE + "cubin_bytes", 0), "1 byte or more within 200"),
    ("a cubin longer than its segment", at(MODULE + "cubin_bytes", 201), "1 byte or more within 200"),
    ("the longest cubin", at(MODULE + "cubin_bytes", (1 << 64) - 1), "1 byte or more within 200"),
    ("an empty stream", at(MODULE + "ptx_stored", 0), "1 byte or more within"),
    ("a stream longer than its segment", at(MODULE + "ptx_stored", 4096), "1 byte or more within"),
    ("a text of nothing", at(MODULE + "ptx_bytes", 0), "ptx_bytes: expected 1 to"),
    ("a text longer than any stream's", at(MODULE + "ptx_bytes", 1 << 17), "ptx_bytes: expected 1 to"),
    ("the longest text", at(MODULE + "ptx_bytes", (1 << 64) - 1), "ptx_bytes: expected 1 to"),
]
