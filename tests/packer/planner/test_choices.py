"""The choices of nodes: forms with a grain of their own are cut where they allow it, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Conv, MatMul, Pad, Unary
from packer.planner import make_plan
from packer.planner.choices import choices_of
from packer.planner.costs import Costs
from packer.planner.problem import build
from packer.planner.schedule import schedule
from packer.planner.select import sample
from targets.base import Form, Target, resolve
from targets.cpu import CpuTarget
from targets.machine import Machine
from tests.packer.planner.prove import prove
from tests.packer.planner.test_plan import chain

GRAIN = (1, 1, 4, 4)


@dataclass(frozen=True, slots=True)
class Tiled(CpuTarget):
    """A target whose packed 3x3 convolutions exist a second time, for pieces that begin at multiples of 4 pixels;
    without `both` only so."""

    both: bool = True

    def forms(self, graph: Graph, node: Node) -> tuple[Form, ...]:
        forms = CpuTarget.forms(self, graph, node)
        if not isinstance(node.op, Conv) or graph.type(node.inputs[1] or "").shape[2:] != (3, 3):
            return forms
        tiled = tuple(replace(form, grain=GRAIN) for form in forms if form.implementation == "packed")
        return (*forms, *tiled) if self.both else tiled


def target(name: str = "cpu", both: bool = True) -> Tiled:
    cpu = resolve(name)
    assert isinstance(cpu, CpuTarget)
    return Tiled(**{field.name: getattr(cpu, field.name) for field in fields(cpu)}, both=both)


def on(target: Target, cores: int) -> Costs:
    return Costs(target.on(target.machine.sized(cores)))


def test_rows_are_cut_between_tiles() -> None:
    """28 rows for two cores, at multiples of 4: 16 and 12; forms without a grain get 14 and 14."""
    for choice in choices_of(chain(28, 32, 3), on(target(), 2), 2)[0]:
        rows = [piece.box[2] for piece in choice.split.pieces]
        if choice.split.name == "H2@4":
            assert choice.form.grain == GRAIN
            assert rows == [(0, 16), (16, 28)]
        elif choice.split.name == "H2":
            assert choice.form.grain == ()
            assert rows == [(0, 14), (14, 28)]


def test_transformed_weights_fill_a_cache_together() -> None:
    """Those of two 3x3 layers stay in the third cache, 19 MB; of four they would come from memory."""
    machine = target().on(Machine.load("zen4-server"))

    def algorithms(layers: int) -> set[str]:
        return {choice.form.implementation for choice in make_plan(chain(7, 256, *[3] * layers), machine).choices}

    assert algorithms(2) == {"winograd4"}
    assert algorithms(4) == {"winograd2"}


@pytest.mark.parametrize("seed", range(24))
def test_pieces_begin_where_their_form_allows(seed: int) -> None:
    random = np.random.default_rng(seed)
    cores = 1 + seed % 5
    names = set()
    graph = chain(int(random.choice([13, 22, 27, 30])), 32, 3, *(int(k) for k in random.choice([1, 3, 5], 2)))
    for choices in choices_of(graph, on(target(), cores), cores):
        for choice in choices:
            assert all(choice.form.fits(piece.box) for piece in choice.split.pieces)
            names.add(choice.split.name)
        forms = [(c.form.inputs, c.form.outputs, c.form.arithmetic) for c in choices]
        kinds = [
            (*form, c.split.pieces, c.takes, c.streams_out, c.banded) for form, c in zip(forms, choices, strict=True)
        ]
        assert len(set(kinds)) == len(kinds), "no two choices of one arithmetic that neighbours cannot tell apart"
    assert cores == 1 or any("@4" in name for name in names)


def test_depth_first_tiles_keep_the_grain() -> None:
    tiled, graph = target("cpu-jetson-tx2", both=False), chain(500, 16, 3, 1, 3)
    for cores in (1, 2):
        last = [choice for choice in choices_of(graph, on(tiled, cores), cores)[-1] if choice.takes]
        assert last
        for choice in last:
            assert choice.split.name.startswith(("none/", "H2@4/")[cores - 1])
            assert all(piece.box[2][0] % 4 == 0 for piece in choice.split.pieces)
            assert choice.split.pieces[-1].box[2][1] == 500


@pytest.mark.parametrize("seed", range(12))
def test_splits_of_different_pieces_are_not_confused(seed: int) -> None:
    """Random plans read what was meant, wherever neighbours are cut at different rows under similar names."""
    graph, cores = chain(14, 16, 3, 1, 3), 2 + seed % 3
    problem = build(graph, on(target(), cores), cores)
    chosen = sample(problem, np.random.default_rng(seed)).chosen
    choices = [own[i] for own, i in zip(problem.choices, chosen, strict=True)]
    prove(graph, schedule(graph, problem.costs.target, choices, cores))


@pytest.mark.parametrize("cores", [1, 2])
def test_filters_that_are_sorted_together_stay_together(cores: int) -> None:
    """Whoever reads a part of them in tiles: here all but the last 16."""
    weights = (np.random.default_rng(0).random((1024, 512, 1, 1)) < 0.1).astype(np.float32)
    conv, crop = Conv((1, 1), (0, 0, 0, 0), (1, 1)), Pad((0, 0, 0, 0, 0, -16, 0, 0))
    values = [Value("x", TensorType(DType.F32, (1, 512, 30, 30))), Value.constant("w", weights)]
    values.append(Value("y", conv.infer([value.type for value in values])[0]))
    values.append(Value("z", crop.infer([values[-1].type])[0]))
    nodes = Node(conv, ("x", "w"), ("y",)), Node(crop, ("y",), ("z",))
    graph = Graph("g", ("x",), ("z",), nodes, {value.name: value for value in values})
    found = [c for c in choices_of(graph, on(resolve("cpu"), cores), cores)[0] if c.form.grain == (1, 32, 1, 1)]
    assert found
    assert all(end % 32 == 0 for c in found for p in c.split.pieces for end in p.box[1])


@pytest.mark.parametrize("cores", [2, 5])
@pytest.mark.parametrize("matrix", [False, True])
def test_sparse_filters_are_cut_by_their_non_zeros(cores: int, matrix: bool) -> None:
    """The first filters have four times the weights of the last: cores get different numbers of filters."""
    share = np.repeat(0.2 * 4.0 ** -np.linspace(0, 1, 64), 16)
    weights = (np.random.default_rng(0).random((1024, 512)) < share[:, None]).astype(np.float32)
    op = MatMul() if matrix else Conv((1, 1), (0, 0, 0, 0), (1, 1), 1)
    values = [Value("x", TensorType(DType.F32, (1, 512) if matrix else (1, 512, 7, 7)))]
    values.append(Value.constant("w", weights.T if matrix else weights[:, :, None, None]))
    values.append(Value("y", op.infer([value.type for value in values])[0]))
    graph = Graph("g", ("x",), ("y",), (Node(op, ("x", "w"), ("y",)),), {value.name: value for value in values})
    plan = make_plan(graph, resolve("cpu"), cores, implementation="sparse")
    (choice,) = plan.choices
    assert choice.split.name.replace("axis1.", "C") == f"C{cores}~"
    before = np.cumsum([0, *np.count_nonzero(weights, axis=1)])
    loads = [int(before[end] - before[begin]) for begin, end in (piece.box[1] for piece in choice.split.pieces)]
    assert max(loads) < 1.1 * before[-1] / cores
    assert max(choice.busy) < 1.1 * min(choice.busy), "the cost of each piece is that of its own weights"
    (others,) = choices_of(graph, on(resolve("cpu"), cores), cores)
    names = {other.split.name for other in others if other.form.implementation != "sparse"}
    assert not any("~" in name for name in names), "dense pieces of unequal size are of no use"
    prove(graph, plan.program())


def test_tiles_along_the_last_dimension_are_no_short_runs() -> None:
    """What is cut there lies in rows apart: at least 256 elements of each are together."""
    for extent, most in ((500, 0), (700, 2), (2000, 7)):
        values = {name: Value(name, TensorType(DType.F32, (1, 6000, extent))) for name in "xyz"}
        nodes = Node(Unary("exp"), ("x",), ("y",), ()), Node(Unary("neg"), ("y",), ("z",), ())
        graph = Graph("g", ("x",), ("z",), nodes, values)
        counts = [len(c.split.pieces) for c in choices_of(graph, on(resolve("cpu-x86_64-avx512"), 1), 1)[-1] if c.takes]
        assert max(counts, default=0) == most
