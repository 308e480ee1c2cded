"""Where to draw the nodes of a graph whose rows are known: few crossings, straight long edges.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", 1981: edges that
pass rows get a place in each; then rows are ordered and placed by their neighbours' means, downwards and upwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

__all__ = ["spread"]

SWEEPS = 16


def spread(
    rows: Sequence[int], edges: Sequence[tuple[int, int]], width: float, lane: float, gap: float
) -> tuple[list[float], list[list[float]]]:
    """The centre of each node, and of each edge in every row that it passes, in between. The leftmost edge of all is 0.

    `rows` are those of the nodes; edges (from, to) lead downwards. Nodes are `width` wide, edges in passing `lane`,
    with `gap` between them.
    """
    row_of, widths = list(rows), [width] * len(rows)
    passing: list[list[int]] = []
    above: list[list[int]] = [[] for _ in rows]
    below: list[list[int]] = [[] for _ in rows]
    for u, v in edges:
        lanes = range(len(row_of), len(row_of) + rows[v] - rows[u] - 1)
        row_of += range(rows[u] + 1, rows[v])
        widths += [lane] * len(lanes)
        above += [[] for _ in lanes]
        below += [[] for _ in lanes]
        way = [u, *lanes, v]
        for a, b in itertools.pairwise(way):
            below[a].append(b)
            above[b].append(a)
        passing.append(list(lanes))
    members: list[list[int]] = [[] for _ in range(max(row_of, default=-1) + 1)]
    for item, row in enumerate(row_of):
        members[row].append(item)
    x = [0.0] * len(row_of)
    for together in members:
        _place(together, dict.fromkeys(together, 0.0), widths, gap, x)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for together in members if sweep % 2 == 0 else reversed(members):
            wished = {}
            for item in together:
                beside = neighbours[item]
                wished[item] = sum(x[other] for other in beside) / len(beside) if beside else x[item]
            together.sort(key=wished.__getitem__)
            _place(together, wished, widths, gap, x)
    left = min((centre - own / 2 for centre, own in zip(x, widths, strict=True)), default=0.0)
    x = [centre - left for centre in x]
    return x[: len(rows)], [[x[lane] for lane in lanes] for lanes in passing]


def _place(row: Sequence[int], wished: dict[int, float], widths: Sequence[float], gap: float, x: list[float]) -> None:
    """Put the items of a row, in this order, close to where they wish to be: between pushing all that are too close to
    the right, and to the left."""
    rightwards: list[float] = []
    for i, item in enumerate(row):
        apart = (widths[row[i - 1]] + widths[item]) / 2 + gap
        rightwards.append(max(wished[item], rightwards[-1] + apart) if rightwards else wished[item])
    least = float("inf")
    for i in reversed(range(len(row))):
        item = row[i]
        least = min(wished[item], least)
        x[item] = (rightwards[i] + least) / 2
        if i:
            least -= (widths[row[i - 1]] + widths[item]) / 2 + gap
