"""Plans as bundles tell them: what is not one is refused, and each step is found to be somebody's."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from edgert.decisions import Plan, parse_plan, read_plan, steps_of
from edgert.errors import InvalidArgumentError, MalformedError
from edgert.reader import Program, read
from packer.api import pack
from tests.e2e.random_networks import random_network
from tests.edgert.edge_files import assemble, changed, description
from tests.edgert.networks import classifier, packed
from tests.packer.passes.random_models import random_model

RIVAL = {"algorithm": "direct", "layouts": "planar>planar", "split": "C2", "compute": -5, "adjust": 7, "decisions": 1}
DECISION: dict[str, Any] = {
    "nodes": ["conv", "relu"],
    "operator": "Conv",
    "inputs": [{"name": "x", "layout": "planar"}],
    "outputs": [{"name": "y", "layout": "block16", "shape": [1, 16]}],
    "algorithm": "packed",
    "layouts": "planar>block16",
    "split": "C2",
    "pieces": [[0, [[0, 1], [0, 8]]], [1, [[0, 1], [8, 16]]]],
    "streams_in": False,
    "streams_out": True,
    "compute": 10,
    "adjust": 0,
    "runner_up": RIVAL,
}
PLAN: dict[str, Any] = {"machine": "µ", "nanoseconds": 10, "exact": True, "decisions": [DECISION]}


def test_parses() -> None:
    plan = parse_plan(json.dumps(PLAN | {"later": 1}))
    assert (plan.machine, plan.nanoseconds, plan.exact) == ("µ", 10, True)
    (found,) = plan.decisions
    assert (found.name, found.nodes, found.operator, found.algorithm) == ("conv", ("conv", "relu"), "Conv", "packed")
    assert (found.inputs[0].name, found.inputs[0].layout, found.inputs[0].shape) == ("x", "planar", ())
    assert (found.outputs[0].name, found.outputs[0].layout, found.outputs[0].shape) == ("y", "block16", (1, 16))
    assert [(p.core, p.box) for p in found.pieces] == [(0, ((0, 1), (0, 8))), (1, ((0, 1), (8, 16)))]
    assert (found.split, found.streams_in, found.streams_out) == ("C2", False, True)
    assert (found.compute, found.adjust) == (10, 0)
    assert found.runner_up is not None
    assert (found.runner_up.compute, found.runner_up.adjust, found.runner_up.decisions) == (-5, 7, 1)
    assert (plan.rounding, found.rounding) == (None, None)
    assert parse_plan(json.dumps(PLAN).encode()) == plan
    plan = parse_plan(json.dumps(PLAN | {"rounding": 2e-3, "decisions": [DECISION | {"rounding": 1e-4}]}))
    assert (plan.rounding, plan.decisions[0].rounding) == (2e-3, 1e-4)
    assert (found.bound, found.others) == ("", ())
    (found,) = parse_plan(json.dumps(PLAN | {"decisions": [DECISION | {"bound": "l2", "others": [RIVAL]}]})).decisions
    assert (found.bound, found.others) == ("l2", (found.runner_up,))


def broken() -> list[tuple[str, Any]]:
    """Where in PLAN, and what is put there instead."""
    found: list[tuple[str, Any]] = [(name, value) for name in PLAN for value in (None, {}, 1.5)]
    found += [(f"decisions.0.{name}", value) for name in DECISION if name != "runner_up" for value in (None, {}, 1.5)]
    found += [(f"decisions.0.runner_up.{name}", value) for name in RIVAL for value in (None, [], 1.5)]
    found += [("decisions.0", value) for value in (None, 1, "x", [])]
    found += [("decisions.0.pieces.0", value) for value in (None, 1, [0], [0, [[0, 1]]], [0, [[0]]], ["0", []])]
    found += [("decisions.0.bound", 1), ("decisions.0.others", {}), ("decisions.0.others", [{}])]
    found += [("decisions.0.compute", True), ("exact", 1), ("nanoseconds", float("nan")), ("nanoseconds", "1")]
    found += [(f"{where}rounding", value) for where in ("", "decisions.0.") for value in ("1", -1.0, float("nan"))]
    return found


@pytest.mark.parametrize(("path", "value"), broken(), ids=str)
def test_refuses_what_is_no_plan(path: str, value: Any) -> None:
    raw: Any = copy.deepcopy(PLAN)
    place, *way = raw, *path.split(".")
    for part in way[:-1]:
        place = place[int(part) if part.isdecimal() else part]
    last = way[-1]
    place[int(last) if last.isdecimal() else last] = value
    with pytest.raises(MalformedError, match="the plan"):
        parse_plan(json.dumps(raw))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'"x"', b"{}"])
def test_refuses_what_is_no_json_object(text: bytes) -> None:
    with pytest.raises(MalformedError, match="the plan"):
        parse_plan(text)


def test_a_plan_that_is_broken_leaves_the_bundle_alone() -> None:
    def change(described: dict[str, Any]) -> None:
        described["programs"][0]["plan"] = 2
        described["segments"].append({"name": "plan"})
        described["contents"].append(b"no JSON")

    bundle = read(assemble(changed(change)))
    assert bundle.programs[0].plan == 2
    with pytest.raises(MalformedError, match="the plan"):
        read_plan(bundle, bundle.programs[0])


def test_no_plan() -> None:
    bundle = read(assemble(description()))
    with pytest.raises(InvalidArgumentError, match=r"does not tell.*\n.*edgert pack"):
        read_plan(bundle, bundle.programs[0])


def owned(program: Program, plan: Plan) -> list[int]:
    """The steps that belong to a decision, each to one."""
    steps = [number for own in steps_of(program, plan) for number in own]
    assert len(set(steps)) == len(steps)
    return sorted(steps)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_steps_belong_to_the_operators_they_stand_for(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        model = random_model(seed) if seed % 2 else random_network(seed).model
        pack(model, tmp_path / "m.edge", golden=False, cores=(1, 3), partial_sums=True)
        bundle = read(tmp_path / "m.edge")
        for program in bundle.programs:
            plan = read_plan(bundle, program)
            for decision, own in zip(plan.decisions, steps_of(program, plan), strict=True):
                assert all(program.steps[i].nodes in (decision.nodes, ()) for i in own)
                cores = {program.steps[i].core for i in own if program.steps[i].nodes}
                if own and decision.split not in ("shared", "none") and not decision.split.startswith("sum"):
                    expected = {piece.core for piece in decision.pieces}
                    views = decision.operator in ("Concat", "Reshape", "Slice")  # that need no step, or of a part
                    assert cores <= expected if views else cores == expected
                if decision.split == "shared" and own:
                    assert cores <= {255}
            named = [i for i, step in enumerate(program.steps) if step.nodes]
            assert set(named) <= set(owned(program, plan))


def test_the_classifier(tmp_path: Path) -> None:
    bundle = read(packed(classifier(), tmp_path, shapes={"image": (1, 3, 10, 8)}))
    for program in bundle.programs:
        plan = read_plan(bundle, program)
        assert plan.decisions[0].nodes == ("conv", "relu")
        assert plan.decisions[0].outputs[0].shape == (1, 6, 10, 8)
