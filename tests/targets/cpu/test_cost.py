"""The cost model: there for every operator and form, sensible, true to the kernels, and close to what was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from packer.importers import import_onnx
from packer.ir import Block, DType, TensorType
from packer.ir.ops import (
    Activation,
    Attention,
    Binary,
    Concat,
    Conv,
    MatMul,
    Op,
    Pool,
    QuantizedConv,
    Recurrent,
    ScaleShift,
    Softmax,
    Unary,
)
from packer.passes import optimize
from packer.planner.costs import work_of
from targets.base import Form, Layout, TargetError, Work, resolve
from targets.cpu.cost import attention, conv, dense, direct, matrix, quantized, reorder_seconds, seconds
from targets.cpu.cost.weights import weights
from targets.machine import Machine
from tests.e2e.random_networks import random_network

KERNELS = Path(__file__).resolve().parents[3] / "runtime_c" / "src" / "kernels"
PLANAR, BLOCK16 = Layout.PLANAR, Layout.BLOCK16
ZEN = Machine.load("zen4-server")
MACHINES = [Machine.load(name) for name in ("zen4-server", "xeon-e5-2666v3", "jetson-tx2", "cortex-a72")]
RELU, CLIP = Activation("relu"), Activation("clip", 0.0, 6.0)
MB = 1 << 20
STORED = ("packed", "masked", "sliced", "sparse")  # a matrix as it is, or by its zeros


def f32(*shape: int) -> TensorType:
    return TensorType(DType.F32, shape)


def work(op: Op, *inputs: TensorType, constant: int = 1) -> Work:
    """Work whose inputs from `constant` on are constants."""
    return Work(op, inputs, op.infer(inputs)[:1], tuple(i >= constant for i in range(len(inputs))))


def convolution(
    channels: int, filters: int, size: int, kernel: int, stride: int = 1, group: int = 1, act: Activation | None = RELU
) -> Work:
    op = Conv((stride, stride), (kernel // 2,) * 4, (1, 1), group, act)
    weights = f32(filters, channels // group, kernel, kernel)
    return work(op, f32(1, channels, size, size), weights, f32(filters))


def form(what: Work, x: Layout = BLOCK16, y: Layout = BLOCK16, implementation: str = "") -> Form:
    inputs = (x, *(PLANAR for _ in what.inputs[1:]))
    return Form(inputs, (y,), implementation)


def time(
    what: Work,
    how: Form,
    distances: float | Sequence[float] = 1.5 * MB,
    machine: Machine = ZEN,
    core: int = 0,
    active: int = 1,
) -> float:
    if isinstance(distances, int | float):
        distances = (distances,) * (len(what.inputs) + len(what.outputs))
    return seconds(machine, what, how, distances, core, active)


# ---- every operator, every form ----


@pytest.mark.parametrize("seed", range(40))
def test_every_form_of_every_operator_has_a_time(seed: int) -> None:
    graph = optimize(import_onnx(random_network(seed).model))
    target = resolve("cpu")
    for node in graph.nodes:
        try:
            forms = target.forms(graph, node)
        except TargetError:
            continue
        what = work_of(graph, node)
        for how in forms:
            for machine in MACHINES:
                found = time(what, how, 1e5, machine)
                assert machine.step_seconds <= found < 60, (node, how, machine.name)
                assert found <= time(what, how, 1e8, machine, active=len(machine.cores)) * 1.0001


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_layout_changes(machine: Machine) -> None:
    for shape in ((1, 64, 28, 28), (1, 3, 7, 5), (1, 1000), (17,), (1, 64, 0, 4)):
        for pair in ((PLANAR, BLOCK16), (BLOCK16, PLANAR)):
            near = reorder_seconds(machine, f32(*shape), *pair)
            assert machine.step_seconds <= near <= reorder_seconds(machine, f32(*shape), *pair, distance=1e9)


def test_nothing_to_compute_costs_a_step() -> None:
    what = work(Unary("relu"), f32(1, 0, 4))
    assert time(what, form(what, PLANAR, PLANAR)) == ZEN.step_seconds


# ---- sense ----

EXAMPLES = [
    (convolution(64, 64, 28, 3), "packed"),
    (convolution(64, 64, 28, 3), "direct"),
    (convolution(64, 64, 28, 3), "im2col-caffe"),
    (convolution(64, 64, 28, 3), "im2col-nhwc"),
    (convolution(64, 64, 28, 3, group=64), "depthwise"),
    (convolution(64, 64, 28, 3, group=64), "depthwise-planar"),
    (work(Unary("relu"), f32(1, 64, 28, 28)), ""),
    (work(Pool("max", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), f32(1, 64, 28, 28)), ""),
    (work(Softmax("softmax", (1,)), f32(8, 1000)), ""),
    (work(MatMul(), f32(1, 1000), f32(1000, 1000)), ""),
    (work(Attention(1.0, *((0, 1, 2),) * 4), f32(3, 99, 32), f32(3, 99, 32), f32(3, 99, 32), constant=3), ""),
    (work(Concat(1), f32(1, 64, 28, 28), f32(1, 32, 28, 28), constant=2), ""),
]
NAMES = [f"{type(what.op).__name__} {name}".strip() for what, name in EXAMPLES]


@pytest.mark.parametrize(("what", "name"), EXAMPLES, ids=NAMES)
def test_farther_operands_take_longer(what: Work, name: str) -> None:
    how = form(what, PLANAR, PLANAR, name)
    times = [time(what, how, distance) for distance in (1e3, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 1e9)]
    assert times == sorted(times)
    assert times[-1] > times[0]


@pytest.mark.parametrize(("what", "name"), EXAMPLES, ids=NAMES)
def test_busy_neighbours_slow_down_what_comes_from_afar(what: Work, name: str) -> None:
    how = form(what, PLANAR, PLANAR, name)
    machine = Machine.load("xeon-e5-2666v3")
    times = [time(what, how, 1e9, machine, active=active) for active in (1, 2, 4, 9, 18)]
    assert times == sorted(times)
    assert times[-1] > times[0]


@pytest.mark.parametrize(("what", "name"), EXAMPLES, ids=NAMES)
def test_slower_cores_take_longer(what: Work, name: str) -> None:
    how, machine = form(what, PLANAR, PLANAR, name), Machine.load("jetson-tx2")
    assert time(what, how, 1e4, machine, core=5) > time(what, how, 1e4, machine, core=0)


@pytest.mark.parametrize("name", ["packed", "direct", "im2col-caffe", "im2col-nhwc"])
def test_half_the_rows_take_about_half_as_long(name: str) -> None:
    whole = convolution(64, 128, 56, 3)
    op = whole.op
    assert isinstance(op, Conv)
    half = work(replace(op, pads=(1, 1, 0, 1)), f32(1, 64, 29, 56), *whole.inputs[1:])  # type: ignore[arg-type]
    assert half.outputs[0].shape == (1, 128, 28, 56)
    ratio = time(half, form(half, PLANAR, PLANAR, name)) / time(whole, form(whole, PLANAR, PLANAR, name))
    assert 0.45 < ratio < 0.6


def test_what_is_written_over_its_input_is_near() -> None:
    what = work(Unary("relu"), f32(1, 64, 112, 112))
    assert time(what, form(what), (1e8, 0)) < 0.6 * time(what, form(what), (1e8, 1e8))


def test_channels_are_computed_in_blocks_of_sixteen() -> None:
    def of(filters: int) -> float:
        what = convolution(64, filters, 14, 3)
        return time(what, form(what, implementation="packed"), 1e5)

    assert of(15) == pytest.approx(of(16), rel=0.01)
    assert of(17) > 1.3 * of(16)


def test_pixels_are_computed_in_tiles() -> None:
    """A row of 15 pixels needs two tiles of at most 14, whose start costs more a pixel."""
    of = {n: dense.dense_seconds(at_zen(), 1, n, 1, 256, 16, 0.0) / n for n in (14, 15, 28)}
    assert of[14] == pytest.approx(of[28], rel=0.01)
    assert of[15] > of[14]


def test_one_row_of_a_matrix_waits_for_its_weights() -> None:
    what = work(MatMul(), f32(1, 4096), f32(4096, 4096))
    bytes = 4 * 4096 * 4096
    assert time(what, form(what, PLANAR, PLANAR), 1e9) == pytest.approx(bytes / 1e9 / ZEN.cores[0].dram_gbps, rel=0.1)


@pytest.mark.parametrize("block", [Block(4, 1), Block(1, 4)], ids=str)
@pytest.mark.parametrize(("rows", "distance", "least"), [(1, 8e6, 2.0), (1, 1e9, 1.5), (4, 8e6, 2.0), (8, 8e6, 1.05)])
def test_blocks_of_a_sparse_matrix_take_less(rows: int, distance: float, least: float, block: Block) -> None:
    """Less computing, less to fetch: 2.4 times faster out of caches, 1.6 times out of memory, when measured; with eight
    rows, which single ones compute together and blocks as twice four, 1.05 to 1.4 times."""
    single = replace(work(MatMul(), f32(rows, 4096), f32(4096, 4096)), density=0.1)
    blocks, how = replace(single, block=block), form(single, PLANAR, PLANAR, "sparse")
    assert least < time(single, how, distance) / time(blocks, how, distance) < 3.2
    assert weights(blocks, how) < weights(single, how)


@pytest.mark.parametrize(
    ("shape", "zeros", "best"),
    [
        ((4096, 25088), 0.0, "packed"), ((4096, 25088), 0.5, "masked"), ((4096, 25088), 0.7, "masked"),
        ((4096, 25088), 0.9, "sparse"), ((1024, 1024), 0.5, "sliced"), ((1024, 1024), 0.9, "sliced"),
        ((192, 576), 0.3, "packed"), ((192, 576), 0.7, "sliced"),
    ],
)  # fmt: skip
def test_zeros_decide_how_a_matrix_is_stored(shape: tuple[int, int], zeros: float, best: str) -> None:
    """The smaller one lies in a cache."""
    what = replace(work(MatMul(), f32(1, shape[0]), f32(*shape)), density=1 - zeros)
    for active in (1, 2):
        distance = 4.0 * math.prod(shape)
        times = {name: time(what, form(what, PLANAR, PLANAR, name), distance, active=active) for name in STORED}
        assert min(times, key=times.__getitem__) == best
    bytes = {name: weights(what, form(what, PLANAR, PLANAR, name)) for name in STORED}
    if zeros in (0.5, 0.7):
        assert bytes["masked"] < min(bytes["packed"], bytes["sparse"])


@pytest.mark.parametrize(("zeros", "one", "two"), [(0.3, 12.6, 8.9), (0.5, 7.5, 6.1), (0.9, 5.8, 2.9)])
def test_masked_matrices_are_predicted(zeros: float, one: float, two: float) -> None:
    """Milliseconds with one thread, and with two, each of which takes half of the columns."""
    for active, milliseconds in ((1, one), (2, two)):
        what = replace(work(MatMul(), f32(1, 25088), f32(25088, 4096 // active)), density=1 - zeros)
        found = time(what, form(what, PLANAR, PLANAR, "masked"), 1e9, active=active) * 1e3
        assert found == pytest.approx(milliseconds, rel=0.17)


def test_a_fused_limit_is_free_and_a_function_is_not() -> None:
    plain, relu, silu = (convolution(64, 64, 28, 3, act=act) for act in (None, RELU, Activation("silu", 1.0)))
    how = form(plain, implementation="packed")
    assert time(plain, how) == time(relu, how) < time(silu, how)


def test_unknown_implementations_are_an_error() -> None:
    what = convolution(64, 64, 28, 3)
    with pytest.raises(KeyError):
        time(what, form(what, implementation="magic"))


# ---- true to the kernels ----


def at_zen() -> dense.At:
    from targets.cpu.cost.at import at

    return at(ZEN, 0, 1)


def _tiles(file: str, prefix: str, condition: str) -> dict[int, int]:
    """By the first extent of the tiles of an instruction set, the most of the second; from a kernel's tables."""
    text = (KERNELS / "simd" / file).read_text(encoding="utf-8").replace("\\\n", "")
    branch = text[text.index(condition) :]
    branch = branch[: branch.index("\n#el")]
    found: dict[int, int] = {}
    for extent, tiles in re.findall(rf"#define {prefix}_(\d+)\(X\)(.*)", branch):
        pairs = re.findall(r"X\((\d+), (\d+)\)", tiles)
        if pairs:
            found[int(extent)] = len(pairs)
    return found


