"""Predictions: what bounds a kernel follows from the board, and nothing is quicker than its parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from targets.cuda.board import BOARDS
from targets.cuda.demand import BOUNDS, Demand, held, parts_of
from targets.cuda.emit import emit
from targets.cuda.model import Prediction, count, predict
from tests.targets.cuda.layers import layer_of
from tests.targets.cuda.model.cases import CASES, constants, sizes

BOARD = BOARDS["jetson"]
SLOW = {  # changes of the board that make one part slow
    "issue": {"ghz": 0.01, "code_bytes_per_cycle": 1e3, "memory_cycles": 1, "l2_bytes_per_cycle": 1e4},
    "latency": {"memory_cycles": 1_000_000},
    "dram": {"gbps": 0.01},
    "l2": {"l2_bytes_per_cycle": 0.01},
    "code": {"code_bytes_per_cycle": 1e-5},
    "launch": {"launch_seconds": 1.0},
}


def predicted(name: str, **changes: float) -> list[Prediction]:
    case = CASES[name]()
    board = replace(BOARD, **changes)  # type: ignore[arg-type]
    return [predict(kernel, count(kernel, constants(case)), board, sizes(case)) for kernel in case.code.kernels]


@pytest.mark.parametrize("name", CASES)
def test_time_is_between_the_largest_part_and_the_sum(name: str) -> None:
    for found in predicted(name):
        assert tuple(found.parts) == BOUNDS
        inside = [seconds for part, seconds in found.parts.items() if part != "launch"]
        assert max(inside) <= found.seconds - BOARD.launch_seconds <= sum(inside)
        assert found.parts[found.bound] == max(found.parts.values())


@pytest.mark.parametrize("bound", SLOW)
def test_what_is_slow_is_the_bound(bound: str) -> None:
    assert [found.bound for found in predicted("t1", **SLOW[bound])] == [bound]


def test_operands_are_read_once_where_the_cache_holds_them() -> None:
    case = CASES["add"]()
    (found,) = predicted("add")
    assert found.demand.dram == pytest.approx(sum(sizes(case)), rel=0.02)


def test_products_take_at_least_the_peak() -> None:
    (found,) = predicted("t1")
    (kernel,) = CASES["t1"]().code.kernels
    products = kernel.multiplies * 28 * 28
    assert found.parts["issue"] > products / BOARD.issue
    assert found.classes["ffma"] * 32 >= products


def test_registers_bound_the_blocks_of_a_multiprocessor() -> None:
    assert [held(BOARD, 128, registers, 0) for registers in (32, 64, 128, 255)] == [16, 8, 4, 2]
    assert held(BOARD, 128, 32, BOARD.shared_bytes // 3) == 3


def test_code_beyond_the_cache_is_fetched_again_by_every_wave() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    small, large = (weights * (np.random.default_rng(1).random(weights.shape) < d) for d in (0.02, 0.3))
    times = []
    for own, size in ((small, 56), (large, 56), (large, 112)):
        (kernel,) = emit(layer_of(own, (size, size), pads=(1, 1, 1, 1)))[:1]
        found = predict(kernel, count(kernel), BOARD, [0, 0])
        times.append(found.parts["code"] * BOARD.ghz * 1e9 * BOARD.code_bytes_per_cycle / found.demand.code)
    assert times[0] == pytest.approx(1)
    assert times[1] > 2
    assert times[2] > 2 * times[1]


@pytest.mark.parametrize(
    ("blocks", "slices", "held", "first", "again"),
    [
        (2, 1, 1, 1, 0),  # a block for each multiprocessor: its code comes once
        (2, 8, 4, 1, 0),  # of each other slice
        (64, 1, 4, 1, 7),  # eight waves of blocks of one slice
        (64, 8, 4, 8, 0),  # a wave of each slice
        (64, 4, 4, 4, 4),
    ],
)
def test_code_comes_once_a_slice_and_again_each_wave(
    blocks: int, slices: int, held: int, first: int, again: int
) -> None:
    board = replace(BOARD, multiprocessors=2, code_bytes=999, code_bytes_per_cycle=2.0, code_bytes_per_cycle_again=0.5)
    small, large = (
        parts_of(Demand(blocks, 4, held, 0, 0, 0, 0, 0, size * slices, slices, 0), board)["code"] * board.ghz * 1e9
        for size in (100.0, 1000.0)
    )
    assert small == pytest.approx(100 * first / 2)
    assert large == pytest.approx(1000 * (first / 2 + again / 0.5))
