"""The drawn plan: nothing overlaps, time goes downwards, every core has its stripe, and nothing comes from outside."""

from __future__ import annotations

import itertools
import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgert.cli._layers import spread
from edgert.cli._plan_graph import plan_graph
from edgert.cli._plan_html import HEIGHT, WIDTH, page
from edgert.cli._times import Times
from edgert.decisions import Decision, Piece, Plan, Value, read_plan, steps_of
from edgert.reader import Program, read
from packer.api import pack
from tests.e2e.random_networks import random_network
from tests.edgert.edge_files import assemble, split_description
from tests.packer.passes.random_models import random_model

BOX, LANE, GAP = 100.0, 10.0, 20.0


@pytest.mark.parametrize("seed", range(20))
def test_nothing_overlaps(seed: int) -> None:
    rng = random.Random(seed)
    rows = sorted(rng.randrange(8) for _ in range(rng.randint(1, 30)))
    pairs = [(u, v) for u in range(len(rows)) for v in range(len(rows)) if rows[u] < rows[v]]
    edges = rng.sample(pairs, min(len(pairs), 40))
    x, lanes = spread(rows, edges, BOX, LANE, GAP)
    taken: dict[int, list[tuple[float, float]]] = {}
    for centre, row in zip(x, rows, strict=True):
        taken.setdefault(row, []).append((centre - BOX / 2, centre + BOX / 2))
    for (u, v), passing in zip(edges, lanes, strict=True):
        assert len(passing) == rows[v] - rows[u] - 1
        for row, centre in enumerate(passing, rows[u] + 1):
            taken.setdefault(row, []).append((centre - LANE / 2, centre + LANE / 2))
    for spans in taken.values():
        spans.sort()
        assert all(after[0] - before[1] >= GAP - 1e-6 for before, after in itertools.pairwise(spans))
    assert min(span[0] for spans in taken.values() for span in spans) == pytest.approx(0)
    assert spread(rows, edges, BOX, LANE, GAP) == (x, lanes)


def test_chains_and_diamonds_are_straight() -> None:
    x, _ = spread([0, 1, 2], [(0, 1), (1, 2)], BOX, LANE, GAP)
    assert x == pytest.approx([BOX / 2] * 3)
    x, _ = spread([0, 1, 1, 2], [(0, 1), (0, 2), (1, 3), (2, 3)], BOX, LANE, GAP)
    assert x == pytest.approx([BOX + GAP / 2, BOX / 2, BOX / 2 + BOX + GAP, BOX + GAP / 2])
    assert spread([], [], BOX, LANE, GAP) == ([], [])


def plans(folder: Path) -> Iterator[tuple[Program, Plan]]:
    """Of random networks, on one core and on several."""
    for seed in range(30):
        model = random_model(seed) if seed % 2 else random_network(seed).model
        pack(model, folder / "m.edge", golden=False, cores=(1, 2 + seed % 3), partial_sums=True)
        bundle = read(folder / "m.edge")
        for program in bundle.programs:
            yield program, read_plan(bundle, program)


def test_time_goes_downwards(tmp_path: Path) -> None:
    lines = 0
    for program, plan in plans(tmp_path):
        steps = steps_of(program, plan)
        graph = plan_graph(program, plan, steps)
        assert len(graph.rows) == len(plan.decisions) + len(graph.inputs)
        assert set(graph.inputs) <= {program.tensors[i].name for i in program.inputs}
        assert all(graph.rows[edge.source] < graph.rows[edge.target] for edge in graph.edges)
        assert len(graph.edges) == sum(len(decision.inputs) for decision in plan.decisions)
        lines += len(graph.lines)
        for row, first, last in graph.lines:
            assert 0 < first <= last
            for own, of, d in zip(steps, graph.rows, plan.decisions, strict=False):
                outputs = {value.name for value in d.outputs}
                readers = [v for v, r in enumerate(plan.decisions) if outputs & {value.name for value in r.inputs}]
                if own and min((min(steps[v]) for v in readers if steps[v]), default=own[0]) < own[0]:
                    assert all(set(program.steps[step].outputs) <= {*program.outputs} for step in own)
                    continue  # copies to outputs, long after others have read what is copied
                for step in own:
                    assert (program.steps[step].phase < first) == (of < row) or program.steps[step].phase > last
    assert lines > 10


def drawing(html: str) -> ElementTree.Element:
    """The picture below the legend, as XML."""
    return ElementTree.fromstring(html[html.rindex("<svg ") : html.rindex("</svg>") + len("</svg>")])


def test_every_operator_has_a_box_with_stripes(tmp_path: Path) -> None:
    for program, plan in plans(tmp_path):
        svg = drawing(page("net", program, plan))
        boxes = svg.findall("g[@class='box']")
        assert len(boxes) == len(plan.decisions)
        for box, decision in zip(boxes, plan.decisions, strict=True):
            told = box.findtext("title") or ""
            for part in (decision.operator, decision.layouts, decision.split, "runner-up: ", "predicted "):
                assert part in told
            high = [rect for rect in box.findall("rect") if rect.get("height") == f"{HEIGHT:.1f}"]
            stripes = [rect for rect in high if rect.get("fill") != "url(#shared)"]
            cores = program.cores if decision.split == "shared" else len({piece.core for piece in decision.pieces})
            assert len(stripes) == len({stripe.get("fill") for stripe in stripes}) == cores
            assert sum(float(stripe.get("width", 0)) for stripe in stripes) == pytest.approx(WIDTH, abs=0.1 * cores)
        ways = svg.findall("g/path")
        assert len(ways) == sum(len(decision.inputs) for decision in plan.decisions)
        streams = sum(decision.streams_in for decision in plan.decisions)
        assert sum("tiles" in (way.get("class") or "") for way in ways) == streams


def test_nothing_comes_from_outside_and_names_are_text(tmp_path: Path) -> None:
    program = read(assemble(split_description())).programs[0]
    hostile = '</title><script src="http://x">alert(1)</script>&"\'\x1b'
    decision = Decision(
        nodes=(hostile,),
        operator=hostile,
        inputs=(Value(hostile, hostile),),
        outputs=(Value(hostile, hostile, (4, 4)),),
        algorithm=hostile,
        layouts=hostile,
        split=hostile,
        pieces=(Piece(0, ((0, 4), (0, 2))), Piece(1, ((0, 4), (2, 4)))),
        streams_in=True,
        streams_out=True,
        compute=1,
        adjust=-(10**30),
        runner_up=None,
    )
    empty = replace(decision, nodes=(), inputs=(), outputs=(), layouts="", pieces=(), compute=0)
    html = page(hostile, program, Plan(hostile, 1, False, (decision, empty)), Times((5, None), 0, 7))
    assert "<script" not in html
    assert not re.search(r"(src|href)\s*=", re.sub(r"&\w+;|src=&quot;", "", html))
    assert set(re.findall(r"url\([^)]*\)", html)) <= {"url(#shared)"}
    assert "not known to be the least" in html
    assert "took" in html
    assert page("net", program, Plan("m", 0, True, ())).count("<svg") > 1


def test_measured_times_are_told(tmp_path: Path) -> None:
    program, plan = next(plans(tmp_path))
    times = Times(tuple(1000 * i + 500 for i in range(len(plan.decisions))), 0, 123456)
    html = page("net", program, plan, times)
    assert "Measured: 0.123 ms" in html
    titles = [box.findtext("title") or "" for box in drawing(html).findall("g[@class='box']")]
    assert all(f"measured {i}.5 us" in title for i, title in enumerate(titles))