@pytest.mark.parametrize(
    ("lanes", "condition"),
    [(16, "#if ERT_VECTOR_BYTES == 64"), (8, "#elif ERT_VECTOR_BYTES == 32"), (4, "#elif defined(__aarch64__)")],
)
def test_dense_tiles_are_those_of_the_kernel(lanes: int, condition: str) -> None:
    assert dict(dense._WIDTHS[lanes]) == _tiles("f32-dense.h", "DENSE_TILES", condition)


@pytest.mark.parametrize(
    ("lanes", "condition"), [(16, "#if ERT_VECTOR_BYTES == 64"), (8, "#elif ERT_VECTOR_BYTES == 32")]
)
def test_direct_tiles_are_those_of_the_kernel(lanes: int, condition: str) -> None:
    filters, most = direct._HEIGHTS[lanes]
    assert _tiles("f32-direct.h", "DIRECT_TILES", condition)[filters] == most


@pytest.mark.parametrize(
    ("geometry", "parts"),
    [
        ((16, 16, 3, 1, 6, 6), ((6, 2), (4, 3), (6, 2))),  # taps see padding at both ends
        ((16, 16, 3, 1, 1, 1), ((16, 3),)),  # parts of one column are too narrow
        ((40, 20, 3, 2, 1, 1), ((20, 3),)),
        ((40, 20, 5, 2, 5, 10), ((5, 4), (10, 5), (5, 4))),  # the first three see three taps, the next two four
        ((9, 9, 1, 1, 1, 0), ((9, 1),)),
    ],
)
def test_columns_leave_out_taps_that_see_padding(geometry: Sequence[int], parts: Sequence[tuple[int, int]]) -> None:
    assert conv.columns_of(*geometry) == parts


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("attention.c", "BAND_FLOATS", attention._BAND),
        ("conv_unrolled_quantized.c", "STRIP_BYTES", quantized._STRIP),
        ("attention.c", "LEAST_ROWS", attention._LEAST),
        ("conv_plan.c", "BAND_FLOATS", conv._BAND),
        ("conv_plan.c", "LEAST_COLUMNS", conv._LEAST_COLUMNS),
        ("conv.c", "TILE_BLOCKS", conv._TILE_BLOCKS),
        ("conv.c", "KEPT", conv._KEPT),
        ("conv.c", "PASS_BYTES", conv._PASS),
        ("conv.c", "PART_COLUMNS", conv._PART_COLUMNS),
        ("conv_direct.c", "FEW_BLOCKS", direct._FEW_BLOCKS),
        ("conv_geometry.h", "ERT_CONV_PARTS", conv._PARTS),
        ("simd/f32-dense.h", "DENSE_KEPT", dense._KEPT),
        ("linear.c", "BAND_FLOATS", matrix._BAND),
        ("gemm.c", "PACKED_FLOATS", matrix._PACKED),
        ("dense_rows.h", "ERT_COLLIDING", matrix._COLLIDING),
    ],
)
def test_sizes_are_those_of_the_kernels(file: str, name: str, value: int) -> None:
    found = re.search(rf"\b{name} = ([\d* ]+)", (KERNELS / file).read_text(encoding="utf-8"))
    assert found
    assert math.prod(int(factor) for factor in found[1].split("*")) == value


