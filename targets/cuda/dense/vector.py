"""Few vectors times a constant matrix: each weight is read once, 16 bytes at a time, and used for all vectors.

A warp computes some outputs; its lanes share the terms, and fold their sums at the end so that each lane holds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.dense.fold import fold, share
from targets.cuda.dense.problem import Problem
from targets.cuda.emit.element import fetch, widen
from targets.cuda.emit.ptx import Builder, f32, module
from targets.cuda.generic.access import address
from targets.cuda.kernel import Code, Kernel

__all__ = ["MOST_ROWS", "Settings", "settings_of", "vector"]

MOST_ROWS = 8
_WARP, _RUN = 32, 4  # lanes; terms that a lane takes at a time, a warp's width apart
_CHUNK = _WARP * _RUN
_WARPS = 128  # that a small device has room for


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be tuned: outputs of a warp, `unroll` chunks of 128 terms that are on the way together, warps that share
    the terms of an output (`parts`), warps of a block. Products of the number of outputs and vectors are at most 32."""

    outputs: int = 4
    unroll: int = 2
    parts: int = 1
    warps: int = 4


def settings_of(problem: Problem) -> Settings:
    """What is likely good: where outputs are few, warps share them."""
    chunks = max(1, -(-problem.terms // _CHUNK))
    unroll = 2 if chunks >= 8 and problem.rows <= 4 else 1
    parts = 1
    while parts < 8 and -(-problem.columns // 4) * parts < _WARPS and 2 * parts <= -(-chunks // unroll):
        parts *= 2
    return Settings(4, unroll, parts, max(4, parts))


def vector(
    problem: Problem,
    weights: np.ndarray,
    activation: Activation | None,
    numbers: Sequence[int | np.ndarray],
    settings: Settings | None = None,
) -> Code:
    """One product whose b is `weights` transposed [columns, terms]; `numbers` are the inputs a and perhaps bias."""
    settings = settings or settings_of(problem)
    names = ("x", "weights", *(("bias",) if problem.bias is not None else ()), "y")
    b = Builder()
    shared = _body(b, problem, activation, settings)
    together = settings.outputs * (settings.warps // settings.parts)
    grid = (-(-problem.columns // together), 1, 1)
    threads = settings.warps * _WARP
    text = b.entry("dense_vector", names, threads, shared)
    packed = _packed(weights, settings)
    return Code((Kernel("dense_vector", module(text), grid, threads),), (numbers[0], packed, *numbers[1:]))


def _packed(weights: np.ndarray, settings: Settings) -> np.ndarray:
    """Weights [outputs, terms] as [groups, chunks, outputs of a group, lanes, 4]; lane l's are terms l, l + 32, ..."""
    count, terms = weights.shape
    groups, chunks = -(-count // settings.outputs), -(-terms // _CHUNK)
    full = np.zeros((groups * settings.outputs, chunks * _CHUNK), np.float32)
    full[:count, :terms] = weights
    parts = full.reshape(groups, settings.outputs, chunks, _RUN, _WARP)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 4, 3))


def _body(b: Builder, problem: Problem, activation: Activation | None, settings: Settings) -> int:
    """Emits the kernel; the bytes of shared memory that it needs."""
    parts, together = settings.parts, settings.warps // settings.parts
    thread = b.new("r", "mov.u32", "%tid.x")
    lane, warp = b.new("r", "and.b32", thread, _WARP - 1), b.new("r", "shr.u32", thread, 5)
    part = b.new("r", "and.b32", warp, parts - 1)
    group = b.new("r", "shr.u32", warp, parts.bit_length() - 1)
    group = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), together, group)
    groups = -(-problem.columns // settings.outputs)
    if groups % together:
        group = b.new("r", "min.u32", group, groups - 1)  # does again what another warp does
    sums = [[b.new("f", "mov.f32", f32(0)) for _ in range(settings.outputs)] for _ in range(problem.rows)]
    if problem.terms:
        _Loop(b, problem, settings, sums, lane, part, group).run()
    sum = fold(b, [value for row in sums for value in row], lane)
    shared = 0
    if parts > 1:
        sum, shared = share(b, sum, warp, part, settings.warps, parts)
    first = b.new("r", "mul.lo.u32", group, settings.outputs)
    problem.finish(b, sum, settings.outputs, first, problem.columns % settings.outputs > 0, activation)
    return shared


class _Loop:
    """The sums of a lane, over all terms or those of the warp's part."""

    def __init__(
        self,
        b: Builder,
        problem: Problem,
        settings: Settings,
        sums: list[list[str]],
        lane: str,
        part: str,
        group: str,
    ) -> None:
        self._b, self._problem, self._settings, self._sums, self._lane = b, problem, settings, sums, lane
        self._chunks = -(-problem.terms // _CHUNK)
        self._part = part
        self._each = -(-self._chunks // (settings.unroll * settings.parts))  # iterations of a part
        first = b.new("r", "mul.lo.u32", part, self._each * settings.unroll)
        chunk = b.new("r", "mad.lo.u32", group, self._chunks, first)
        at = b.new("r", "mul.lo.u32", chunk, settings.outputs * _CHUNK)
        self._weights = address(b, "weights", b.new("r", "mad.lo.u32", lane, _RUN, at), DType.F32)
        term = b.new("r", "mad.lo.u32", first, _CHUNK, lane)
        self._x = problem.place(b, "x", problem.a, "", None, term)

    def run(self) -> None:
        """Whole iterations in a loop, and what is left, whose terms are tested."""
        b, unroll = self._b, self._settings.unroll
        whole = self._problem.terms // (_CHUNK * unroll)
        if whole:
            self._loop(whole)
        left = self._chunks - whole * unroll
        if left:
            end = b.label()
            if self._settings.parts > 1:
                owner = (-(-self._chunks // unroll) - 1) // self._each
                b.emit(f"@{b.new('p', 'setp.ne.u32', self._part, owner)} bra {end}")
            self._iteration(left, whole * unroll)
            b.place(end)

    def _loop(self, whole: int) -> None:
        b, unroll = self._b, self._settings.unroll
        remaining = b.new("r", "mov.u32", whole)
        if self._settings.parts > 1:
            done = b.new("r", "min.u32", b.new("r", "mul.lo.u32", self._part, self._each), whole)
            remaining = b.new("r", "min.u32", b.new("r", "sub.u32", whole, done), self._each)
        begin, end = b.label(), b.label()
        b.place(begin)
        b.emit(f"@{b.new('p', 'setp.eq.u32', remaining, 0)} bra {end}")
        self._iteration(unroll, None)
        b.emit(f"add.s64 {self._weights}, {self._weights}, {4 * unroll * self._settings.outputs * _CHUNK}")
        step = unroll * _CHUNK * self._problem.a.column * self._problem.a.dtype.bytes
        b.emit(f"add.s64 {self._x}, {self._x}, {step}")
        b.emit(f"sub.u32 {remaining}, {remaining}, 1")
        b.emit(f"bra {begin}")
        b.place(end)

    def _iteration(self, chunks: int, first: int | None) -> None:
        """Multiply-adds of so many chunks; `first` is the number of the first of the last ones, whose terms may end."""
        b, outputs = self._b, self._settings.outputs
        weights = []
        for run in range(chunks * outputs):
            four = [b.register("f") for _ in range(_RUN)]
            b.emit(f"ld.global.nc.v4.f32 {{{', '.join(four)}}}, [{self._weights}+{4 * run * _CHUNK}]")
            weights.append(four)
        for chunk in range(chunks):
            end = None if first is None else self._problem.terms - (first + chunk) * _CHUNK
            for run in range(_RUN):
                for own, x in zip(self._sums, self._values(chunk, run, end), strict=True):
                    for output, total in enumerate(own):
                        b.emit(f"fma.rn.f32 {total}, {weights[chunk * outputs + output][run]}, {x}, {total}")

    def _values(self, chunk: int, run: int, end: int | None) -> list[str]:
        """The lane's term of a run, of each vector; 0 where it is one that is not: the chunk has `end` terms."""
        b, a = self._b, self._problem.a
        inside = None
        if end is not None and end < (run + 1) * _WARP:
            inside = b.new("p", "setp.lt.u32", self._lane, max(0, end - run * _WARP))
        term = chunk * _CHUNK + run * _WARP
        offsets = [(row * a.row + term * a.column) * a.dtype.bytes for row in range(self._problem.rows)]
        return [widen(b, a.dtype, fetch(b, a.dtype, f"[{self._x}+{offset}]", inside=inside)) for offset in offsets]
