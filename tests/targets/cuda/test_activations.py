"""Every activation over its whole range, against its reference in float64."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir import DType
from packer.ir.ops import Activation
from packer.ir.ops.pointwise import ACTIVATION_KINDS, unary
from targets.cuda.array import Array
from targets.cuda.emit.activation import ACTIVATIONS, activate
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import address, kernel, load, store
from targets.cuda.kernel import Code
from tests.targets.cuda.launch import run

RNG = np.random.default_rng(44)
PARAMETERS = {
    "leaky_relu": [(0.1, 0.0), (-2.0, 0.0), (1.5, 0.0)],
    "elu": [(1.0, 0.0), (0.3, 0.0)],
    "selu": [(1.6732632, 1.0507010)],
    "celu": [(1.0, 0.0), (0.5, 0.0)],
    "thresholded_relu": [(1.0, 0.0)],
    "hard_sigmoid": [(0.2, 0.5)],
    "hard_swish": [(1 / 6, 0.5)],
    "silu": [(1.0, 0.0), (1.702, 0.0)],
    "clip": [(-1.0, 6.0), (-np.inf, 1.0), (0.5, np.inf)],
    "shrink": [(0.5, 0.1)],
}
# What results may be off by: near the least numbers of f32, which approximations flush; near a zero that is none of x;
# and by the reference itself, which subtracts
ABSOLUTE = {"hard_swish": 1e-7, "hard_sigmoid": 1e-7, "gelu_tanh": 1e-14}
RELATIVE = {"sigmoid": 1e-5, "silu": 1e-5, "gelu_tanh": 1e-5}  # short forms for activations of convolutions
CASES = [(kind, *p) for kind in ACTIVATION_KINDS for p in PARAMETERS.get(kind, [(0.0, 0.0)])]


def applied(kind: str, x: np.ndarray, alpha: float = 0.0, beta: float = 0.0) -> np.ndarray:
    def body(b: Builder, index: str) -> None:
        value = activate(b, load(b, DType.F32, address(b, "x", index, DType.F32)), Activation(kind, alpha, beta))
        store(b, DType.F32, address(b, "y", index, DType.F32), value)

    array = Array.dense(DType.F32, x.shape)
    (found,) = run(Code((kernel("activate", ("x", "y"), x.size, body),), (0,)), [(array, x)], [array])
    return found


def samples(kind: str) -> np.ndarray:
    wide = RNG.uniform(-1, 1, 4000) * 10.0 ** RNG.uniform(-30, 30, 4000)
    near = np.concatenate([RNG.uniform(-1, 1, 4000), RNG.uniform(-12, 12, 8000), RNG.uniform(-110, 110, 4000)])
    if kind in ("sin", "cos", "tan"):
        wide = np.concatenate([np.clip(wide, -1e15, 1e15), np.arange(-400, 400) * np.pi / 4])
    return np.concatenate([wide, near, [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5]]).astype(np.float32)


def test_every_kind_has_instructions() -> None:
    assert tuple(ACTIVATIONS) == ACTIVATION_KINDS


@pytest.mark.parametrize(("kind", "alpha", "beta"), CASES)
def test_activations_are_those_of_the_reference(kind: str, alpha: float, beta: float) -> None:
    x = samples(kind)
    found = applied(kind, x, alpha, beta)
    with np.errstate(all="ignore"):
        narrow = [float(np.float32(p)) for p in (alpha, beta)]
        want = unary(kind, x.astype(np.float64), *narrow)
        assert (np.isnan(found) == np.isnan(want)).all()
        assert (found.astype(np.float64) == want)[np.isinf(want)].all()
        finite = np.abs(want) < 3.4e38
        assert (finite | np.isnan(want) | np.isinf(found)).all()
        allowed = RELATIVE.get(kind, 5e-7) * np.abs(want) + ABSOLUTE.get(kind, 3e-36)
        share = np.abs(found - want)[finite] / allowed[finite]
    assert share.max() <= 1, (x[finite][share.argmax()], found[finite][share.argmax()], want[finite][share.argmax()])


@pytest.mark.parametrize("kind", [k for k in ACTIVATION_KINDS if k not in ("relu", "clip", "hard_sigmoid", "celu")])
def test_what_is_no_number_stays_so(kind: str) -> None:
    """But for kinds that `max` and `min` make up."""
    x = np.array([np.nan, -np.nan], np.float32)
    parameters = PARAMETERS.get(kind, [(0.0, 0.0)])[0]
    np.testing.assert_array_equal(applied(kind, x, *parameters), unary(kind, x, *parameters))


@pytest.mark.parametrize("kind", [k for k in ACTIVATION_KINDS if k not in ("sin", "cos", "tan")])
def test_infinities_are_those_of_the_reference(kind: str) -> None:
    x = np.array([np.inf, -np.inf], np.float32)
    alpha, beta = PARAMETERS.get(kind, [(0.0, 0.0)])[0]
    found, want = applied(kind, x, alpha, beta), unary(kind, x, alpha, beta)
    defined = ~np.isnan(want)
    np.testing.assert_allclose(found[defined], want[defined], 1e-6, 1e-37)