# ---- close to what was measured ----

# On the machine of zen4-server.toml, one thread, quiet: microseconds of steps of ResNet-50, MobileNetV2, SqueezeNet,
# DenseNet-121, AlexNet, VGG-19 and YOLOv2, and megabytes touched since each operand was.
MEASURED = [
    (convolution(64, 64, 56, 1), "packed", 232.5, (4.0, 110, 110, 4.0)),
    (convolution(64, 64, 56, 3), "packed", 2001, (4.1, 110, 110, 5.0)),
    (convolution(256, 64, 56, 1), "packed", 894, (4.1, 110, 110, 5.0)),
    (convolution(128, 128, 56, 3, 2), "packed", 2048, (5.0, 110, 110, 110)),
    (convolution(512, 128, 28, 1), "packed", 891, (2.3, 110, 110, 3.3)),
    (convolution(256, 256, 14, 3), "packed", 1970, (2.1, 110, 110, 3.3)),
    (convolution(1024, 256, 14, 1), "packed", 890, (2.1, 110, 110, 4.6)),
    (convolution(512, 512, 7, 3), "packed", 1861, (4.7, 110, 110, 9.0)),
    (convolution(2048, 512, 7, 1), "packed", 928, (4.7, 110, 110, 14)),
    (convolution(32, 16, 112, 1, act=None), "packed", 122.3, (3.2, 33, 33, 27)),
    (convolution(16, 96, 112, 1, act=CLIP), "packed", 416, (2.4, 33, 33, 2.4)),
    (convolution(32, 192, 28, 1, act=CLIP), "packed", 92.5, (0.7, 33, 33, 1.3)),
    (convolution(384, 96, 14, 1, act=None), "packed", 126.8, (0.6, 33, 33, 3.0)),
    (convolution(960, 320, 7, 1, act=None), "packed", 278.5, (0.4, 33, 33, 1.1)),
    (convolution(32, 128, 27, 3), "packed", 465, (0.5, 18, 18, 2.4)),
    (convolution(128, 32, 56, 3, act=None), "packed", 2020, (2.4, 130, 130, 2.4)),
    (convolution(128, 32, 7, 3, act=None), "packed", 30.7, (0.4, 130, 130, 0.9)),
    (convolution(64, 64, 224, 3), "packed", 32951, (13.5, 630, 630, 630)),
    (convolution(512, 512, 28, 3), "packed", 32345, (7.1, 630, 630, 7.1)),
    (convolution(1024, 1024, 13, 3), "packed", 28083, (20, 265, 265, 20)),
    (convolution(96, 96, 112, 3, 2, 96, CLIP), "depthwise", 115.8, (5.6, 33, 33, 5.6)),
    (convolution(144, 144, 56, 3, 1, 144, CLIP), "depthwise", 120, (2.2, 33, 33, 8.3)),
    (convolution(192, 192, 28, 3, 1, 192, CLIP), "depthwise", 42.2, (0.7, 33, 33, 1.4)),
    (convolution(384, 384, 14, 3, 1, 384, CLIP), "depthwise", 22.0, (0.5, 33, 33, 0.9)),
    (convolution(960, 960, 7, 3, 1, 960, CLIP), "depthwise", 17.4, (0.8, 33, 33, 1.6)),
    (work(MatMul(RELU), f32(1, 4096), f32(4096, 4096), f32(4096)), "", 2228, (151, 250, 250, 151)),
    (work(MatMul(), f32(1, 2048), f32(2048, 1000), f32(1000)), "", 266.6, (0.1, 110, 110, 104)),
    (work(Unary("relu"), f32(1, 128, 56, 56)), "", 16.1, (3.2, 0)),
    (work(Unary("silu"), f32(1, 224, 55, 56)), "", 194.5, (5.5, 0)),
    (work(Binary("add"), f32(1, 96, 28, 112), f32(1, 96, 28, 112), constant=2), "", 25.9, (2.4, 2.4, 0)),
    (work(ScaleShift(RELU), f32(1, 96, 56, 56), f32(96), f32(96)), "", 39.1, (2.4, 130, 130, 2.4)),
    (work(ScaleShift(RELU), f32(1, 320, 28, 28), f32(320), f32(320)), "", 32.2, (2.0, 130, 130, 2.0)),
    (work(Concat(1), f32(1, 192, 56, 56), f32(1, 32, 56, 56), constant=2), "", 66.8, (7.1, 2.2, 4.7)),
    (work(Concat(1), f32(1, 64, 55, 55), f32(1, 64, 55, 55), constant=2), "", 32.1, (1.8, 1.0, 3.3)),
    (work(Pool("max", (3, 3), (2, 2), (0, 0, 0, 0), (1, 1)), f32(1, 128, 55, 55)), "", 44.7, (3.1, 3.1)),
    (work(Pool("max", (3, 3), (2, 2), (0, 0, 0, 0), (1, 1)), f32(1, 256, 27, 27)), "", 22.5, (1.5, 1.5)),
]


