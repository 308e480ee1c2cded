"""The published route: parsing, the maps of Algorithm 2, and the same multiply-adds as direct emission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from packer.ir import DType
from targets.base import TargetError
from targets.cuda.cache import Cache
from targets.cuda.emit.ptx import f32
from targets.cuda.template import specialised
from targets.cuda.template.parse import Instruction, parse
from targets.cuda.template.shape import shape_of
from targets.cuda.template.specialise import specialise
from targets.cuda.toolchain import missing
from tests.targets.cuda.layers import layer_of, random_layer
from tests.targets.cuda.symbolic import multiply_adds

# Two inputs a chunk, one sum: y[first] = bias + sum of x * weight. %f9 is a constant from before the loop.
TEMPLATE = """
// a comment; with a semicolon
.version 8.8
.target sm_62
.visible .entry conv(
    .param .u64 conv_param_0,
    .param .u64 conv_param_1,
    .param .u32 conv_param_2
)
.maxntid 32, 1, 1
{
    .reg .pred %p<2>;
    .reg .f32 %f<10>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [conv_param_0];
    ld.param.u64 %rd2, [conv_param_1];
    ld.param.u32 %r1, [conv_param_2];
    mov.f32 %f9, 0f3F800002;
    mov.f32 %f1, 0f40000001;
    mov.u32 %r2, 0;
    mov.u32 %r3, 8;
$L__BB0_1:
    .pragma "nounroll";
    ld.global.f32 %f8, [%rd2+64];
    ld.shared.f32 %f2, [%rd1];
    ld.shared.f32 %f3, [%rd1+4];
    fma.rn.f32 %f4, %f2, 0f3F800001, %f1;
    fma.rn.f32 %f5, %f9, %f3, %f4;
    st.shared.f32 [%rd1+128], %f8;
    mul.wide.s32 %rd5, %r3, 4;
    add.s64 %rd1, %rd1, %rd5;
    add.s32 %r2, %r2, 1;
    setp.lt.s32 %p1, %r2, %r1;
    mov.f32 %f1, %f5;
    @%p1 bra $L__BB0_1;
    st.global.f32 [%rd2], %f1;
    ret;
}
"""
PLACES = ("0f3F800001", "0f3F800002")


def code(chunks: list[tuple[float, float]], bias: float = 0.5) -> tuple[list[str], int]:
    values = [dict(zip(PLACES, map(f32, chunk), strict=True)) for chunk in chunks]
    text, deleted = specialise(parse(TEMPLATE), "e", values, {"0f40000001": f32(bias)}, {"conv_param_2": 7})
    assert text.startswith(".visible .entry e(\n.param .u64 conv_param_0,\n.param .u64 conv_param_1\n)\n")
    lines = text.splitlines()
    return lines[lines.index("mov.u32 %r3, 8;") + 1 : -1], deleted


def test_multiply_adds_get_weights_and_sums_go_from_copy_to_copy() -> None:
    weights = [[f32(v) for v in chunk] for chunk in ((1, 2), (3, 4))]
    lines, deleted = code([(1, 2), (3, 4)])
    assert deleted == 0
    assert lines == [
        "ld.global.f32 %f10, [%rd2+64];",
        "ld.shared.f32 %f11, [%rd1];",
        "ld.shared.f32 %f12, [%rd1+4];",
        f"fma.rn.f32 %f13, %f11, {weights[0][0]}, %f1;",
        f"fma.rn.f32 %f14, %f12, {weights[0][1]}, %f13;",
        "st.shared.f32 [%rd1+128], %f10;",
        # nothing is fetched ahead of the last
        "ld.shared.f32 %f15, [%rd1+32];",
        "ld.shared.f32 %f16, [%rd1+36];",
        f"fma.rn.f32 %f17, %f15, {weights[1][0]}, %f14;",
        f"fma.rn.f32 %f18, %f16, {weights[1][1]}, %f17;",
        "st.global.f32 [%rd2], %f18;",
        "ret;",
    ]


def test_zeros_are_deleted_and_their_result_is_what_they_add_to() -> None:
    lines, deleted = code([(0, 2), (0, 0)])
    assert deleted == 3
    assert [line for line in lines if line.startswith("fma")] == [f"fma.rn.f32 %f13, %f12, {f32(2)}, %f1;"]
    assert "st.global.f32 [%rd2], %f13;" in lines


def test_without_weights_the_bias_is_stored() -> None:
    lines, deleted = code([(0, 0), (-0.0, 0)])
    assert deleted == 4
    assert "st.global.f32 [%rd2], %f1;" in lines


def test_pointers_that_move_become_offsets() -> None:
    lines, _ = code([(1, 1)] * 3)
    addresses = ("[%rd1];", "[%rd1+4];", "[%rd1+32];", "[%rd1+36];", "[%rd1+64];", "[%rd1+68];")
    assert [line.split(", ")[1] for line in lines if line.startswith("ld.shared")] == list(addresses)


def test_loop_control_and_parameters_of_the_template_are_gone() -> None:
    values = [dict(zip(PLACES, map(f32, (1, 2)), strict=True))]
    text, _ = specialise(parse(TEMPLATE), "e", values, {}, {"conv_param_2": 7})
    assert "bra" not in text
    assert "setp" not in text
    assert "mov.b32 %r1, 7;" in text
    assert "conv_param_2" not in text


def test_parser_reads_what_it_must() -> None:
    template = parse(TEMPLATE)
    assert template.parameters == ((".u64", "conv_param_0"), (".u64", "conv_param_1"), (".u32", "conv_param_2"))
    assert template.directives == ".maxntid 32, 1, 1"
    assert template.registers["%f"] == (".f32", 10)
    assert (len(template.before), len(template.body), len(template.after)) == (7, 10, 2)
    assert template.body[0] == Instruction("ld.global.f32", ("%f8", "[%rd2+64]"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".visible .entry", ".func", "must have one .entry"),
        ("@%p1 bra $L__BB0_1;", "", "one loop, over chunks of channels; found 0"),
        ("    mul.wide.s32", "    @%p1 mul.wide.s32", "no branch up to the end"),
    ],
)
def test_other_templates_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        parse(TEMPLATE.replace(old, new))


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("seed", range(1, 9))
def test_multiply_adds_are_the_weights(seed: int) -> None:
    layer = random_layer(seed)
    kernels = specialised(layer)
    together: dict[tuple[int, ...], str] = {}
    for kernel in kernels:
        tile = shape_of(layer, len(kernel.channels[0])).tile
        own = multiply_adds(kernel, layer, tile, kernel.channels[0][0])
        assert len(own) == kernel.multiplies
        together |= own
    assert together == {tuple(map(int, p)): f32(layer.weights[tuple(p)]) for p in np.argwhere(layer.weights)}
    assert sum(kernel.multiplies + kernel.deleted for kernel in kernels) == layer.weights.size


def test_templates_of_halves_are_refused() -> None:
    layer = layer_of(np.ones((1, 1, 3, 3), np.float32), (8, 8))
    with pytest.raises(TargetError, match="activations of f32, got f16"):
        shape_of(replace(layer, target=replace(layer.target, dtype=DType.F16)), 1)


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_one_template_serves_all_weights_of_a_shape(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        weights = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
        weights[rng.random(weights.shape) < rng.random()] = 0
        specialised(layer_of(weights, (12, 12)), cache=Cache(tmp_path))
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 1


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_templates_of_large_windows_have_fewer_channels() -> None:
    layer = layer_of(np.ones((64, 1, 11, 11), np.float32), (40, 40), (4, 4))
    kernels = specialised(layer, 64)
    assert [len(kernel.channels[0]) for kernel in kernels] == [32, 32]
    assert sum(kernel.multiplies for kernel in kernels) == 64 * 121
