"""Curves over powers of two as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

__all__ = ["curves"]

_COLOURS = ("#9ec8e8", "#1f77b4", "#2ca02c", "#ff7f0e", "#d62728", "#9467bd", "#8c564b", "#7f7f7f")
_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 50, 560, 300  # pixels


def curves(title: str, across: str, lines: Mapping[str, Mapping[int, float]]) -> str:
    """Lines by name, each from powers of two to values from 0; `across` names the former, in KiB."""
    places = sorted({x for own in lines.values() for x in own})
    most = max((y for own in lines.values() for y in own.values()), default=1.0)
    first, last = math.log2(places[0]), max(math.log2(places[-1]), math.log2(places[0]) + 1)

    def point(x: int, y: float) -> tuple[float, float]:
        return _LEFT + _WIDTH * (math.log2(x) - first) / (last - first), _TOP + _HEIGHT * (1 - y / most)

    bottom, parts = _TOP + _HEIGHT, [_text(12, 18, title)]
    for x in places:
        left, _ = point(x, 0)
        parts.append(f'<line x1="{left:.1f}" y1="{_TOP}" x2="{left:.1f}" y2="{bottom}" stroke="#eee"/>')
        parts.append(_text(left, bottom + 14, f"{x / 1024:g}", "middle"))
    parts.append(_text(_LEFT + _WIDTH / 2, bottom + 30, across, "middle"))
    for number in range(5):
        height = most * number / 4
        _, top = point(places[0], height)
        parts.append(f'<line x1="{_LEFT}" y1="{top:.1f}" x2="{_LEFT + _WIDTH}" y2="{top:.1f}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 6, top + 4, f"{height:.2f}", "end"))
    for number, (name, own) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{left:.1f},{top:.1f}" for left, top in (point(x, y) for x, y in sorted(own.items())))
        tip = f"<title>{escape(name)}</title>"
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2">{tip}</polyline>')
        parts.append(_text(_LEFT + number * 90, 38, name, colour=colour))
    size = f'width="{_LEFT + _WIDTH + 30}" height="{bottom + 40}"'
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([frame, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "black") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'