# Depthwise layers of MobileNetV2 over planar rows, over and over: channels, extent, stride, density of weights.
PLANAR_DEPTHWISE = [
    (32, 112, 1, 1.0, 99), (96, 112, 2, 1.0, 156), (144, 56, 1, 1.0, 119), (144, 56, 2, 1.0, 54),
    (192, 28, 1, 1.0, 45), (192, 28, 2, 1.0, 20.6), (384, 14, 1, 1.0, 26.5),
    (576, 14, 2, 1.0, 21.4), (960, 7, 1, 1.0, 28),
    (32, 112, 1, 0.5, 105), (96, 112, 2, 0.5, 163), (192, 28, 1, 0.5, 40), (384, 14, 1, 0.5, 22.5),
    (960, 7, 1, 0.5, 28.5),
    (32, 112, 1, 0.1, 62), (96, 112, 2, 0.1, 85), (144, 56, 1, 0.1, 74), (192, 28, 1, 0.1, 23), (384, 14, 1, 0.1, 12.6),
    (576, 14, 2, 0.1, 17.2), (960, 7, 1, 0.1, 19),
]  # fmt: skip


@pytest.mark.parametrize(("channels", "extent", "stride", "density", "microseconds"), PLANAR_DEPTHWISE)
def test_planar_depthwise_layers_are_predicted(
    channels: int, extent: int, stride: int, density: float, microseconds: float
) -> None:
    what = replace(convolution(channels, channels, extent, 3, stride, channels, CLIP), density=density)
    touched = 4.0 * channels * extent * extent * (1 + 1 / stride**2)
    assert 0.67 < time(what, form(what, PLANAR, PLANAR, "depthwise-planar"), touched) / (microseconds * 1e-6) < 1.5


