"""A plan as one page of HTML with nothing outside: the graph of its operators, coloured by cores and layouts."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from edgert.cli._decisions import others_text, pieces_text, runner_up_text, split_text
from edgert.cli._layers import spread
from edgert.cli._plan_graph import Edge, plan_graph
from edgert.cli._program import named

if TYPE_CHECKING:
    from edgert.cli._times import Times
    from edgert.decisions import Decision, Plan
    from edgert.reader import Program

__all__ = ["page"]

WIDTH, HEIGHT = 210, 56  # of a box, pixels
LANE, GAP = 12, 18
DOWN = HEIGHT + 44  # from row to row
MARGIN = 90
LETTERS = 30  # of a name
LAYOUTS = {"planar": "#475569", "block16": "#c2410c", "weight16": "#0f766e", "depth16": "#7e22ce"}
OTHER = "#be123c"


def page(model: str, program: Program, plan: Plan, times: Times | None = None) -> str:
    """The page for the plan of a program, with measured times if there are any."""
    from edgert.decisions import steps_of

    steps = steps_of(program, plan)
    graph = plan_graph(program, plan, steps)
    pairs = [(edge.source, edge.target) for edge in graph.edges]
    x, lanes = spread(graph.rows, pairs, WIDTH, LANE, GAP)
    width = 2 * MARGIN + max((centre + WIDTH / 2 for centre in x), default=0.0)
    height = DOWN * (max(graph.rows, default=0) + 1)
    places = [(MARGIN + centre, DOWN * row + (DOWN - HEIGHT) / 2) for centre, row in zip(x, graph.rows, strict=True)]
    drawn = [_line(first, last, row, width) for row, first, last in graph.lines]
    for edge, passing in zip(graph.edges, lanes, strict=True):
        drawn.append(_way(edge, places[edge.source], [MARGIN + lane for lane in passing], places[edge.target]))
    longest = max((d.compute for d in plan.decisions), default=1)
    for number, d in enumerate(plan.decisions):
        share = d.compute / max(longest, 1)
        took = None if times is None else times.decisions[number]
        told = _told(d, [program.steps[step].phase for step in steps[number]], took)
        drawn.append(_box(d, program.cores, places[number], share, told, took))
    for name, place in zip(graph.inputs, places[len(plan.decisions) :], strict=True):
        drawn.append(_input(name, place))
    measured = "" if times is None else f" Measured: {times.run / 1e6:.3f} ms."
    least = "" if plan.exact else " (not known to be the least)"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{escape(model)}: plan for {escape(named(program))}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; color: #1e293b; background: #fff; margin: 16px; }}
h1 {{ font-size: 20px; margin: 0; }}
svg {{ font: 11px system-ui, sans-serif; fill: #1e293b; }}
svg text {{ paint-order: stroke; stroke: #fff; stroke-width: 2px; stroke-opacity: 0.6; }}
svg .name {{ font-weight: 600; }}
svg .frame {{ fill: none; stroke: #64748b; }}
svg .box:hover .frame {{ stroke: #000; stroke-width: 2; }}
svg .way {{ fill: none; stroke-width: 2; }}
svg .tiles {{ stroke-width: 6; stroke-dasharray: 6 3; }}
svg .phase {{ stroke: #94a3b8; stroke-dasharray: 2 4; }}
svg .number {{ fill: #64748b; }}
.legend {{ display: flex; flex-wrap: wrap; gap: 6px 18px; align-items: center; margin: 8px 0 16px; }}
.legend svg {{ vertical-align: middle; }}
</style>
</head>
<body>
<h1>{escape(model)}</h1>
<p>Plan of the program for {escape(named(program))}. Predicted: {plan.nanoseconds / 1e6:.3f} ms{least} on
{escape(plan.machine)}.{measured} Boxes show predicted computing + moving; point at one to see what was decided, and
why.</p>
{_legend(program.cores, plan)}
<svg width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">
<defs>{_HATCH}</defs>
{chr(10).join(drawn)}
</svg>
</body>
</html>"""


