"""Whole kernels: memory, barriers, divergence, exchange between lanes, and what each check says when it fires."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from tests.targets.cuda.driver import (
    DEFAULT,
    HEADER,
    Buffer,
    CudaError,
    Module,
    counters,
    device,
    kernel,
    launch,
    library,
    reset_counters,
    synchronize,
)

RNG = np.random.default_rng(6)


def run(text: str, *arguments: object, grid: int = 1, block: int = 64, shared: int = 0) -> None:
    launch(Module(text).function("k"), (grid,), (block,), *arguments, shared=shared)
    synchronize()


def fails(text: str, error: str, message: str, *arguments: object, **options: int) -> None:
    """The kernel fails with this error, names its line, and nothing works in the context afterwards."""
    with pytest.raises(CudaError) as caught:
        run(text, *arguments, **options)
    assert caught.value.name == error
    assert message in caught.value.message
    assert "kernel k, line " in caught.value.message
    assert "thread (" in caught.value.message
    with pytest.raises(CudaError) as again:
        synchronize()
    assert again.value.name == error


ADD = """
  setp.ge.u32 %p0, %t, 1000;
  @%p0 bra done;
  mad.wide.u32 %d0, %t, 4, %a0; mad.wide.u32 %d1, %t, 4, %a1; mad.wide.u32 %d2, %t, 4, %a2;
  ld.global.nc.f32 %f0, [%d0]; ld.global.f32 %f1, [%d1];
  add.f32 %f2, %f0, %f1;
  st.global.f32 [%d2], %f2;
done:
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_vector_addition(threads: str) -> None:
    with device(**DEFAULT, threads=threads):
        a, b = RNG.random(1000, np.float32), RNG.random(1000, np.float32)
        c = Buffer(4000)
        run(kernel(ADD, 3), Buffer(a), Buffer(b), c, grid=8, block=128)
        np.testing.assert_array_equal(c.read(np.float32), a + b)


MATMUL = """
  .shared .align 16 .f32 x[256], y[256];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
  mad.lo.u32 %r4, %r3, 16, %r1; mad.lo.u32 %r5, %r2, 16, %r0;
  mad.lo.u32 %r6, %r4, 64, %r0; mad.wide.u32 %d0, %r6, 4, %a0;
  mad.lo.u32 %r7, %r1, 64, %r5; mad.wide.u32 %d1, %r7, 4, %a1;
  mov.u32 %r8, x; mov.u32 %r9, y;
  mad.lo.u32 %r10, %r1, 64, %r8; mad.lo.u32 %r11, %r0, 4, %r10; sub.u32 %r12, %r11, %r8; add.u32 %r12, %r12, %r9;
  mad.lo.u32 %r13, %r0, 4, %r9;
  mov.f32 %f0, 0f00000000; mov.u32 %r14, 0;
tile:
  ld.global.f32 %f1, [%d0]; ld.global.f32 %f2, [%d1];
  st.shared.f32 [%r11], %f1; st.shared.f32 [%r12], %f2;
  bar.sync 0;
  mov.u32 %r15, 0; mov.u32 %r16, %r10; mov.u32 %r17, %r13;
inner:
  ld.shared.v4.f32 {%f3, %f4, %f5, %f6}, [%r16];
  ld.shared.f32 %f7, [%r17]; ld.shared.f32 %f8, [%r17+64];
  ld.shared.f32 %f9, [%r17+128]; ld.shared.f32 %f10, [%r17+192];
  fma.rn.f32 %f0, %f3, %f7, %f0; fma.rn.f32 %f0, %f4, %f8, %f0;
  fma.rn.f32 %f0, %f5, %f9, %f0; fma.rn.f32 %f0, %f6, %f10, %f0;
  add.u32 %r16, %r16, 16; add.u32 %r17, %r17, 256; add.u32 %r15, %r15, 4;
  setp.lt.u32 %p0, %r15, 16; @%p0 bra inner;
  BARRIER
  add.u64 %d0, %d0, 64; add.u64 %d1, %d1, 4096; add.u32 %r14, %r14, 1;
  setp.lt.u32 %p1, %r14, 4; @%p1 bra tile;
  mad.lo.u32 %r18, %r4, 64, %r5; mad.wide.u32 %d2, %r18, 4, %a2; st.global.f32 [%d2], %f0;
"""


