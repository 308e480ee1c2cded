"""make_lookups: whatever follows from one byte is looked up by it, exactly as floats give it."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.evaluate import evaluate
from packer.ir.ops import Binary, Cast, DequantizeLinear, Lookup, Op, QuantizedBinary, QuantizeLinear, Unary
from packer.passes.make_lookups import make_lookups
from packer.passes.remove_dead import remove_dead
from tests.packer.passes.test_recognise_quantized import Sketch


def check(sketch: Sketch, output: str, kinds: tuple[type[Op], ...]) -> None:
    """The pass leaves operators of these kinds, and the very same bytes."""
    before = sketch.graph(output)
    after = remove_dead(make_lookups(before))
    after.validate()
    assert [type(node.op) for node in after.nodes] == list(kinds)
    x = np.arange(256, dtype=np.uint8).reshape(before.type("x").shape)
    want, got = (evaluate(graph, {"x": x})[output] for graph in (before, after))
    np.testing.assert_array_equal(got, want)


def sketch() -> Sketch:
    return Sketch((1, 16, 4, 4))


@pytest.mark.parametrize("kind", ["sigmoid", "gelu", "hard_swish", "exp", "log", "reciprocal"])
def test_a_function(kind: str) -> None:
    s = sketch()
    check(s, s.bytes(s.add(Unary(kind, 0.2, 0.5), s.floats("x"))), (Lookup,))


def test_a_function_in_pieces_that_are_bytes_between() -> None:
    """GELU as it is quantised: numbers that are constants in bytes, or floats, on either side."""
    s = sketch()
    root = s.add(DequantizeLinear(0), s.constant(200, np.uint8), s.constant(0.007, np.float32))
    scaled = s.floats(s.bytes(s.add(Binary("div"), s.floats("x"), root)), 0.05, 100)
    error = s.floats(s.bytes(s.add(Unary("erf"), scaled), 0.008, 127), 0.008, 127)
    more = s.add(Binary("add"), s.constant([[1.0]], np.float32), error)
    check(s, s.bytes(s.add(Binary("mul"), s.floats("x"), more), 0.02, 10), (Lookup,))


def test_a_pair_of_a_byte_with_what_follows_from_it() -> None:
    s = sketch()
    gate = s.bytes(s.add(Unary("sigmoid"), s.floats("x")), 1 / 255, 0)
    check(s, s.add(QuantizedBinary("mul", (120, 0, 100), (0.3, 0.01)), "x", gate), (Lookup,))


def test_integers_that_become_floats() -> None:
    s = sketch()
    centred = s.add(Binary("sub"), s.add(Cast(DType.F32), "x"), s.constant(128, np.float32))
    check(s, s.bytes(s.add(Binary("mul"), centred, s.constant(1 / 60, np.float32)), 0.02, 110), (Lookup,))


def test_what_stays() -> None:
    """Two bytes decide, one stands for many, or each channel has a number of its own."""
    s = sketch()
    wide = s.constant(np.arange(16).reshape(16, 1, 1), np.float32)
    kept = (DequantizeLinear, Binary, QuantizeLinear)
    check(s, s.bytes(s.add(Binary("mul"), s.floats("x"), wide)), kept)
    s = sketch()
    check(s, s.bytes(s.add(Binary("mul"), s.floats("x"), s.constant(np.ones((2, 1, 1, 1)), np.float32))), kept)