# The same of kernels of many rows: channels, extent, rows of taps, stride.
TALL_DEPTHWISE = [
    (96, 56, 5, 1, 251), (192, 28, 5, 1, 123), (384, 14, 5, 1, 60), (768, 7, 5, 1, 66),
    (96, 56, 7, 1, 399), (192, 28, 7, 1, 188), (384, 14, 7, 1, 88), (768, 7, 7, 1, 87), (32, 112, 7, 1, 541),
    (96, 56, 9, 1, 662), (192, 28, 9, 1, 309), (384, 14, 9, 1, 140), (768, 7, 9, 1, 141),
    (96, 56, 5, 2, 92), (192, 28, 5, 2, 45), (384, 14, 5, 2, 44.5),
    (96, 56, 7, 2, 137), (192, 28, 7, 2, 65), (384, 14, 7, 2, 73),
]  # fmt: skip


@pytest.mark.parametrize(("channels", "extent", "kernel", "stride", "microseconds"), TALL_DEPTHWISE)
def test_planar_depthwise_layers_of_tall_kernels_are_predicted(
    channels: int, extent: int, kernel: int, stride: int, microseconds: float
) -> None:
    what = convolution(channels, channels, extent, kernel, stride, channels)
    touched = 4.0 * channels * extent * extent * (1 + 1 / stride**2)
    ratio = time(what, form(what, PLANAR, PLANAR, "depthwise-planar"), touched) / (microseconds * 1e-6)
    assert 0.77 < ratio < 1.2


