"""Race freedom of random programs: both readers against a comparison of every element that is touched."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tests.edgert.edge_files import Description, assemble
from tests.edgert.test_readers_agree import agreed

PLANAR, BLOCK16, WEIGHT16, DEPTH16 = range(4)
WHOLES = (
    (PLANAR, (3, 4)),
    (PLANAR, (4, 3)),
    (PLANAR, (4, 4)),
    (BLOCK16, (2, 40, 2)),
    (BLOCK16, (40,)),
    (WEIGHT16, (1, 40, 20, 2)),
    (DEPTH16, (40, 2)),
)


def blocked(layout: int, rank: int) -> tuple[int, ...]:
    """Dimensions that views cut between blocks only."""
    return {PLANAR: (), BLOCK16: (min(rank - 1, 1),), WEIGHT16: (1, 2), DEPTH16: (0,)}[layout]


def position(layout: int, whole: tuple[int, ...], index: tuple[int, ...]) -> int:
    """Where an element lies, by the formulas of docs/format.md; the first lane for all lanes of a block."""
    if layout == PLANAR:
        return int(np.ravel_multi_index(index, whole))
    if layout == BLOCK16 and len(whole) == 1:
        return index[0] // 16 * 16
    if layout == BLOCK16:
        n, c, *s = index
        inner = int(np.ravel_multi_index(s, whole[2:]))
        return ((n * -(-whole[1] // 16) + c // 16) * math.prod(whole[2:]) + inner) * 16
    if layout == WEIGHT16:
        (g, k, c, t), taps = index, whole[3]
        blocks, width = g * -(-whole[1] // 16) + k // 16, min(16, whole[2] - c // 16 * 16)
        return blocks * 16 * whole[2] * taps + 256 * taps * (c // 16) + (t * width + c % 16) * 16
    c, t = index
    return (c // 16 * whole[1] + t) * 16


def stored_bytes(layout: int, whole: tuple[int, ...]) -> int:
    padded = list(whole)
    for axis in blocked(layout, len(whole))[:1]:
        padded[axis] = -(-whole[axis] // 16) * 16
    return 4 * math.prod(padded)


def random_box(rng: np.random.Generator, layout: int, whole: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Begin and shape of a legal view: half of the tensor, or any part."""
    begin, shape = [], []
    halved = int(rng.integers(2 * len(whole)))
    for axis, extent in enumerate(whole):
        unit = 16 if axis in blocked(layout, len(whole)) else 1
        whole_kernel = layout in (WEIGHT16, DEPTH16) and axis >= (3 if layout == WEIGHT16 else 1)
        pieces = -(-extent // unit)
        first, last = sorted(rng.integers(0, pieces + 1, 2).tolist())
        if whole_kernel or (halved < len(whole) and halved != axis):
            first, last = 0, pieces
        elif halved == axis:
            first, last = ((0, pieces // 2), (pieces // 2, pieces))[int(rng.integers(2))]
        begin.append(min(first * unit, extent // unit * unit))
        shape.append(min(last * unit, extent) - begin[-1] if last > first else 0)
    return begin, shape


def random_program(rng: np.random.Generator) -> dict[str, Any]:
    tensors: list[Description] = []
    for _ in range(int(rng.integers(1, 4))):
        layout, whole = WHOLES[int(rng.integers(len(WHOLES)))]
        root = {"dtype": 1, "layout": layout, "shape": list(whole), "offset": 64 * int(rng.choice([0, 0, 0, 2, 20]))}
        tensors.append(root)
        number = len(tensors) - 1
        for _ in range(int(rng.integers(4))):
            begin, shape = random_box(rng, layout, whole)
            tensors.append(root | {"root": number, "begin": begin, "shape": shape})
    steps, phase = [], 0
    for number in range(int(rng.integers(2, 6))):
        phase += int(number > 0 and rng.random() < 0.3)
        operands = rng.integers(0, len(tensors), 3).tolist()
        core = int(rng.choice([0, 0, 1, 1, 2, 255]))
        steps.append({"kernel": "unary", "inputs": operands[:2], "outputs": operands[2:], "core": core, "phase": phase})
    return {"target": "cpu", "arch": "x86_64", "arena_bytes": 1 << 20, "tensors": tensors, "steps": steps, "cores": 3}


def touched(program: Description, tensor: int) -> set[int]:
    """The bytes of a tensor's elements, by their first."""
    found = program["tensors"][tensor]
    root = program["tensors"][found["root"]] if "root" in found else found
    begin, whole = found.get("begin", [0] * len(root["shape"])), tuple(root["shape"])
    elements = itertools.product(*(range(b, b + n) for b, n in zip(begin, found["shape"], strict=True)))
    return {root["offset"] + 4 * position(root["layout"], whole, index) for index in elements}


def overlap(program: Description, a: int, b: int) -> bool:
    """Whether two tensors have an element in common; of roots that differ, whether these overlap."""
    kinds = []
    for tensor in (a, b):
        found = program["tensors"][tensor]
        if 0 in found["shape"]:
            return False
        root = program["tensors"][found["root"]] if "root" in found else found
        kinds.append((root["offset"], root["layout"], tuple(root["shape"])))
    if kinds[0] == kinds[1]:
        return bool(touched(program, a) & touched(program, b))
    ends = [offset + stored_bytes(layout, whole) for offset, layout, whole in kinds]
    return kinds[0][0] < ends[1] and kinds[1][0] < ends[0]


def has_race(program: Description) -> bool:
    for first, second in itertools.combinations(program["steps"], 2):
        apart = first["core"] == second["core"] != 255
        if first["phase"] != second["phase"] or apart:
            continue
        for a, b in itertools.product(first["inputs"] + first["outputs"], second["inputs"] + second["outputs"]):
            if (a in first["outputs"] or b in second["outputs"]) and overlap(program, a, b):
                return True
    return False


def test_random_programs() -> None:
    rng = np.random.default_rng(21)
    races = 0
    for _ in range(800):
        program = random_program(rng)
        file = assemble(
            {"producer": "", "model": "", "programs": [program], "goldens": [], "segments": [], "contents": []}
        )
        wanted = has_race(program)
        assert agreed(file) == ("malformed" if wanted else "ok"), program
        races += wanted
    assert 200 < races < 650
