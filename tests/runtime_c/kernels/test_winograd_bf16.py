"""conv_winograd_bf16 on every instruction set: the reference's products of rounded transforms."""

from __future__ import annotations

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.winograd import POINTS, TILES, transformed
from tests.runtime_c.kernels.convolutions import ACTIVATIONS, Case, choice, exact, random_case, weights
from tests.runtime_c.kernels.harness import Rejected, check_step, isas, random_array, run_step
from tests.runtime_c.kernels.test_precision import bf16

BLOCK16, WEIGHT16 = Layout.BLOCK16, Layout.WEIGHT16
LAYOUTS = (BLOCK16, WEIGHT16, BLOCK16, BLOCK16, BLOCK16)  # x, weights, bias, residual, y
SAME = Conv((1, 1), (1, 1, 1, 1), (1, 1))


def attributes(op: Conv, tile: int) -> tuple[Attribute, ...]:
    return (*attributes_of(op), Attribute("tile", ints=(tile,)))


def matrices(tile: int) -> tuple[np.ndarray, np.ndarray]:
    """What transforms m + 2 inputs along one dimension, and what makes m outputs of the products: the coefficients of
    the polynomials that are zero at all points but one, and the powers of the points."""
    points = [0.0]
    for point in POINTS[tile]:
        points += [point, -point]
    forward = np.zeros((tile + 2, tile + 2))
    for i, point in enumerate(points):
        forward[i, : tile + 1] = np.poly([other for other in points if other != point])[::-1]
    forward[-1] = np.poly(points)[::-1]
    back = np.array([[*(point**j for point in points), float(j == tile - 1)] for j in range(tile)])
    return forward, back


def products(case: Case, tile: int) -> np.ndarray:
    """The sums of F(m x m, 3 x 3) with both transforms rounded to bf16."""
    op, v, (forward, back) = case.op, case.x.astype(np.float64), matrices(tile)
    high, wide = (v.shape[2 + i] + op.pads[i] + op.pads[2 + i] - 2 for i in range(2))
    after = (op.pads[2] - high % -tile, op.pads[3] - wide % -tile)
    v = np.pad(v, ((0, 0), (0, 0), (op.pads[0], after[0]), (op.pads[1], after[1])))
    for axis in (2, 4):  # rows, then columns, which a new first axis has moved
        tiles = np.arange(0, v.shape[axis] - 2, tile)
        d = np.stack([np.take(v, tiles + i, axis) for i in range(tile + 2)])
        v = np.tensordot(forward, d, 1).astype(np.float32).astype(np.float64)
    edge, each = tile + 2, case.w.shape[1]
    v = bf16(v.astype(np.float32)).swapaxes(0, 1).astype(np.float64)
    v = v.reshape(edge, edge, len(case.x), op.group, each, *v.shape[4:])
    u = bf16(transformed(case.w, tile)).astype(np.float64).reshape(edge, edge, op.group, -1, each)
    m = np.einsum("abgkc,abngchw->abngkhw", u, v)
    m = np.einsum("ia,jb,abngkhw->ngkhiwj", back, back, m, optimize=True)
    return m.reshape(len(case.x), len(case.w), m.shape[3] * tile, m.shape[5] * tile)[:, :, :high, :wide]


def check(case: Case, tile: int = 2, inplace: int | None = None) -> None:
    """The kernel gives in any partition what rounded transforms do. Those of tiles of 2 x 2 are differences and sums of
    two along each dimension, so that every instruction set rounds the same numbers; of larger ones inputs must be
    small integers."""
    sums = products(case, tile) + (0 if case.residual is None else case.residual)
    want = exact(case.op, np.zeros_like(case.x), case.w, case.bias, sums)
    check_step(
        "conv_winograd_bf16", [case.x, transformed(case.w, tile), case.grouped[1], case.residual], [want],
        [case.output], attributes(case.op, tile), 1e-4 if tile == 6 else 2e-5,
        layouts=LAYOUTS, weights=DType.BF16, inplace=inplace,
    )  # fmt: skip


@pytest.mark.parametrize("tile", TILES)
def test_random_convolutions(tile: int) -> None:
    rng = np.random.default_rng(tile)
    for _ in range(25):
        group = choice(rng, 1, 1, 2)
        channels, filters = (16, choice(rng, 16, 32)) if group > 1 else (choice(rng, 2, 6, 16, 70), choice(rng, 5, 33))
        pads = tuple(int(n) for n in rng.integers(0, 4, 4))
        op = Conv((1, 1), pads, (1, 1), group, ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *rng.integers(3, 20, 2)), DType.F32)
        x = x if tile == 2 else np.rint(x)
        check(random_case(rng, op, x, weights(rng, group * filters, channels, 3, 3)), tile)