def multiply(barrier: str) -> np.ndarray:
    a, b = RNG.integers(-4, 5, (64, 64)).astype(np.float32), RNG.integers(-4, 5, (64, 64)).astype(np.float32)
    c = Buffer(64 * 64 * 4)
    function = Module(kernel(MATMUL.replace("BARRIER", barrier), 3)).function("k")
    launch(function, (4, 4), (16, 16), Buffer(a), Buffer(b), c)
    return c.read(np.float32, (64, 64)) - a @ b


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_tiled_product(seed: str) -> None:
    with device(**DEFAULT, seed=seed):
        assert not multiply("bar.sync 0;").any()


def test_missing_barrier_is_found() -> None:
    with device(**DEFAULT), pytest.raises(CudaError, match=r"race: byte .* of shared memory"):
        multiply("")
    with device(**DEFAULT, checks="memory,uninitialized"):
        assert multiply("").any()  # the order of warps alone shows it, too


# 64 threads; %r2 is the number of the warp, %p0 tells the first one, %h0 is 7
WARPS = """
  .shared .align 4 .b8 word[4];
  shr.u32 %r2, %t, 5; setp.eq.u32 %p0, %r2, 0; cvt.u16.u32 %h1, %r2; mov.u16 %h0, 7; st.shared.u32 [word], 7;
"""


@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize("body", ["", "st.shared.v2.u16 [word], {%h0, 0};", "bar.sync 0; ld.shared.u32 %r0, [word];"])
def test_several_warps_may_write_the_same(seed: str, body: str) -> None:
    with device(**DEFAULT, seed=seed):
        run(kernel(WARPS + body, 1), Buffer(4))


@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("st.shared.u32 [word], 7;", 7),
        ("st.shared.u32 [word], %r2;", 0xFFFFFFFF),
        ("bar.sync 0; st.shared.v2.u16 [word], {%h0, %h1};", 0xFFFF0007),
        ("st.shared.u32 [word], %r2; st.shared.u32 [word], 7;", 0xFFFFFFFF),
        ("st.shared.u32 [word], %r2; bar.sync 0; st.shared.u32 [word], 7;", 7),
    ],
)
def test_what_warps_write_differently_is_no_number(seed: str, body: str, left: int) -> None:
    with device(**DEFAULT, seed=seed):
        out = Buffer(4)
        run(kernel(WARPS + body + "bar.sync 0; ld.shared.u32 %r0, [word]; st.global.u32 [%a0], %r0;", 1), out)
        assert out.read(np.uint32, 1)[0] == left


@pytest.mark.parametrize("seed", ["0", "1", "2"])
@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.u32 %r0, [word];",
        "st.shared.u32 [word], %r2; ld.shared.u32 %r0, [word];",
        "bar.sync 0; @%p0 ld.shared.u32 %r0, [word]; @!%p0 st.shared.u32 [word], 7;",
    ],
)
def test_reads_of_what_another_warp_writes_are_races(seed: str, body: str) -> None:
    with device(**DEFAULT, seed=seed):
        fails(kernel(WARPS + body, 1), "CUDA_ERROR_LAUNCH_FAILED", "race: byte 0x", Buffer(4))


def test_divergence_meets_again() -> None:
    body = """
  and.b32 %r0, %t, 7; mov.u32 %r1, 0; mov.u32 %r2, 0;
loop:
  setp.ge.u32 %p0, %r2, %r0; @%p0 bra out;
  add.u32 %r2, %r2, 1; and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra even;
  mad.lo.u32 %r1, %r2, 10, %r1; bra.uni loop;
even:
  add.u32 %r1, %r1, 1; bra.uni loop;
out:
  activemask.b32 %r4;
  mad.wide.u32 %d0, %t, 8, %a0; st.global.v2.u32 [%d0], {%r1, %r4};
"""
    with device(**DEFAULT):
        out = Buffer(64 * 8)
        run(kernel(body, 1), out)
        got = out.read(np.uint32, (64, 2))
        want = [sum(10 * i if i % 2 else 1 for i in range(1, t % 8 + 1)) for t in range(64)]
        np.testing.assert_array_equal(got[:, 0], want)
        assert (got[:, 1] == 0xFFFFFFFF).all()
        assert counters()["divergent_branches"] > 0