_HATCH = (
    '<pattern id="shared" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3" height="8" fill="#fff" fill-opacity="0.6"/></pattern>'
)


def _box(d: Decision, cores: int, place: tuple[float, float], share: float, told: str, took: int | None) -> str:
    x, y = place[0] - WIDTH / 2, place[1]
    read, written = (*d.layouts.split(">"), "")[:2]
    time = f"{d.compute / 1e3:.1f} us" + (f" + {d.adjust / 1e3:.1f}" if d.adjust else "")
    time += "" if took is None else f", took {took / 1e3:.1f}"
    how = " ".join(filter(None, (d.operator, d.algorithm, split_text(d))))
    frame = f'<rect class="frame" x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}"/>'
    return "\n".join(
        (
            f'<g class="box"><title>{escape(told)}</title>',
            *_stripes(d, cores, x, y),
            _rect(x, y + HEIGHT - 7, WIDTH * share, 4, "#0f172a", 'fill-opacity="0.55"'),
            frame,
            _rect(x, y - 3, WIDTH, 4, _layout_colour(read)) if read else "",
            _rect(x, y + HEIGHT - 1, WIDTH, 4, _layout_colour(written)),
            f'<text class="name" x="{x + 6:.1f}" y="{y + 15:.1f}">{escape(_short(d.name))}</text>',
            f'<text x="{x + 6:.1f}" y="{y + 30:.1f}">{escape(_short(how, LETTERS + 6))}</text>',
            f'<text x="{x + 6:.1f}" y="{y + 45:.1f}">{escape(time)}</text></g>',
        )
    )


def _stripes(d: Decision, cores: int, x: float, y: float) -> list[str]:
    """One for each core, as wide as its part of the output (of an empty one: all alike); hatched if all share one
    computation."""
    parts = dict.fromkeys(range(cores) if d.split == "shared" else sorted({piece.core for piece in d.pieces}), 0)
    for piece in d.pieces if d.split != "shared" else ():
        parts[piece.core] += math.prod(max(end - begin, 0) for begin, end in piece.box)
    if not any(parts.values()):
        parts = dict.fromkeys(parts, 1)
    total = sum(parts.values())
    found = []
    for core, part in parts.items():
        width = WIDTH * part / total
        found.append(_rect(x, y, width, HEIGHT, _core_colour(core, cores)))
        if d.split == "shared":
            found.append(_rect(x, y, width, HEIGHT, "url(#shared)"))
        x += width
    return found


def _told(d: Decision, phases: Sequence[int], took: int | None) -> str:
    """The row of the table, one thing a line; `phases` of the steps."""
    shapes = ", ".join(f"{value.name} {list(value.shape)}" for value in d.outputs)
    lines = [
        " + ".join(d.nodes) or d.name,
        f"{d.operator} {d.algorithm}".strip() + f", {d.layouts}",
        f"makes {shapes}",
        f"split {split_text(d)}: {pieces_text(d)}",
        f"steps {len(phases)}, phase {' and '.join(map(str, dict.fromkeys(phases)))}" if phases else "nothing to do",
        f"predicted {d.compute / 1e3:.1f} us computing, {d.adjust / 1e3:.1f} us moving",
        "" if took is None else f"measured {took / 1e3:.1f} us",
        f"instead: {others_text(d)}" if d.on_device or d.others else f"runner-up: {runner_up_text(d)}",
    ]
    return "\n".join(filter(None, lines))


def _input(name: str, place: tuple[float, float]) -> str:
    x, y = place[0] - WIDTH / 2, place[1] + 24
    frame = _rect(x, y, WIDTH, HEIGHT - 24, "#f1f5f9", 'rx="16" stroke="#64748b"')
    text = f'<text class="name" text-anchor="middle" x="{place[0]:.1f}" y="{y + 20:.1f}">{escape(_short(name))}</text>'
    return f"<g><title>input {escape(name)}</title>{frame}{text}</g>"


