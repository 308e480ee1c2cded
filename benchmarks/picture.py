"""Speeds as an SVG picture: panels, in each a line for each network, on it a mark for each engine, the further to the
right the faster it is."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape

from benchmarks.report import geometric_mean
from benchmarks.standings import US, Case, group_of, threads_of

__all__ = ["chart", "draw"]

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
    panels: dict[str, dict[str, Mapping[str, float]]] = {}
    for (name, zeros, threads), own in speedups.items():
        panels.setdefault(f"{group_of(zeros)}, {threads_of(threads)}", {})[name] = own
    return chart("Speed over onnxruntime's, batch 1 (further right is faster)", panels, COLOURS, {US})


def chart(
    title: str,
    panels: Mapping[str, Mapping[str, Mapping[str, float]]],
    colours: Mapping[str, str],
    ours: Collection[str],
) -> str:
    """Panels by name, each with lines by name, each with a speed for some of the engines in `colours`; `ours` get
    larger marks. Speeds are on a logarithmic scale."""
    found = [own for lines in panels.values() for own in lines.values()]
    engines = [engine for engine in colours if any(engine in own for own in found)]
    every = [speed for own in found for speed in own.values()] or [1.0]
    low, high = math.log2(min(0.5, *every)), math.log2(max(2.0, *every))

    def across(speed: float) -> float:
        return LEFT + PLOT * (math.log2(speed) - low) / (high - low)

    parts, y = _legend(title, engines, colours, ours)
    for name, networks in panels.items():
        lines = dict(networks)
        if len(networks) > 1:
            lines[MEAN] = _means(list(networks.values()), engines)
        bottom = y + 12 + LINE * len(lines)
        parts.append(_text(LEFT, y, name, bold=True))
        for power in range(math.ceil(low), math.floor(high) + 1):
            x, colour = across(2.0**power), "#888" if power == 0 else "#ddd"
            parts.append(f'<line x1="{x:.1f}" y1="{y + 8}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>')
            parts.append(_text(x, bottom + 12, f"{2.0**power:g}x", anchor="middle"))
        for number, (line, own) in enumerate(lines.items()):
            middle = y + 8 + LINE * number + LINE / 2
            parts.append(_text(LEFT - 10, middle + 4, line, anchor="end", bold=line == MEAN))
            for engine in reversed([engine for engine in engines if engine in own]):
                size, tip = 6 if engine in ours else 4, escape(f"{engine}: {own[engine]:.2f}x")
                place = f'cx="{across(own[engine]):.1f}" cy="{middle:.1f}" r="{size}"'
                parts.append(f'<circle {place} fill="{colours[engine]}"><title>{tip}</title></circle>')
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


def _legend(
    title: str, engines: Sequence[str], colours: Mapping[str, str], ours: Collection[str]
) -> tuple[list[str], int]:
    """The title and what the marks mean, in as many lines as that takes; and where the first panel begins."""
    parts = [_text(12, 18, title, bold=True)]
    x, y = 16.0, HEAD - 10
    for engine in engines:
        if x + 6.2 * len(engine) > LEFT + PLOT + RIGHT - 16:
            x, y = 16.0, y + 16
        parts.append(f'<circle cx="{x}" cy="{y}" r="{6 if engine in ours else 4}" fill="{colours[engine]}"/>')
        parts.append(_text(x + 9, y + 4, engine))
        x += 22 + 6.2 * len(engine)
    return parts, y + 10 + LINE


def _text(x: float, y: float, text: str, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
