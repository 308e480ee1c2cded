"""Winograd's convolution F(m x m, 3 x 3): the forms of it that a convolution has, and its weights
(runtime_c/src/kernels/winograd.h).

Form "winograd4" is that of 4 x 4 tiles with weights transformed when packing, "winograd4-lean" with those of a
convolution, which are transformed in each run; "winograd4-lean-bf16" stores these in 16 bits. "winograd2-bf16"
multiplies transformed inputs and weights that are both rounded to bf16."""

from __future__ import annotations

from math import prod

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Conv

__all__ = ["POINTS", "SETTINGS", "TILES", "is_lean", "is_rounded", "tile_of", "transformed", "winograd_forms"]

TILES = (2, 4, 6)  # m: outputs along each side of a tile
LEAN = 2e6  # bytes of weights that are worth being kept small
# The positive points of interpolation; with each p there is -p, besides 0 and infinity.
POINTS: dict[int, tuple[float, ...]] = {2: (1.0,), 4: (0.625, 1.5), 6: (0.5, 1.0, 2.0)}


def _matrix(tile: int) -> np.ndarray:
    """[m + 2, 3]: the values of a polynomial of three coefficients at the points, divided as its inputs' are not."""
    points = [0.0]
    for point in POINTS[tile]:
        points += [point, -point]
    rows = [[p**j / prod(p - q for q in points if q != p) for j in range(3)] for p in points]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def transformed(weights: np.ndarray, tile: int) -> np.ndarray:
    """Weights [K,C,3,3] as float32 [(m + 2)^2, K, C], rounded once."""
    matrix = _matrix(tile)
    flat = weights.reshape(-1, 9).astype(np.float64)
    values: np.ndarray = (np.kron(matrix, matrix) @ flat.T).astype(np.float32)
    return values.reshape((tile + 2) ** 2, *weights.shape[:2])


# Which tiles each setting allows. With products of bf16 only those of 2 x 2: larger ones have several times the errors.
SETTINGS: dict[str, tuple[int, ...]] = {"off": (), "strict": (2, 4), "fast": (2, 4, 6)}


def tile_of(form: str) -> int:
    """m of a form of this name."""
    return int(form.removeprefix("winograd").partition("-")[0])


def is_lean(form: str) -> bool:
    """Whether a form of this name transforms its weights in each run."""
    return "-lean" in form


def is_rounded(form: str) -> bool:
    """Whether a form of this name multiplies numbers rounded to bf16."""
    return form.startswith("winograd") and form.endswith("-bf16") and not is_lean(form)


def winograd_forms(graph: Graph, node: Node, setting: str, stored: str) -> tuple[str, ...]:
    """The forms by which `setting` allows a convolution to be computed, its weights `stored` as "f16", "bf16" or "f32"
    unless they are transformed, and with products of bf16 if they may be "bf16": none unless it has a kernel of 3x3
    known when packing, stride 1, and groups of whole blocks of 16 channels."""
    op, weights = node.op, graph.type(node.inputs[1] or "")
    assert isinstance(op, Conv)
    if weights.shape[2:] != (3, 3) or op.strides != (1, 1) or op.dilations != (1, 1):
        return ()
    filters, channels = weights.shape[0] // op.group, weights.shape[1]
    if op.group > 1 and (filters % 16 or channels % 16):
        return ()
    if graph.constant(node.inputs[1]) is None or channels == 0 or graph.type(node.outputs[0]).elements == 0:
        return ()
    suffixes = ["", "-lean" if stored == "f32" else f"-lean-{stored}"]
    if stored == "f32" and 4 * weights.elements < LEAN:
        suffixes.pop()
    found = [f"winograd{tile}{suffix}" for tile in SETTINGS[setting] for suffix in suffixes]
    if stored == "bf16" and 2 in SETTINGS[setting]:
        found.append("winograd2-bf16")
    return tuple(found)