def test_indexed_branch() -> None:
    body = """
  and.b32 %r0, %t, 3;
list: .branchtargets l0, l1, l2, l1;
  brx.idx %r0, list;
l0: mov.u32 %r1, 5; bra end;
l1: mov.u32 %r1, 6; bra end;
l2: mov.u32 %r1, 7;
end:
  mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %r1;
"""
    with device(**DEFAULT):
        out = Buffer(64 * 4)
        run(kernel(body, 1), out)
        np.testing.assert_array_equal(out.read(np.uint32), np.tile([5, 6, 7, 6], 16))


def test_exchange_between_lanes() -> None:
    body = """
  mov.u32 %r0, %laneid; mul.lo.u32 %r1, %r0, %r0;
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff;
  shfl.sync.up.b32 %r3|%p0, %r1, 2, 0, 0xffffffff; selp.b32 %r4, 1, 0, %p0;
  setp.gt.u32 %p1, %r0, 15; vote.sync.ballot.b32 %r5, %p1, 0xffffffff;
  and.b32 %r6, %r0, 1; match.any.sync.b32 %r7, %r6, 0xffffffff;
  mad.wide.u32 %d0, %t, 16, %a0; st.global.v4.u32 [%d0], {%r2, %r3, %r4, %r5};
  mad.wide.u32 %d1, %t, 4, %a1; st.global.u32 [%d1], %r7;
"""
    with device(**DEFAULT):
        out, pairs = Buffer(32 * 16), Buffer(32 * 4)
        run(kernel(body, 2), out, pairs, block=32)
        got, lane = out.read(np.uint32, (32, 4)), np.arange(32)
        np.testing.assert_array_equal(got[:, 0], (lane ^ 1) ** 2)
        np.testing.assert_array_equal(got[:, 1], np.where(lane >= 2, lane - 2, lane) ** 2)
        np.testing.assert_array_equal(got[:, 2], lane >= 2)
        assert (got[:, 3] == 0xFFFF0000).all()
        np.testing.assert_array_equal(pairs.read(np.uint32), np.where(lane % 2, 0xAAAAAAAA, 0x55555555))


def test_atomics_over_blocks() -> None:
    body = """
  red.global.add.u32 [%a0], 1; atom.global.max.u32 %r0, [%a0+4], %t; atom.global.add.f32 %f0, [%a0+8], 0f3f800000;
  atom.global.cas.b32 %r1, [%a0+12], 0, %t;
"""
    with device(**DEFAULT):
        out = Buffer(np.zeros(4, np.uint32))
        run(kernel(body, 1), out, grid=10, block=96)
        got = out.read(np.uint32)
        assert (got[0], got[1], got[2:3].view(np.float32)[0]) == (960, 959, 960)
        assert got[3] > 0


def test_local_dynamic_and_constant_memory() -> None:
    before = ".const .align 4 .f32 table[4] = {0f3f800000, 2.0, 3.0, 4.0};\n.extern .shared .align 16 .b8 room[];\n"
    before += ".global .align 4 .u32 counter = 7;\n"
    body = """
  .local .align 8 .b8 frame[16]; .shared .u32 first[3];
  mov.u64 %d0, frame; cvta.local.u64 %d1, %d0; and.b32 %r0, %t, 3; mul.wide.u32 %d2, %r0, 4; mov.u64 %d3, table;
  add.u64 %d3, %d3, %d2; ld.const.f32 %f0, [%d3]; add.u64 %d1, %d1, %d2; st.f32 [%d1], %f0; add.u64 %d0, %d0, %d2;
  ld.local.f32 %f1, [%d0];
  mov.u32 %r1, room; mad.lo.u32 %r2, %t, 4, %r1; st.shared.f32 [%r2], %f1; bar.sync 0;
  xor.b32 %r3, %t, 63; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.f32 %f2, [%r3];
  ld.global.u32 %r4, [counter]; cvt.rn.f32.u32 %f3, %r4; add.f32 %f2, %f2, %f3;
  mad.wide.u32 %d4, %t, 4, %a0; st.global.f32 [%d4], %f2;
"""
    with device(**DEFAULT):
        out = Buffer(256)
        run(kernel(body, 1, before=before), out, shared=256)
        np.testing.assert_array_equal(out.read(np.float32), np.tile([4, 3, 2, 1], 16) + 7)


def test_reduction_at_a_barrier() -> None:
    body = """
  setp.lt.u32 %p0, %t, 40; bar.red.popc.u32 %r0, 0, %p0; bar.red.and.pred %p1, 0, %p0; selp.b32 %r1, 1, 0, %p1;
  mad.wide.u32 %d0, %t, 8, %a0; st.global.v2.u32 [%d0], {%r0, %r1};
"""
    with device(**DEFAULT):
        out = Buffer(64 * 8)
        run(kernel(body, 1), out)
        assert (out.read(np.uint32, (64, 2)) == (40, 0)).all()


