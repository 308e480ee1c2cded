"""Draws digits with their predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

__all__ = ["choose", "draw"]

_SIDE, _GAP, _TEXT, _HEAD = 96, 16, 24, 48  # pixels: a digit, between digits, its caption, the title
_PAPER, _INK, _RIGHT, _WRONG = "#ffffff", "#202020", "#1a7f37", "#cf222e"


def choose(
    labels: npt.NDArray[np.int64], predictions: npt.NDArray[np.int64], columns: int, rows: int
) -> npt.NDArray[np.int64]:
    """Positions to show: the first correctly recognised digits, then the mistakes (at most the last row of them)."""
    wrong = np.flatnonzero(labels != predictions)[:columns]
    right = np.flatnonzero(labels == predictions)[: columns * rows - len(wrong)]
    return np.concatenate([right, wrong])


def draw(
    path: Path,
    title: str,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    predictions: npt.NDArray[np.int64],
    shares: npt.NDArray[np.float32],
    columns: int = 10,
) -> None:
    """Write a PNG of `images` [n,1,8,8] (0 paper, 1 ink), each with its prediction and the certainty of it (0..1)."""
    from PIL import Image, ImageDraw, ImageFont

    rows = -(-len(images) // columns)
    width, height = columns * (_SIDE + _GAP) + _GAP, _HEAD + rows * (_SIDE + _TEXT + _GAP) + _GAP
    canvas = Image.new("RGB", (width, height), _PAPER)
    pen = ImageDraw.Draw(canvas)
    pen.text((_GAP, _HEAD / 2), title, fill=_INK, font=ImageFont.load_default(22), anchor="lm")
    small = ImageFont.load_default(18)
    for position, image in enumerate(images):
        left = _GAP + position % columns * (_SIDE + _GAP)
        top = _HEAD + position // columns * (_SIDE + _TEXT + _GAP)
        pixels = np.round(255 * (1 - image[0])).clip(0, 255).astype(np.uint8)
        canvas.paste(Image.fromarray(pixels).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC), (left, top))
        _caption(pen, small, (left, top + _SIDE), labels[position], predictions[position], shares[position])
    canvas.save(path)


def _caption(
    pen: ImageDraw.ImageDraw,
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    corner: tuple[int, int],
    label: np.int64,
    prediction: np.int64,
    share: np.float32,
) -> None:
    right = label == prediction
    text = f"{prediction} ({share:.0%})" if right else f"{prediction}, not {label}"
    centre = (corner[0] + _SIDE / 2, corner[1] + _TEXT / 2)
    pen.text(centre, text, fill=_RIGHT if right else _WRONG, font=font, anchor="mm")
