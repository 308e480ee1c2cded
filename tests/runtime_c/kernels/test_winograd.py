"""conv_winograd on every instruction set, against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from packer.ir.ops import Activation, Conv
from packer.ir.types import DType, TensorType
from targets.base import Attribute, Layout, attributes_of
from targets.cpu.winograd import TILES, transformed
from tests.runtime_c.kernels.convolutions import ACTIVATIONS, Case, choice, exact, random_case, weights
from tests.runtime_c.kernels.harness import Rejected, check_step, isas, random_array, run_step

PLANAR, BLOCK16, WEIGHT16 = Layout.PLANAR, Layout.BLOCK16, Layout.WEIGHT16
LAYOUTS = (BLOCK16, WEIGHT16, BLOCK16, BLOCK16)  # x, weights, bias, residual
SAME = Conv((1, 1), (1, 1, 1, 1), (1, 1))


def attributes(op: Conv, tile: int) -> tuple[Attribute, ...]:
    return (*attributes_of(op), Attribute("tile", ints=(tile,)))


def check(case: Case, tile: int, inplace: int | None = None) -> None:
    """The kernel gives the reference's outputs in any partition, whenever weights are transformed."""
    for w in (transformed(case.w, tile), case.grouped[0]):
        check_step(
            "conv_winograd", [case.x, w, case.grouped[1], case.residual], [case.want], [case.output],
            attributes(case.op, tile), 1e-4 if tile == 6 else 2e-5, layouts=(*LAYOUTS, BLOCK16), inplace=inplace,
        )  # fmt: skip


@pytest.mark.parametrize("tile", TILES)
def test_random_convolutions(tile: int) -> None:
    rng = np.random.default_rng(tile)
    for _ in range(25):
        group = choice(rng, 1, 1, 2)
        channels, filters = (16, choice(rng, 16, 32)) if group > 1 else (choice(rng, 1, 7, 16, 70), choice(rng, 5, 33))
        pads = tuple(int(n) for n in rng.integers(0, 4, 4))
        op = Conv((1, 1), pads, (1, 1), group, ACTIVATIONS[rng.integers(len(ACTIVATIONS))])
        x = random_array(rng, (choice(rng, 1, 2), group * channels, *rng.integers(3, 20, 2)), DType.F32)
        check(random_case(rng, op, x, weights(rng, group * filters, channels, 3, 3)), tile)


@pytest.mark.parametrize("tile", TILES)
def test_images_of_every_size(tile: int) -> None:
    rng = np.random.default_rng(7)
    w, bias = weights(rng, 16, 3, 3, 3), random_array(rng, (16,), DType.F32)
    for size in range(1, 16):
        check(Case(SAME, random_array(rng, (1, 3, 16 - size, size), DType.F32), w, bias), tile)


def test_bands_and_runs() -> None:
    """More tiles than one band has, of several images; and few tiles with many filters, cut into runs for workers."""
    rng = np.random.default_rng(8)
    check(Case(SAME, random_array(rng, (3, 48, 21, 37), DType.F32), weights(rng, 32, 48, 3, 3)), 2)
    check(Case(SAME, random_array(rng, (1, 130, 14, 14), DType.F32), weights(rng, 150, 130, 3, 3)), 4)


def test_residual_in_place() -> None:
    rng = np.random.default_rng(9)
    op = Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu"))
    x, w = random_array(rng, (1, 8, 9, 9), DType.F32), weights(rng, 20, 8, 3, 3)
    check(Case(op, x, w, None, random_array(rng, (1, 20, 9, 9), DType.F32)), 4, inplace=3)


@pytest.mark.parametrize("tile", TILES)
def test_parts_that_begin_at_tiles_give_the_same_bits(tile: int) -> None:
    rng = np.random.default_rng(10)
    x, w = random_array(rng, (1, 80, 30, 26), DType.F32), weights(rng, 48, 80, 3, 3)

    def run(isa: str, op: Conv, x: np.ndarray, packed: np.ndarray) -> np.ndarray:
        high, wide = (x.shape[2 + i] + op.pads[i] + op.pads[2 + i] - 2 for i in range(2))
        y = TensorType(DType.F32, (1, packed.shape[1], high, wide))
        return run_step("conv_winograd", [x, packed], [y], attributes(op, tile), (BLOCK16, WEIGHT16, BLOCK16), isa)[0]

    for isa, packed in itertools.product(isas(), (transformed(w, tile), w[None])):
        whole, cut = run(isa, SAME, x, packed), 2 * tile
        top = run(isa, Conv((1, 1), (1, 1, 0, 1), (1, 1)), x[:, :, : cut + 1], packed)
        bottom = run(isa, Conv((1, 1), (0, 1, 1, 1), (1, 1)), x[:, :, cut - 1 :], packed)
        right = run(isa, Conv((1, 1), (1, 0, 1, 1), (1, 1)), x[:, :, :, cut - 1 :], packed[:, 16:])
        assert np.concatenate([top, bottom], 2).tobytes() == whole.tobytes()
        assert right.tobytes() == whole[:, 16:, :, cut:].tobytes()