# ---- each check fires ----

STORE = "mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0], %t;"


def test_store_beyond_the_end() -> None:
    with device(**DEFAULT):
        fails(kernel(STORE, 1), "CUDA_ERROR_ILLEGAL_ADDRESS", "thread (63,0,0): store of 4 bytes", Buffer(252))


def test_use_after_free() -> None:
    with device(**DEFAULT):
        buffer = Buffer(256)
        buffer.free()
        fails(kernel(STORE, 1), "CUDA_ERROR_ILLEGAL_ADDRESS", "is in no allocation", buffer)


def test_misaligned() -> None:
    with device(**DEFAULT):
        body = "mad.wide.u32 %d0, %t, 4, %a0; st.global.u32 [%d0+2], %t;"
        fails(kernel(body, 1), "CUDA_ERROR_MISALIGNED_ADDRESS", "of 4 bytes", Buffer(512))


def test_host_pointer() -> None:
    with device(**DEFAULT):
        host = ctypes.c_void_p()
        assert library().cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(256), 2) == 0
        wrong = ctypes.c_uint64(host.value or 0)
        fails(kernel(STORE, 1), "CUDA_ERROR_ILLEGAL_ADDRESS", "is in no allocation", wrong)


def test_mapped_host_memory() -> None:
    with device(**DEFAULT):
        host, address = ctypes.c_void_p(), ctypes.c_uint64()
        assert library().cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(256), 2) == 0
        assert library().cuMemHostGetDevicePointer_v2(ctypes.byref(address), host, 0) == 0
        run(kernel(STORE, 1), address)
        words = (ctypes.c_uint32 * 64).from_address(host.value or 0)
        assert list(words) == list(range(64))
        assert library().cuMemFreeHost(host) == 0


def test_store_to_constants() -> None:
    with device(**DEFAULT):
        body = "mov.u64 %d0, table; cvta.const.u64 %d0, %d0; st.u32 [%d0], %t;"
        text = kernel(body, 0, before=".const .u32 table[4];\n")
        fails(text, "CUDA_ERROR_ILLEGAL_ADDRESS", "is in constant memory")


UNWRITTEN: dict[str, tuple[str, str]] = {
    "global": ("ld.global.u32 %r0, [%a0]; st.global.u32 [%a0+4], %r0;", ""),
    "shared": ("ld.shared.u32 %r0, [room]; st.global.u32 [%a0], %r0;", ".shared .u32 room;"),
    "local": ("ld.local.u32 %r0, [room]; st.global.u32 [%a0], %r0;", ".local .u32 room;"),
}


@pytest.mark.parametrize("space", UNWRITTEN)
def test_read_of_what_nobody_wrote(space: str) -> None:
    body, variable = UNWRITTEN[space]
    text = kernel(body, 1, variable)
    with device(**DEFAULT):
        fails(text, "CUDA_ERROR_LAUNCH_FAILED", "that nobody wrote", Buffer(8))
    with device(**DEFAULT, checks="memory"):
        run(text, Buffer(8))


def test_outside_of_shared_memory_and_parameters() -> None:
    with device(**DEFAULT):
        text = kernel("st.shared.u32 [room+16], %t;", 1, ".shared .u32 room[4];")
        fails(text, "CUDA_ERROR_ILLEGAL_ADDRESS", "is outside of shared memory", Buffer(8))
    with device(**DEFAULT):
        text = kernel("ld.param.u32 %r0, [p0+8];", 1)
        fails(text, "CUDA_ERROR_ILLEGAL_ADDRESS", "outside of the parameters", Buffer(8))


BARRIERS: dict[str, Callable[[], tuple[str, str]]] = {
    "part of a warp": lambda: ("setp.lt.u32 %p0, %t, 40; @%p0 bar.sync 0;", "barrier divergence"),
    "other barriers": lambda: ("setp.lt.u32 %p0, %t, 32; @%p0 bar.sync 1; @!%p0 bar.sync 2;", "barrier divergence"),
    "other counts": lambda: ("setp.lt.u32 %p0, %t, 32; @%p0 bar.sync 1, 96; @!%p0 bar.sync 1, 128;", "barrier for"),
}


