"""Arena placement: no overlap, aligned, close to the lower bound."""

from __future__ import annotations

import numpy as np
import pytest

from packer.planner.memory import ALIGN, Arena, Buffer, place


def check(buffers: list[Buffer], arena: Arena) -> None:
    assert arena.bytes >= arena.floor
    for i, (a, x) in enumerate(zip(buffers, arena.offsets, strict=True)):
        assert x % ALIGN == 0
        assert x + a.bytes <= arena.bytes
        for b, y in zip(buffers[:i], arena.offsets, strict=False):
            if a.first <= b.last and b.first <= a.last and a.bytes and b.bytes:
                assert x + a.bytes <= y or y + b.bytes <= x


@pytest.mark.parametrize("seed", range(30))
def test_random_lifetimes(seed: int) -> None:
    random = np.random.default_rng(seed)
    buffers = []
    for _ in range(int(random.integers(1, 60))):
        first = int(random.integers(0, 40))
        buffers.append(Buffer(int(random.integers(0, 5000)), first, first + int(random.integers(0, 6))))
    arena = place(buffers)
    check(buffers, arena)
    assert arena.bytes <= 1.35 * arena.floor
    of_cores = [Buffer(b.bytes, b.first, b.last, int(random.integers(-1, 4))) for b in buffers]
    check(of_cores, place(of_cores))
    assert place(of_cores).bytes == arena.bytes


def test_a_chain_needs_two_neighbours_only() -> None:
    buffers = [Buffer(size, i, i + 1) for i, size in enumerate([640, 1280, 2560, 64, 6400, 64])]
    arena = place(buffers)
    check(buffers, arena)
    assert arena.bytes == arena.floor == 2560 + 64 + 6400 - 2560


def test_nothing_to_place() -> None:
    assert place([]) == Arena((), 0, 0)


@pytest.mark.parametrize("cores", [2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_cores_keep_apart(seed: int, cores: int) -> None:
    """Where each core goes through a chain of its own, in as little memory as without."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 50, 20) * ALIGN
    buffers = [Buffer(int(size), i, i + 1, core) for i, size in enumerate(sizes) for core in range(cores)]
    buffers += [Buffer(int(random.integers(1, 50)) * ALIGN, 0, 20)]
    arena = place(buffers)
    check(buffers, arena)
    assert arena.bytes == place([Buffer(b.bytes, b.first, b.last) for b in buffers]).bytes
    middle = [
        np.mean([x + b.bytes / 2 for b, x in zip(buffers, arena.offsets, strict=True) if b.core == core])
        for core in range(cores)
    ]
    assert sorted(middle) == middle