def ratios() -> list[tuple[float, float, str]]:
    found = []
    for what, name, microseconds, megabytes in MEASURED:
        layout = PLANAR if isinstance(what.op, MatMul) else BLOCK16
        predicted = time(what, form(what, layout, layout, name), [1e6 * distance for distance in megabytes])
        found.append((predicted / (microseconds * 1e-6), microseconds, f"{what.op} {what.inputs[0]}"))
    return found


def test_measured_layers_are_predicted() -> None:
    found = ratios()
    wrong = [f"{ratio:.2f} {what}" for ratio, _, what in found if not 0.75 < ratio < 1.33]
    assert not wrong, "\n".join(wrong)
    errors = sorted(abs(ratio - 1) for ratio, _, _ in found)
    assert errors[len(errors) // 2] < 0.05
    assert sum(ratio * time for ratio, time, _ in found) / sum(time for _, time, _ in found) == pytest.approx(
        1, abs=0.05
    )


@pytest.mark.parametrize(("heads", "rows", "keys", "depth", "microseconds"), [
    (12, 197, 197, 64, 646), (12, 384, 384, 64, 2266), (12, 512, 512, 64, 3875), (3, 197, 197, 64, 161),
    (4, 128, 128, 32, 53.3), (6, 1500, 1500, 64, 16650), (12, 64, 64, 64, 78), (192, 49, 49, 32, 581),
    (1, 16384, 256, 32, 3000), (1, 4096, 64, 32, 218), (8, 4096, 77, 40, 2861), (4, 196, 196, 16, 80),
    (8, 1024, 1024, 40, 7546), (8, 64, 64, 32, 28.7),
])  # fmt: skip
def test_attention_is_predicted(heads: int, rows: int, keys: int, depth: int, microseconds: float) -> None:
    """On one core of Zen 5, heads between rows and columns."""
    op = Attention(1.0, *((0, 2, 1, 3),) * 4)
    what = work(op, f32(1, rows, heads, depth), f32(1, keys, heads, depth), f32(1, keys, heads, depth), constant=3)
    touched = 8.0 * heads * depth * (rows + keys)
    found = time(what, form(what, PLANAR, PLANAR), touched, Machine.load("zen5-server")) * 1e6
    assert found == pytest.approx(microseconds, rel=0.2)


@pytest.mark.parametrize(("channels", "filters", "size", "kernel", "stride", "all", "nonzeros"), [
    (64, 64, 56, 3, 1, 223, 131), (64, 256, 56, 1, 1, 122, 104), (256, 64, 56, 1, 1, 106, 70),
    (128, 128, 28, 3, 1, 227, 130), (512, 128, 28, 1, 1, 102, 58), (256, 256, 14, 3, 1, 224, 150),
    (1024, 256, 14, 1, 1, 102, 66), (512, 512, 7, 3, 1, 233, 231), (512, 2048, 7, 1, 1, 113, 122),
    (128, 128, 56, 3, 2, 233, 156),
])  # fmt: skip
def test_convolutions_of_bytes_are_predicted(
    channels: int, filters: int, size: int, kernel: int, stride: int, all: float, nonzeros: float
) -> None:
    """On one core of Zen 5, by all weights and by the tenth that is not zero, where it lies without structure."""
    op = QuantizedConv((stride,) * 2, (kernel // 2,) * 4, (1, 1), 1, 3, 110)
    constants = TensorType(DType.F32, (filters,)), TensorType(DType.I32, (filters,))
    weights = TensorType(DType.I8, (filters, channels, kernel, kernel))
    what = replace(work(op, TensorType(DType.U8, (1, channels, size, size)), weights, *constants), density=0.1)
    for implementation, microseconds in (("bytes", all), ("unrolled", nonzeros)):
        found = time(what, form(what, implementation=implementation), 0.5 * MB, Machine.load("zen5-server")) * 1e6
        assert found == pytest.approx(microseconds, rel=0.2), implementation


@pytest.mark.parametrize(("rows", "zeros", "microseconds"), [
    (1, 0.5, 11.5), (1, 0.7, 6.1), (1, 0.9, 2.9), (1, 0.95, 1.9), (2, 0.9, 6.1), (4, 0.9, 12.2),
])  # fmt: skip
def test_slices_are_predicted(rows: int, zeros: float, microseconds: float) -> None:
    """512 by 512 on one core of Zen 4, in its second cache."""
    what = replace(work(MatMul(), f32(rows, 512), f32(512, 512)), density=1 - zeros)
    found = time(what, form(what, PLANAR, PLANAR, "sliced"), 1e5) * 1e6
    assert found == pytest.approx(microseconds, rel=0.3)


@pytest.mark.parametrize(("hidden", "batch", "zeros", "best"), [
    (128, 1, 0.5, "packed"), (128, 1, 0.8, "sliced"), (256, 4, 0.7, "packed"), (256, 4, 0.95, "sliced"),
    (1024, 1, 0.7, "sliced"),
])  # fmt: skip
def test_zeros_decide_how_the_weights_of_recurrent_layers_are_stored(
    hidden: int, batch: int, zeros: float, best: str
) -> None:
    functions = ("sigmoid", "tanh", "tanh")
    op, weights = Recurrent("lstm", "forward", hidden, functions, (0.0,) * 3, (0.0,) * 3), f32(1, 4 * hidden, hidden)
    what = replace(work(op, f32(50, batch, hidden), weights, weights), density=1 - zeros)
    times = {name: time(what, Form((PLANAR,) * 3, (PLANAR,), name), 1e6) for name in ("packed", "sliced")}
    assert min(times, key=times.__getitem__) == best


def test_recurrent_layers_read_their_weights_at_every_step() -> None:
    """Measured on one core of Zen 4, 200 time steps: GRU of 128 0.60 ms; LSTM of 128 0.79 ms, of 256 3.4 ms, and 8.1 ms
    for four sequences."""
    for kind, hidden, batch, measured in (
        ("gru", 128, 1, 0.60e-3), ("lstm", 128, 1, 0.79e-3), ("lstm", 256, 1, 3.4e-3), ("lstm", 256, 4, 8.1e-3),
    ):  # fmt: skip
        gates, functions = (3, ("sigmoid", "tanh")) if kind == "gru" else (4, ("sigmoid", "tanh", "tanh"))
        given = (0.0,) * len(functions)
        op = Recurrent(kind, "forward", hidden, functions, given, given, linear_before_reset=True)
        weights = f32(1, gates * hidden, hidden)
        what = work(op, f32(200, batch, hidden), weights, weights)
        how = Form((PLANAR,) * 3, (PLANAR,))
        assert 0.67 * measured < time(what, how) < 1.5 * measured
