"""Inner loops found in assembly, and what is made of llvm-mca's report; no compiler or LLVM needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.kernels_static import SOURCES, UNITS, Loop, flags_of, loops_of, throughputs_of

AARCH64 = """
	.type	tile_2x1,@function
tile_2x1:                               // @tile_2x1
	cbz	x3, .LBB0_4
// %bb.1:
	ldr	q0, [sp, #16]
.LBB0_2:                                // =>This Loop Header: Depth=1
	ldr	x8, [x0]
.LBB0_3:                                //   Parent Loop BB0_2 Depth=1
	ldp	q4, q5, [x1], #32
	ldr	q6, [sp, #32]                   // 16-byte Folded Reload
	fmla	v0.4s, v4.4s, v6.s[0]
	prfm	pldl2keep, [x5]
	fmla	v1.4s, v5.4s, v6.s[0]
	subs	x8, x8, #1
	b.ne	.LBB0_3
// %bb.4:
	subs	x3, x3, #1
	fmla	v0.4s, v4.4s, v6.s[0]
	b.ne	.LBB0_2
.LBB0_4:
	fadd	v0.4s, v0.4s, v1.4s
	fadd	v0.4s, v0.4s, v2.4s
	fmax	v0.4s, v0.4s, v3.4s
	str	q0, [x4]
	ret
"""

X86 = """
	.type	pair, @function
pair:
.LFB1:
	testq	%rdx, %rdx
	je	.L1
.L3:
	vmovaps	(%rdi), %zmm2
	cmpq	$0, %rcx
	je	.L4
	prefetcht1	(%rcx)
.L4:
	vfmadd231ps	(%rsi){1to16}, %zmm2, %zmm0
	vfmadd231ps	-64(%rsp), %zmm2, %zmm1	# 64-byte Folded Reload
	addq	$64, %rdi
	decq	%rdx
	jne	.L3
.L1:
	ret
"""


def test_a_function_of_a_size_has_one_inner_loop_of_the_block_with_most_multiply_adds() -> None:
    (loop,) = loops_of(AARCH64)
    assert (loop.name, loop.operations, loop.fused, loop.chains, loop.spills) == ("tile_2x1", 2, 2, 2, 1)
    assert loop.instructions[0] == "ldp q4, q5, [x1], #32"
    assert loop.instructions[-1] == "b.ne .LBB0_3"
    assert len(loop.instructions) == 7


def test_a_size_may_be_followed_by_what_a_macro_made_of_it() -> None:
    (loop,) = loops_of(AARCH64.replace("tile_2x1", "tile_2x1_WEIGHTS_F16"))
    assert loop.name == "tile_2x1_WEIGHTS_F16"


def test_products_of_bytes_are_multiply_adds() -> None:
    lanes = AARCH64.replace("fmla\tv0.4s, v4.4s, v6.s[0]", "sdot\tv0.4s, v4.16b, v6.4b[0]")
    (loop,) = loops_of(lanes.replace("prfm\tpldl2keep, [x5]", "movi\tv9.16b, 0xffffffffffffff80"))
    assert (loop.operations, loop.fused, loop.chains) == (2, 2, 2)
    assert "movi v9.16b, 0x80" in loop.instructions  # as LLVM takes it
    (loop,) = loops_of(X86.replace("vfmadd231ps", "{vex} vpdpbusd"))
    assert (loop.fused, loop.chains) == (2, 2)


def test_a_loop_of_several_blocks_is_the_shortest_way_around() -> None:
    (loop,) = loops_of(X86)
    assert (loop.name, loop.operations, loop.chains, loop.spills) == ("pair", 2, 2, 1)
    assert not any("prefetch" in line for line in loop.instructions)
    assert sorted(loop.instructions)[-1] == "vmovaps (%rdi), %zmm2"
    assert len(loop.instructions) == 8


def test_a_block_that_no_way_leads_back_to_stands_alone() -> None:
    straight = AARCH64.replace("b.ne", "cmp").replace("cbz\tx3, .LBB0_4", "nop")
    (loop,) = loops_of(straight)
    assert loop.operations == 3


def region(instructions: int, cycles: int, uops: int, usage: list[tuple[int, float]]) -> dict[str, object]:
    """Of 100 iterations."""
    pressure = [{"InstructionIndex": instructions, "ResourceIndex": i, "ResourceUsage": used} for i, used in usage]
    summary = {"Iterations": 100, "TotalCycles": cycles, "TotaluOps": 100 * uops, "DispatchWidth": 3}
    return {
        "Instructions": ["nop"] * instructions,
        "SummaryView": {**summary, "Instructions": 100 * instructions},
        "ResourcePressureView": {"ResourcePressureInfo": pressure},
    }


@pytest.mark.parametrize(
    ("cycles", "uops", "loads", "limit"),
    [(820, 8, 8.0, "L"), (820, 24, 2.0, "dispatch"), (820, 8, 2.0, "latency")],
)
def test_throughput_is_told_against_multiply_adds_alone(cycles: int, uops: int, loads: float, limit: str) -> None:
    peak = region(56, 5600, 56, [(1, 56.0)])
    report = json.dumps(
        {
            "CodeRegions": [peak, region(10, cycles, uops, [(0, loads), (1, 4.0)])],
            "TargetInfo": {"Resources": ["L", "V"]},
        }
    )
    loop = Loop("tile", ("nop",) * 10, operations=4, fused=4, chains=4, spills=0)
    (found,) = throughputs_of(report, [loop])
    assert (found.loop, found.cycles, found.peak, found.limit) == ("tile", 8.2, 1.0, limit)
    assert found.per_cycle == pytest.approx(4 / 8.2)
    assert found.of_peak == pytest.approx(400 / 8.2)


def test_kernels_are_compiled_as_the_build_does(tmp_path: Path) -> None:
    flags = {unit.isa: flags_of(unit, SOURCES) for unit in UNITS}
    assert {"-mavx512f", "-mbmi2", "-ffp-contract=fast"} <= set(flags["avx512"])
    assert flags["neondotprod"] == ["-ffp-contract=off"]  # the rest is what the compiler there takes
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake" / "sources.cmake").write_text("edgert_isa_source(src/kernels/simd/other.c -mavx2)")
    with pytest.raises(SystemExit, match=r"does not build src/kernels/simd/simd-neon\.c"):
        flags_of(UNITS[0], tmp_path)