def _way(edge: Edge, start: tuple[float, float], lanes: Sequence[float], end: tuple[float, float]) -> str:
    """From the bottom of a box past other rows to the top of another; a diamond where the layout changes."""
    x, y = start[0], start[1] + HEIGHT
    path, gap = [f"M{x:.1f} {y:.1f}"], DOWN - HEIGHT
    for position, to in enumerate((*lanes, end[0])):
        path.append(f"C{x:.1f} {y + gap / 2:.1f} {to:.1f} {y + gap / 2:.1f} {to:.1f} {y + gap:.1f}")
        if position < len(lanes):
            path.append(f"V{y + DOWN:.1f}")
        x, y = to, y + DOWN
    tiles = " tiles" if edge.tiles else ""
    colour = _layout_colour(edge.made)
    told, change = f"{edge.name}: {edge.made}" + ", in tiles" * edge.tiles, ""
    if edge.made != edge.needed:
        told += f" changed to {edge.needed}"
        change = _diamond(end[0], end[1] - 12, _layout_colour(edge.needed), colour)
    way = f'<path class="way{tiles}" stroke="{colour}" d="{"".join(path)}"/>'
    return f"<g><title>{escape(told)}</title>{way}{change}</g>"


def _line(first: int, last: int, row: int, width: float) -> str:
    """Where all cores wait for each other."""
    y = DOWN * row
    label = f"phase {last}" if first == last else f"phases {first} to {last}"
    return (
        f'<line class="phase" x1="0" x2="{width:.0f}" y1="{y}" y2="{y}"/>'
        f'<text class="number" x="2" y="{y + 12}">{label}</text>'
    )


def _legend(cores: int, plan: Plan) -> str:
    used = {value.layout for d in plan.decisions for value in (*d.inputs, *d.outputs)} | {"planar"}
    swatch = '<svg width="26" height="16">{}</svg>'
    items = [(_rect(0, 0, 26, 16, _core_colour(core, cores)), f"core {core}") for core in range(cores)]
    if any(d.split == "shared" for d in plan.decisions):
        items.append((_rect(0, 0, 26, 16, "#cbd5e1") + _rect(0, 0, 26, 16, "url(#shared)"), "shared by all cores"))
    for layout in sorted(used):
        items.append((_rect(0, 6, 26, 4, _layout_colour(layout)), f"{layout}: read at the top, written at the bottom"))
    path = '<path class="way{}" stroke="{}" d="M0 8H26"/>'
    if any(d.streams_in for d in plan.decisions):
        items.append((path.format(" tiles", "#475569"), "tile by tile"))
    items.append((_diamond(13, 8, "#94a3b8", "#475569"), "change of layout"))
    items.append((_rect(0, 6, 26, 4, "#0f172a", 'fill-opacity="0.55"'), "predicted time"))
    if cores > 1:
        items.append(('<line class="phase" x1="0" x2="26" y1="8" y2="8"/>', "all cores wait for each other"))
    shown = "\n".join(f"<span>{swatch.format(drawn)} {escape(text)}</span>" for drawn, text in items)
    return f'<div class="legend">\n{shown}\n</div>'


def _diamond(x: float, y: float, fill: str, stroke: str) -> str:
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in ((0, -7), (7, 0), (0, 7), (-7, 0)))
    return f'<polygon points="{points}" fill="{fill}" stroke="{stroke}" stroke-width="2"/>'


def _rect(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" {more}/>'


def _core_colour(core: int, cores: int) -> str:
    """Light colours around the circle, neighbours far apart."""
    red, green, blue = colorsys.hls_to_rgb((0.58 + core / max(cores, 1)) % 1.0, 0.82 if core % 2 == 0 else 0.76, 0.75)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _layout_colour(layouts: str) -> str:
    """Of the first one, where operands have several."""
    return LAYOUTS.get(layouts.split("+")[0], OTHER)


def _short(text: str, most: int = LETTERS) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= most else f"{text[: most // 3]}…{text[len(text) + most // 3 - most + 1 :]}"