def test_images_of_every_size() -> None:
    rng = np.random.default_rng(7)
    w, bias = weights(rng, 16, 4, 3, 3), random_array(rng, (16,), DType.F32)
    for size in range(1, 16):
        check(Case(SAME, random_array(rng, (1, 4, 16 - size, size), DType.F32), w, bias))


def test_bands_strips_and_runs() -> None:
    """More tiles than one band has, of several images; wide rows; few tiles with many filters, cut into runs."""
    rng = np.random.default_rng(8)
    check(Case(SAME, random_array(rng, (3, 48, 21, 37), DType.F32), weights(rng, 32, 48, 3, 3)))
    check(Case(SAME, random_array(rng, (1, 130, 14, 14), DType.F32), weights(rng, 150, 130, 3, 3)))
    check(Case(SAME, random_array(rng, (1, 512, 18, 70), DType.F32), weights(rng, 64, 512, 3, 3)))


def test_residual_in_place() -> None:
    rng = np.random.default_rng(9)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu"))
    x, w = random_array(rng, (1, 8, 9, 9), DType.F32), weights(rng, 20, 8, 3, 3)
    check(Case(op, x, w, None, random_array(rng, (1, 20, 9, 9), DType.F32)), inplace=3)


@pytest.mark.parametrize("tile", TILES)
def test_parts_that_begin_at_tiles_give_the_same_bits(tile: int) -> None:
    rng = np.random.default_rng(10)
    x, w = random_array(rng, (1, 80, 30, 26), DType.F32), transformed(weights(rng, 48, 80, 3, 3), tile)

    def run(isa: str, op: Conv, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        high, wide = (x.shape[2 + i] + op.pads[i] + op.pads[2 + i] - 2 for i in range(2))
        y = [TensorType(DType.F32, (1, w.shape[1], high, wide))]
        kernel, layouts = "conv_winograd_bf16", (BLOCK16, WEIGHT16, BLOCK16)
        return run_step(kernel, [x, w], y, attributes(op, tile), layouts, isa, weights=DType.BF16)[0]

    for isa in isas():
        whole, cut = run(isa, SAME, x, w), 2 * tile
        top = run(isa, Conv((1, 1), (1, 1, 0, 1), (1, 1)), x[:, :, : cut + 1], w)
        bottom = run(isa, Conv((1, 1), (0, 1, 1, 1), (1, 1)), x[:, :, cut - 1 :], w)
        right = run(isa, Conv((1, 1), (1, 0, 1, 1), (1, 1)), x[:, :, :, cut - 1 :], w[:, 16:])
        assert np.concatenate([top, bottom], 2).tobytes() == whole.tobytes()
        assert right.tobytes() == whole[:, 16:, :, cut:].tobytes()


def test_nothing() -> None:
    for n, k in ((0, 4), (1, 0)):
        check(Case(SAME, np.ones((n, 4, 5, 5), np.float32), np.ones((k, 4, 3, 3), np.float32)), 4)


def test_operands_are_proven() -> None:
    y = [TensorType(DType.F32, (1, 4, 5, 5))]

    def run(channels: int = 4, dtype: DType = DType.BF16, ready: bool = True) -> None:
        x, w = np.ones((1, channels, 5, 5), np.float32), np.ones((4, channels, 3, 3), np.float32)
        stored = transformed(w, 2) if ready else w[None]
        layouts = (BLOCK16, WEIGHT16, BLOCK16)
        run_step("conv_winograd_bf16", [x, stored], y, attributes(SAME, 2), layouts, weights=dtype)

    run()
    for how, message in (
        ({"channels": 3}, "an even number"),
        ({"dtype": DType.F32}, "bf16"),
        ({"dtype": DType.F16}, "bf16"),
        ({"ready": False}, "16,4,4"),
    ):
        with pytest.raises(Rejected, match=message):
            run(**how)  # type: ignore[arg-type]


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("positive", [False, True])
def test_errors_in_multiples_of_those_of_rounded_operands(positive: bool, isa: str) -> None:
    """Root mean square, on centred inputs and on positive ones, as networks have them."""
    rng = np.random.default_rng(11)
    w, x = weights(rng, 32, 128, 3, 3), random_array(rng, (1, 128, 24, 24), DType.F32)
    x = np.abs(x) if positive else x
    want = exact(SAME, x, w)

    def error(kernel: str, w: np.ndarray, given: tuple[Attribute, ...]) -> float:
        y, layouts = [TensorType(DType.F32, want.shape)], (BLOCK16, WEIGHT16, BLOCK16)
        got = run_step(kernel, [x, w], y, given, layouts, isa, weights=DType.BF16)[0]
        return float(np.sqrt(np.mean((got - want) ** 2)))

    direct = error("conv_bf16", w[None], attributes_of(SAME))
    for tile, most in ((2, 1.8), (4, 5.0)):
        assert error("conv_winograd_bf16", transformed(w, tile), attributes(SAME, tile)) < most * direct
