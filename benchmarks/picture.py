"""Speeds as an SVG picture: a panel for each number of zeros and of threads, a line for each network, a mark for each
engine, its speed over that of onnxruntime to the right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.report import geometric_mean
from benchmarks.standings import US, Case, group_of, threads_of

__all__ = ["draw"]

COLOURS = {
    US: "#d62728",
    "edgert-bf16": "#f4a6a6",
    "onnxruntime": "#7f7f7f",
    "openvino": "#1f77b4",
    "openvino-bf16": "#9ec8e8",
    "ncnn": "#2ca02c",
    "mnn": "#c5b0d5",
    "mnn-sparse": "#9467bd",
    "deepsparse": "#ff7f0e",
    "litert": "#8c564b",
}
LEFT, RIGHT, LINE, HEAD = 210, 24, 20, 46  # pixels
PLOT = 420
MEAN = "geometric mean"


def draw(speedups: Mapping[Case, Mapping[str, float]]) -> str:
    """The picture of speed-ups over onnxruntime, by case and engine."""
    panels: dict[tuple[str, int], dict[str, Mapping[str, float]]] = {}
    for (name, zeros, threads), own in speedups.items():
        panels.setdefault((group_of(zeros), threads), {})[name] = own
    engines = [engine for engine in COLOURS if any(engine in own for own in speedups.values())]
    every = [speed for own in speedups.values() for speed in own.values()] or [1.0]
    low, high = math.log2(min(0.5, *every)), math.log2(max(2.0, *every))

    def across(speed: float) -> float:
        return LEFT + PLOT * (math.log2(speed) - low) / (high - low)

    parts, y = _legend(engines), HEAD + LINE
    for (group, threads), networks in panels.items():
        lines = dict(networks)
        if len(networks) > 1:
            lines[MEAN] = _means(list(networks.values()), engines)
        bottom = y + 12 + LINE * len(lines)
        parts.append(_text(LEFT, y, f"{group}, {threads_of(threads)}", bold=True))
        for power in range(math.ceil(low), math.floor(high) + 1):
            x, colour = across(2.0**power), "#888" if power == 0 else "#ddd"
            parts.append(f'<line x1="{x:.1f}" y1="{y + 8}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>')
            parts.append(_text(x, bottom + 12, f"{2.0**power:g}x", anchor="middle"))
        for number, (name, own) in enumerate(lines.items()):
            middle = y + 8 + LINE * number + LINE / 2
            parts.append(_text(LEFT - 10, middle + 4, name, anchor="end", bold=name == MEAN))
            for engine in reversed([engine for engine in engines if engine in own]):
                size, title = 6 if engine == US else 4, escape(f"{engine}: {own[engine]:.2f}x")
                place = f'cx="{across(own[engine]):.1f}" cy="{middle:.1f}" r="{size}"'
                parts.append(f'<circle {place} fill="{COLOURS[engine]}"><title>{title}</title></circle>')
        y = bottom + 12 + 2 * LINE
    width, height = LEFT + PLOT + RIGHT, y
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    return "\n".join([frame, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def _means(networks: Sequence[Mapping[str, float]], engines: Sequence[str]) -> dict[str, float]:
    """Of the engines that count on all networks."""
    return {
        engine: geometric_mean([own[engine] for own in networks])
        for engine in engines
        if all(engine in own for own in networks)
    }


def _legend(engines: Sequence[str]) -> list[str]:
    parts = [_text(12, 18, "Speed over onnxruntime's, batch 1 (further right is faster)", bold=True)]
    x = 16.0
    for engine in engines:
        parts.append(f'<circle cx="{x}" cy="{HEAD - 10}" r="{6 if engine == US else 4}" fill="{COLOURS[engine]}"/>')
        parts.append(_text(x + 9, HEAD - 6, engine))
        x += 22 + 6.2 * len(engine)
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
