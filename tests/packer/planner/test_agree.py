"""The arithmetic of all programs of a bundle: the same for each, thrifty with memory, a compromise of their speeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from packer.ir import Graph, Value
from packer.planner import WORTH_OF_WEIGHTS, make_plan, make_plans, worth_their_cores
from packer.planner.agree import agreed
from packer.planner.costs import Costs
from packer.planner.problem import IMPOSSIBLE, Problem, build
from packer.planner.select import exact
from targets.base import resolve
from targets.machine import Machine
from tests.packer.planner.test_plan import chain

TARGET = resolve("cpu").on(Machine.load("zen4-server"))


def problem(graph: Graph, cores: int = 1) -> Problem:
    return build(graph, Costs(TARGET.on(TARGET.machine.sized(cores))), cores)


def weights_of(one: Problem, arithmetic: tuple[str, ...]) -> float:
    chosen = one.solve(exact, arithmetic).chosen
    return sum(float(own[i]) for own, i in zip(one.weights, chosen, strict=True))


def test_weights_count_as_they_are_stored() -> None:
    one = problem(chain(28, 64, 3))
    found = {choice.form.implementation: bytes for choice, bytes in zip(one.choices[0], one.weights[0], strict=True)}
    dense = 4 * 64 * 64 * 9
    assert found["packed"] == dense
    assert found["winograd2"] == dense * 16 / 9
    assert found["winograd4"] == dense * 36 / 9
    assert "winograd4-lean" not in found, "small weights need not be transformed in each run"
    one = problem(chain(14, 256, 3))
    found = {choice.form.implementation: bytes for choice, bytes in zip(one.choices[0], one.weights[0], strict=True)}
    assert found["winograd2-lean"] == found["winograd4-lean"] == found["packed"] == 4 * 256 * 256 * 9


def test_the_more_weights_are_worth_the_fewer_there_are() -> None:
    one = problem(chain(14, 256, 3, 3))
    bytes = [weights_of(one, agreed([one], worth)) for worth in (0.0, 0.2, 1.0, 10.0, 100.0)]
    assert bytes == sorted(bytes, reverse=True)
    assert bytes[0] > bytes[-1] == 2 * 4 * 256 * 256 * 9
    seconds = [one.solve(exact, agreed([one], worth)).cost for worth in (0.0, 100.0)]
    assert seconds[0] == pytest.approx(exact(one).cost)
    assert seconds[0] < seconds[1]
    assert agreed([one], WORTH_OF_WEIGHTS) == agreed([one], 0.0), "a network of few weights need not save any"


def test_solving_in_one_arithmetic() -> None:
    """The least of the choices that have it, in terms of all."""
    one = problem(chain(14, 64, 3, 1))
    for wanted in (("", ""), ("winograd2", ""), ("winograd4", "im2col-nhwc")):
        found = one.solve(exact, wanted)
        assert one.arithmetic(found.chosen) == wanted
        assert one.seconds(found.chosen) == pytest.approx(found.cost)
        assert found.cost >= exact(one).cost * (1 - 1e-9)


def test_the_least_sum_of_slowdowns_is_taken() -> None:
    """Two numbers of cores that disagree: the one that loses less by the other's arithmetic gives way."""
    base = problem(chain(14, 64, 3))

    def favouring(name: str, factor: float) -> Problem:
        own = tuple(
            np.array([1.0 if choice.form.arithmetic == name else factor for choice in choices])
            for choices in base.choices
        )
        return Problem(base.graph, base.costs, base.cores, base.choices, own, base.weights, base.edges)

    for mild, strong in (("winograd2", "winograd4"), ("winograd4", "winograd2")):
        pair = [favouring(mild, 1.1), favouring(strong, 2.0)]
        assert agreed(pair, 0.0) == agreed(pair[::-1], 0.0) == (strong,)


def sparse_chain(*kernels: int) -> Graph:
    """Convolutions half of whose weights are zeros."""
    dense = chain(14, 64, *kernels)
    values = dict(dense.values)
    for name in (f"w{i}" for i in range(len(kernels))):
        weights = np.asarray(dense.constant(name)).copy()
        weights.reshape(-1)[::2] = 0
        values[name] = Value.constant(name, weights)
    return replace(dense, values=values)


def costing(base: Problem, *sparse: float) -> Problem:
    """With layers that take 1.0 densely, and so much if zeros are left out; what lies between costs nothing."""
    own = tuple(
        np.array([{"": 1.0, "sparse": cost}.get(choice.form.arithmetic, 9.0) for choice in choices])
        for choices, cost in zip(base.choices, sparse, strict=True)
    )
    edges = {pair: np.where(matrix < IMPOSSIBLE, 0.0, matrix) for pair, matrix in base.edges.items()}
    return replace(base, own=own, edges=edges)


@pytest.mark.parametrize(("other", "arithmetic"), [(0.9, "sparse"), (1.0, "sparse"), (1.005, "sparse"), (1.1, "")])
def test_zeros_are_left_out_where_no_number_of_cores_is_slower(other: float, arithmetic: str) -> None:
    """However much another one would gain."""
    base = problem(sparse_chain(1))
    assert agreed([costing(base, 0.3), costing(base, other)], 0.0) == (arithmetic,)
    assert agreed([costing(base, other), costing(base, 0.3)], 0.0) == (arithmetic,)
    assert agreed([costing(base, 0.3)], 0.0) == ("sparse",)


def test_layers_where_one_loses_more_than_it_gains_elsewhere_stay_dense() -> None:
    """The second number of cores loses 0.6 by one layer, gains 0.05 by another; the third layer costs it no more than
    that, and the first number of cores gains by all."""
    base = problem(sparse_chain(1, 1, 1))
    first, second = costing(base, 0.5, 0.5, 0.5), costing(base, 1.6, 0.95, 1.02)
    assert agreed([first], 0.0) == ("sparse",) * 3
    assert agreed([second], 0.0) == ("", "sparse", "")
    assert agreed([first, second], 0.0) == agreed([second, first], 0.0) == ("", "sparse", "sparse")


def test_other_arithmetic_is_a_compromise_still() -> None:
    """A number of cores may lose by another's algorithm if that has nothing to do with zeros."""
    base = problem(sparse_chain(1))
    cheap, dear = (
        replace(
            base,
            own=tuple(
                np.array([{"": 1.0, "im2col-nhwc": cost}.get(choice.form.arithmetic, 9.0) for choice in choices])
                for choices in base.choices
            ),
        )
        for cost in (0.3, 1.1)
    )
    assert agreed([cheap, dear], 0.0) == ("im2col-nhwc",)


def test_all_numbers_of_cores_have_it() -> None:
    """Those beyond the machine's follow; whatever their order."""
    plans = make_plans(chain(28, 128, 3, 3, 1), TARGET, (4, 1, 2))
    assert [plan.problem.cores for plan in plans] == [4, 1, 2]
    assert len({plan.arithmetic for plan in plans}) == 1
    assert all(make_plan(chain(28, 128, 3), TARGET, n).solution.exact for n in (1, 3))


def test_more_cores_have_to_save_time() -> None:
    """What a small network gains is less than it takes to wake a worker."""
    small, large = (make_plans(chain(size, 64, 3), TARGET, (1, 2, 4)) for size in (4, 56))
    assert [plan.problem.cores for plan in worth_their_cores(small)] == [1]
    assert [plan.problem.cores for plan in worth_their_cores(large)] == [1, 2, 4]
    assert worth_their_cores(large[1:]) == large[1:]
    assert worth_their_cores((large[0], small[1], large[2])) == (large[0], small[1])
