"""The planner cuts convolutions, in its mind, as kernels do: what it predicts is what runs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from packer.ir import SINGLE, Block
from packer.ir.ops import Conv
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Work, attributes_of
from targets.cpu import tiling, unrolled
from targets.cpu.cost.conv import geometry
from tests.runtime_c.kernels.convolutions import choice
from tests.runtime_c.kernels.harness import cut_by, isas

LANES = {"avx512": 16, "avx2": 8, "neon": 4}  # of the instruction sets that targets are planned for


def random_work(rng: np.random.Generator) -> tuple[Work, Conv, np.ndarray]:
    """A convolution of one image, and its weights."""
    taps, group = choice(rng, 1, 1, 1, 3, 5), choice(rng, 1, 1, 1, 2)
    channels, filters = (int(2 ** rng.uniform(2, most)) // group for most in (10, 10 if taps == 1 else 8))
    kernel = (taps, choice(rng, 1, taps, taps))
    size = [choice(rng, 4, 8, 12, 16, 24, 28, 32, 56, 64, 112, *rng.integers(5, 65, 5)) for _ in range(2)]
    size[0] = choice(rng, size[0], size[1], size[1])
    strides = (choice(rng, 1, 2), choice(rng, 1, 2, 3)) if rng.random() < 0.5 else (1, 1)
    dilations = (choice(rng, 1, 1, 2), choice(rng, 1, 1, 2))
    if rng.random() < 0.7:
        pads = tuple((k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True)) * 2
    else:
        pads = tuple(choice(rng, 2, 3, 4) for _ in range(4))
    op = Conv(strides, pads, dilations, group)
    shape = (group * filters, channels, *kernel)
    w = rng.random(shape, np.float32) * (rng.random(shape, np.float32) < 10 ** rng.uniform(-2, -0.2))
    types = TensorType(DType.F32, (1, group * channels, *size)), TensorType(DType.F32, shape)
    return Work(op, types, op.infer(list(types))[:1], (False, True), np.count_nonzero(w) / w.size), op, w


@pytest.mark.slow
def test_strips_of_an_unrolled_convolution() -> None:
    rng = np.random.default_rng(1)
    ways: Counter[str] = Counter()
    for _ in range(1500):
        work, op, w = random_work(rng)
        g, (x, _), y = geometry(work), work.inputs, work.outputs[0]
        assert x is not None
        channels, sizes = unrolled.channels_of_tile(g), unrolled.group_sizes(g.filters, math.prod(g.out))
        stream = unrolled.unrolled_stream(w, channels, op.group, sizes)
        inputs = [np.zeros(x.shape, np.float32), stream.values, stream.owners, stream.batches, stream.groups]
        added = Attribute("kernel", ints=w.shape[2:]), Attribute("channels", ints=(channels,))
        found = cut_by("ert_test_unrolled_cut", 7, inputs, y, (*attributes_of(op), *added))
        count, vectors, floats, kept, packed, rowed, room = found
        way = "kept" if kept else "rowed" if rowed else "packed" if packed or room else "apart"
        want = unrolled.strips_of(g, channels, work.density, math.prod(g.inside))
        planned = want.count, want.vectors, want.floats, want.inputs, want.sets > 0 or want.inputs == "rowed"
        assert (count, vectors, floats, way, room > 0) == planned, g
        ways[way] += 1
    assert min(ways[way] for way in ("apart", "packed", "kept", "rowed")) > 20


@pytest.mark.parametrize("isa", [isa for isa in isas() if isa.startswith(tuple(LANES))])
def test_strips_of_a_sparse_convolution(isa: str) -> None:
    lanes = next(lanes for name, lanes in LANES.items() if isa.startswith(name))
    rng, seen = np.random.default_rng(2), set()
    engine = tiling.Engine(lanes, 1.0, 4.0, 32 * 1024)
    for _ in range(600):
        work, op, w = random_work(rng)
        g, (x, _), y = geometry(work), work.inputs, work.outputs[0]
        assert x is not None
        block = (SINGLE, Block(4, 1), Block(1, 4))[rng.integers(3)]
        if g.filters % block.filters or g.channels % block.channels:
            block = SINGLE
        cut = tiling.tiling(g, work.density, engine, block)
        if cut is None:
            continue
        inputs = [np.zeros(x.shape, np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint8)]
        together = cut.block[:1] if cut.block.channels == 1 else cut.block[:]
        told = {"kernel": w.shape[2:], "channels": (cut.channels,), "rows": (cut.rows,), "together": together}
        added = [Attribute(name, ints=ints) for name, ints in told.items()]
        found = cut_by("ert_test_sparse_cut", 3, inputs, y, (*attributes_of(op), *added), isa.encode())
        want = tiling.strips_of(g, engine, cut)
        assert found == [want.line, want.strips, want.chunks], (g, cut)
        seen.add(cut.rows)
    assert len(seen) > 4