@pytest.mark.parametrize("case", BARRIERS)
def test_barrier_divergence(case: str) -> None:
    body, message = BARRIERS[case]()
    with device(**DEFAULT):
        fails(kernel(body, 1), "CUDA_ERROR_LAUNCH_FAILED", message, Buffer(8), block=64)


def test_absent_lanes_endless_loops_and_traps() -> None:
    body = "setp.lt.u32 %p0, %t, 8; @%p0 shfl.sync.bfly.b32 %r0, %t, 1, 31, 0xffffffff;"
    with device(**DEFAULT):
        fails(kernel(body, 1), "CUDA_ERROR_LAUNCH_FAILED", "lanes ffffffff are named", Buffer(8))
    body = "setp.lt.u32 %p0, %t, 9; @%p0 shfl.bfly.b32 %r0, %t, 1, 31;"
    with device(**DEFAULT):
        fails(kernel(body, 1), "CUDA_ERROR_LAUNCH_FAILED", "the value of lane 9, which is not here", Buffer(8))
    with device(**DEFAULT, limit="100000"):
        fails(kernel("again: bra again;", 1), "CUDA_ERROR_LAUNCH_TIMEOUT", "more than 100000", Buffer(8))
    with device(**DEFAULT):
        fails(kernel("trap;", 1), "CUDA_ERROR_LAUNCH_FAILED", "trap", Buffer(8))


# ---- what the parser refuses ----

REFUSED = {
    "fma.rn.f31 %f0, %f0, %f0, %f0;": "these types are not supported",
    "frobnicate.b32 %r0, %r0;": "frobnicate.b32: unknown opcode",
    "add.bogus.s32 %r0, %r0, %r0;": "suffix .bogus is not supported",
    "add.s32 %r0, %f99, %r0;": "%f99 is no register",
    "add.s32 %r0, %d0, %r0;": "register %d0 is not of the size",
    "add.s32 %r0, %r0;": "expected ,",
    "fma.f32 %f0, %f0, %f0, %f0;": "needs a rounding",
    "mul.f32 %f0, %f0, 3;": "a constant of a float is written",
    "bra nowhere;": "label nowhere is defined nowhere",
    "call f;": "call: unknown opcode",
    "ld.global.v4.f32 {%f0, %f1}, [%a0];": "2 registers for a vector of 4",
}


@pytest.mark.parametrize("line", REFUSED)
def test_errors_of_the_parser_name_the_line(line: str) -> None:
    text = kernel("LINE", 1)
    number = text[: text.index("LINE")].count("\n") + 1
    with device(**DEFAULT), pytest.raises(CudaError) as caught:
        Module(text.replace("LINE", line))
    assert caught.value.name == "CUDA_ERROR_INVALID_PTX"
    assert REFUSED[line] in caught.value.message
    if "nowhere" not in line:
        assert f"PTX line {number}:" in caught.value.message


@pytest.mark.parametrize("seed", range(20))
def test_damaged_text_is_refused_or_loaded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = kernel(MATMUL.replace("BARRIER", "bar.sync 0;"), 3)
    with device(**DEFAULT):
        for _ in range(20):
            data = bytearray(text.encode())
            for place in rng.integers(0, len(data), 3):
                data[place] = rng.choice(list(b" %.;:{}[]0x9_abr\n"))
            with suppress(CudaError):
                Module(bytes(data[: rng.integers(1, len(data) + 1)]) + b"\0")


def test_counters() -> None:
    with device(**DEFAULT):
        reset_counters()
        a = Buffer(np.zeros(1024, np.float32))
        body = "mad.wide.u32 %d0, %t, 4, %a0; ld.global.f32 %f0, [%d0]; fma.rn.f32 %f0, %f0, %f0, %f0;"
        run(kernel(body, 1), a, grid=8, block=128)
        counts = counters()
        assert counts["instructions"]["fma.f32"] == [32, 1024]
        assert (counts["launches"], counts["blocks"]) == (1, 8)
        assert counts["global_requests"] == 32
        assert counts["global_sectors"] == 32 * 4
        reset_counters()
        body = ".shared .u32 room[1024]; mov.u32 %r0, room; mad.lo.u32 %r0, %t, 128, %r0; st.shared.u32 [%r0], %t;"
        run(kernel(body, 1), a, block=32)
        assert counters()["shared_cycles"] == 32
        assert HEADER.startswith(".version")