def test_nothing() -> None:
    for n, k in ((0, 4), (1, 0)):
        check(Case(SAME, np.ones((n, 3, 5, 5), np.float32), np.ones((k, 3, 3, 3), np.float32)), 4)


def test_weights_of_a_run_are_those_of_the_packer() -> None:
    """Where one input is 1, outputs are weights, but for rounding."""
    x = np.zeros((1, 40, 13, 13), np.float32)
    x[0, 35, 6, 6] = 1
    w = weights(np.random.default_rng(12), 50, 40, 3, 3)
    for isa, tile in itertools.product(isas(), TILES):
        y = [TensorType(DType.F32, (1, 50, 13, 13))]
        inputs, layouts = [x, w[None]], (BLOCK16, WEIGHT16, BLOCK16)
        got = run_step("conv_winograd", inputs, y, attributes(SAME, tile), layouts, isa)[0]
        want = np.zeros_like(got)
        want[0, :, 5:8, 5:8] = w[:, 35, ::-1, ::-1]
        assert np.abs(got - want).max() < 1e-5 * np.abs(w).max()


def test_operands_are_proven() -> None:
    x, w = np.ones((1, 3, 5, 5), np.float32), transformed(np.ones((4, 3, 3, 3), np.float32), 4)
    y = TensorType(DType.F32, (1, 4, 5, 5))

    def run(
        op: Conv = SAME,
        tile: int = 4,
        w: np.ndarray = w,
        y: TensorType = y,
        layouts: Sequence[Layout] = (BLOCK16, WEIGHT16, BLOCK16),
    ) -> None:
        run_step("conv_winograd", [x, w], [y], attributes(op, tile), layouts)

    run()
    for change in (
        {"op": Conv((1, 1), (1, 1, 1, 0), (1, 1))},
        {"op": Conv((1, 1), (2, 2, 2, 2), (2, 2))},
        {"op": Conv((2, 2), (3, 3, 3, 3), (1, 1))},
        {"op": Conv((1, 1), (1, 1, 1, 1), (1, 1), 2)},
        {"op": Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("is_nan"))},
        {"tile": 2},
        {"tile": 3},
        {"tile": 8},
        {"w": w[:-1]},
        {"w": w[:, :, :-1]},
        {"w": w[:, :-1]},
        {"w": np.ones((1, 4, 3, 3), np.float32)},
        {"w": np.ones((1, 4, 3, 3, 2), np.float32)},
        {"w": np.ones((1, 4, 2, 3, 3), np.float32)},
        {"w": np.ones((2, 2, 3, 3, 3), np.float32)},
        {"y": TensorType(DType.F32, (1, 17, 5, 5))},
        {"y": TensorType(DType.F32, (1, 4, 5, 6))},
        {"y": TensorType(DType.I32, (1, 4, 5, 5))},
        {"layouts": (PLANAR, WEIGHT16, BLOCK16)},
        {"layouts": (BLOCK16, PLANAR, BLOCK16)},
        {"layouts": (BLOCK16, WEIGHT16, PLANAR)},
    ):
        with pytest.raises(Rejected):
            run(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize("channels", [64, 256])
def test_errors_of_tiles_in_multiples_of_other_algorithms(channels: int) -> None:
    """Root mean square errors on positive inputs and centred weights, as networks have them."""
    rng = np.random.default_rng(11)
    x = np.abs(random_array(rng, (1, channels, 24, 24), DType.F32))
    w, layouts = weights(rng, 32, channels, 3, 3), (BLOCK16, WEIGHT16, BLOCK16)
    want = exact(SAME, x, w)
    y = [TensorType(DType.F32, want.shape)]

    def error(got: np.ndarray) -> float:
        return float(np.sqrt(np.mean((got - want) ** 2)))

    for isa in isas():
        packed = error(run_step("conv", [x, w[None]], y, attributes_of(SAME), layouts, isa)[0])
        for tile, most in ((2, 1.5), (4, 4.0), (6, 20.0)):
            for stored in (transformed(w, tile), w[None]):
                got = run_step("conv_winograd", [x, stored], y, attributes(SAME, tile), layouts, isa)[0]
                assert error(got) < most * packed
