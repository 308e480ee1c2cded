"""Kernels that do one thing only, to find what a GPU can do at most. Each gives its PTX for a grid of one dimension.

All have the parameters x (read), y (written) and loops, a pointer to how often the body runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from targets.cuda.emit.ptx import Builder, f32, module

__all__ = ["SUMS", "THREADS", "copy", "multiply_adds", "nothing", "read", "shared"]

THREADS = 256
SUMS = 16  # multiply-adds that do not wait for each other
_UNROLLED = 4  # loads of 16 bytes in flight
_WORDS = 4096  # of shared memory


class _Probe:
    """A kernel with a loop."""

    def __init__(self) -> None:
        self.b = b = Builder()
        self.x, self.y, loops = (
            b.new("d", "cvta.to.global.u64", b.new("d", "ld.param.u64", f"[{name}]")) for name in ("x", "y", "loops")
        )
        self.thread = b.new("r", "mov.u32", "%tid.x")
        self.block = b.new("r", "mov.u32", "%ctaid.x")
        self.number = b.new("r", "mad.lo.u32", self.block, THREADS, self.thread)
        self._loops, self._head = b.new("r", "ld.global.u32", f"[{loops}]"), b.label()

    def loop(self) -> None:
        """Here the loop begins."""
        self.b.place(self._head)
        self.b.emit('.pragma "nounroll"')

    def again(self) -> None:
        """Here it ends."""
        self.b.emit(f"sub.u32 {self._loops}, {self._loops}, 1")
        self.b.emit(f"@{self.b.new('p', 'setp.ne.u32', self._loops, 0)} bra {self._head}")

    def finish(self, results: list[str], name: str, shared: int = 0) -> str:
        """Stores the sum of the results, a float a thread."""
        b, total = self.b, results[0]
        for result in results[1:]:
            total = b.new("f", "add.rn.f32", total, result)
        place = b.new("d", "add.u64", self.y, b.new("d", "mul.wide.u32", self.number, 4))
        b.emit(f"st.global.f32 [{place}], {total}")
        b.emit("ret")
        return module(b.entry(name, ("x", "y", "loops"), THREADS, shared))


def multiply_adds(count: int, kind: str = "f32") -> str:
    """`count` multiply-adds as straight-line code, weights different immediates, in a loop; x holds one float.

    With `kind` "f16x2", each does two and weights are in registers. Entry "multiply_adds". The first thread of each
    block leaves the cycles and the nanoseconds that it took, two 64-bit numbers a block, behind the sums in y.
    """
    p = _Probe()
    b, halves = p.b, kind == "f16x2"
    value = b.new("f", "ld.global.f32", f"[{p.x}]")
    if halves:
        low = b.new("h", "cvt.rn.f16.f32", value)
        factors = [b.new("b", "mov.b32", f"{{{low}, {low}}}") for _ in range(2)]
        sums = [b.new("b", "mov.b32", number) for number in range(SUMS)]
    else:
        sums = [b.new("f", "mov.f32", f32(number)) for number in range(SUMS)]
    weights = np.random.default_rng(0).uniform(0.5, 2, count).astype(np.float16)
    began = [b.new("d", "mov.u64", clock) for clock in ("%clock64", "%globaltimer")]
    p.loop()
    for number in range(count):
        own = sums[number % SUMS]
        if halves:
            b.emit(f"fma.rn.f16x2 {own}, {factors[0]}, {factors[1]}, {own}")
        else:
            b.emit(f"fma.rn.f32 {own}, {value}, {f32(weights[number])}, {own}")
    p.again()
    if halves:
        sums = [b.new("f", "mov.b32", own) for own in sums]
    ended = [b.new("d", "mov.u64", clock) for clock in ("%clock64", "%globaltimer")]
    blocks = b.new("r", "mov.u32", "%nctaid.x")
    behind = b.new("d", "mul.wide.u32", blocks, 4 * THREADS)
    place = b.new("d", "add.u64", b.new("d", "mul.wide.u32", p.block, 16), b.new("d", "add.u64", p.y, behind))
    first = b.new("p", "setp.eq.u32", p.thread, 0)
    for number, (begin, end) in enumerate(zip(began, ended, strict=True)):
        b.emit(f"@{first} st.global.u64 [{place}+{8 * number}], {b.new('d', 'sub.u64', end, begin)}")
    return p.finish(sums, "multiply_adds")


def read(blocks: int, steps: int) -> str:
    """Reads blocks x THREADS x 64 x steps bytes of x, 16 at a time, past the first cache. Entry "read"."""
    p = _Probe()
    b = p.b
    sums = [b.new("f", "mov.f32", f32(0)) for _ in range(4)]
    p.loop()
    places, next_step = _walk(p, blocks, steps, (p.x,))
    for number in range(_UNROLLED):
        values = [b.register("f") for _ in range(4)]
        b.emit(f"ld.global.cg.v4.f32 {{{', '.join(values)}}}, [{places[0]}+{number * blocks * THREADS * 16}]")
        for own, value in zip(sums, values, strict=True):
            b.emit(f"add.rn.f32 {own}, {own}, {value}")
    next_step()
    p.again()
    return p.finish(sums, "read")


def copy(blocks: int, steps: int) -> str:
    """Copies as many bytes from x to y. Entry "copy"."""
    p = _Probe()
    b = p.b
    p.loop()
    places, next_step = _walk(p, blocks, steps, (p.x, p.y))
    loaded = []
    for number in range(_UNROLLED):
        loaded.append([b.register("f") for _ in range(4)])
        b.emit(f"ld.global.nc.v4.f32 {{{', '.join(loaded[-1])}}}, [{places[0]}+{number * blocks * THREADS * 16}]")
    for number, values in enumerate(loaded):
        b.emit(f"st.global.v4.f32 [{places[1]}+{number * blocks * THREADS * 16}], {{{', '.join(values)}}}")
    next_step()
    p.again()
    b.emit("ret")
    return module(b.entry("copy", ("x", "y", "loops"), THREADS))


def shared() -> str:
    """Each thread reads SUMS words of shared memory, 4 bytes at a time, without conflicts. Entry "shared_read"."""
    p = _Probe()
    b = p.b
    base = b.new("r", "mov.u32", "shared")
    own = b.new("r", "mad.lo.u32", p.thread, 4, base)
    value = b.new("f", "ld.global.f32", f"[{p.x}]")
    for number in range(_WORDS // THREADS):
        b.emit(f"st.shared.f32 [{own}+{number * THREADS * 4}], {value}")
    b.emit("bar.sync 0")
    sums = [b.new("f", "mov.f32", f32(0)) for _ in range(4)]
    p.loop()
    for number in range(SUMS):
        word = b.new("f", "ld.volatile.shared.f32", f"[{own}+{number * THREADS * 4 % (_WORDS * 4)}]")
        b.emit(f"add.rn.f32 {sums[number % 4]}, {sums[number % 4]}, {word}")
    p.again()
    return p.finish(sums, "shared_read", _WORDS * 4)


def nothing() -> str:
    """Entry "nothing": only the launch."""
    b = Builder()
    b.emit("ret")
    return module(b.entry("nothing", ("x", "y", "loops"), 32))


def _walk(p: _Probe, blocks: int, steps: int, bases: tuple[str, ...]) -> tuple[list[str], Callable[[], None]]:
    """An inner loop of `steps`: where this thread is in each array, and a function that ends a step."""
    b, head = p.b, p.b.label()
    offset = b.new("d", "mul.wide.u32", p.number, 16)
    places = [b.new("d", "add.u64", base, offset) for base in bases]
    left = b.new("r", "mov.u32", steps)
    b.place(head)
    b.emit('.pragma "nounroll"')

    def next_step() -> None:
        for place in places:
            b.emit(f"add.u64 {place}, {place}, {_UNROLLED * blocks * THREADS * 16}")
        b.emit(f"sub.u32 {left}, {left}, 1")
        b.emit(f"@{b.new('p', 'setp.ne.u32', left, 0)} bra {head}")

    return places, next_step
