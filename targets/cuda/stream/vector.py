"""Few vectors times a constant matrix with many zeros: weights that are none are neither stored nor read.

A block stages the vectors in shared memory, chunk of terms by chunk. Its warps have some outputs each; their lanes
share the list of an output's weights of that chunk, and fold their sums at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.dense.fold import fold
from targets.cuda.dense.problem import Problem
from targets.cuda.emit.element import fetch, widen
from targets.cuda.emit.ptx import Builder, f32, module
from targets.cuda.generic.access import address
from targets.cuda.kernel import Code, Kernel

__all__ = ["vector"]

_WARP, _RUN = 32, 2  # lanes; weights that a lane takes at a time
_LINE = _WARP * _RUN  # weights that a warp takes at a time
_STAGED = 6144  # elements of all vectors in shared memory: 24 KB
_REGISTERS = 32_768  # of a block
_OUTPUTS = 2048  # from as many outputs on, a warp has several


@dataclass(frozen=True, slots=True)
class _Deal:
    """A block has `warps` of `each` outputs; it stages `depth` terms of each vector at a time, in `chunks` all."""

    warps: int
    each: int
    depth: int
    chunks: int

    @classmethod
    def of(cls, problem: Problem) -> _Deal:
        depth = min(problem.terms, _STAGED // problem.rows)
        each = 2 if problem.columns > _OUTPUTS else 1
        most = _REGISTERS // (_WARP * _registers(problem.rows * each))
        warps = min(most, -(-problem.columns // each))
        return cls(warps, each, depth, -(-problem.terms // depth))

    @property
    def threads(self) -> int:
        return self.warps * _WARP

    @property
    def outputs(self) -> int:
        """Of a block."""
        return self.warps * self.each


def _registers(sums: int) -> int:
    """Of a thread with so many sums."""
    return 32 if sums <= 2 else 64


def vector(
    problem: Problem, weights: np.ndarray, activation: Activation | None, numbers: Sequence[int | np.ndarray]
) -> Code:
    """One product whose b is `weights` transposed [columns, terms]; `numbers` are the inputs a and perhaps bias."""
    deal = _Deal.of(problem)
    blocks = -(-problem.columns // deal.outputs)
    names = ("x", "begins", "values", "places", *(("bias",) if problem.bias is not None else ()), "y")
    b = Builder()
    _body(b, problem, activation, deal)
    shared, registers = 4 * problem.rows * deal.depth, _registers(problem.rows * deal.each)
    text = b.entry("stream_vector", names, deal.threads, shared, registers)
    kernel = Kernel("stream_vector", module(text), (blocks, 1, 1), deal.threads)
    return Code((kernel,), (numbers[0], *_lists(weights, deal, blocks * deal.outputs), *numbers[1:]))


def _lists(weights: np.ndarray, deal: _Deal, outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lists of all outputs, chunk by chunk: `begins` [outputs * chunks + 1] in lines of 64 weights; the `values`
    f32 and `places` u16, the bytes from the chunk's begin, of the lists, filled up with zeros to whole lines."""
    output, term = np.nonzero(weights)
    chunk, within = np.divmod(term, deal.depth)
    key = output * deal.chunks + chunk
    lengths = np.bincount(key, minlength=outputs * deal.chunks)
    begins = np.concatenate([[0], np.cumsum(-(-lengths // _LINE))])
    at = begins[key] * _LINE + np.arange(len(key)) - np.concatenate([[0], np.cumsum(lengths)])[key]
    size = max(1, int(begins[-1])) * _LINE
    values, places = np.zeros(size, np.float32), np.zeros(size, np.uint16)
    values[at], places[at] = weights[output, term], 4 * within
    return begins.astype(np.uint32), values, places


def _body(b: Builder, problem: Problem, activation: Activation | None, deal: _Deal) -> None:
    thread = b.new("r", "mov.u32", "%tid.x")
    lane, warp = b.new("r", "and.b32", thread, _WARP - 1), b.new("r", "shr.u32", thread, 5)
    first = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), deal.warps, warp)
    first = b.new("r", "mul.lo.u32", first, deal.each)
    sums = [[b.new("f", "mov.f32", f32(0)) for _ in range(deal.each)] for _ in range(problem.rows)]
    _chunks(b, problem, deal, sums, thread, lane, first)
    sum = fold(b, [value for row in sums for value in row], lane)
    problem.finish(b, sum, deal.each, first, problem.columns % deal.outputs > 0, activation)


def _chunks(
    b: Builder, problem: Problem, deal: _Deal, sums: list[list[str]], thread: str, lane: str, first: str
) -> None:
    """Adds all products of the warp's outputs to its lanes' sums."""
    shared = b.new("r", "mov.u32", "shared")
    begins = address(b, "begins", b.new("r", "mul.lo.u32", first, deal.chunks), DType.U32)
    values = address(b, "values", b.new("r", "mul.lo.u32", lane, _RUN), DType.F32)
    places = address(b, "places", b.new("r", "mul.lo.u32", lane, _RUN), DType.U16)
    x = problem.place(b, "x", problem.a, "", None, thread)
    to = b.new("r", "mad.lo.u32", thread, 4, shared)
    left, begin = b.new("r", "mov.u32", problem.terms), b.label()
    b.place(begin)
    _stage(b, problem, deal, thread, x, to, left)
    b.emit("bar.sync 0")
    for output in range(deal.each):
        own = 4 * output * deal.chunks
        line, end = (b.new("r", "ld.global.nc.u32", f"[{begins}+{offset}]") for offset in (own, own + 4))
        _list(b, deal, [row[output] for row in sums], (line, end), (values, places), shared)
    if deal.chunks > 1:
        b.emit("bar.sync 0")
        b.emit(f"add.s64 {begins}, {begins}, 4")
        b.emit(f"add.s64 {x}, {x}, {deal.depth * problem.a.column * problem.a.dtype.bytes}")
        last = b.new("p", "setp.le.u32", left, deal.depth)
        b.emit(f"sub.u32 {left}, {left}, {deal.depth}")
        b.emit(f"@!{last} bra {begin}")


def _stage(b: Builder, problem: Problem, deal: _Deal, thread: str, x: str, to: str, left: str) -> None:
    """Copies a chunk of all vectors, or as much of it as is `left`, to shared memory."""
    a, term = problem.a, b.new("r", "mov.u32", thread)
    limit = b.new("r", "min.u32", left, deal.depth)
    at, place = b.new("d", "mov.u64", x), b.new("r", "mov.u32", to)
    again, end = b.label(), b.label()
    b.place(again)
    b.emit(f"@{b.new('p', 'setp.ge.u32', term, limit)} bra {end}")
    for row in range(problem.rows):
        value = widen(b, a.dtype, fetch(b, a.dtype, f"[{at}+{row * a.row * a.dtype.bytes}]"))
        b.emit(f"st.shared.f32 [{place}+{4 * row * deal.depth}], {value}")
    b.emit(f"add.s64 {at}, {at}, {deal.threads * a.column * a.dtype.bytes}")
    b.emit(f"add.u32 {term}, {term}, {deal.threads}")
    b.emit(f"add.u32 {place}, {place}, {4 * deal.threads}")
    b.emit(f"bra {again}")
    b.place(end)


def _list(
    b: Builder, deal: _Deal, own: list[str], lines: tuple[str, str], streams: tuple[str, str], shared: str
) -> None:
    """Multiply-adds of an output's weights in `lines` (begin, end) of the `streams` of values and places."""
    line, last = lines
    values = b.new("d", "add.s64", streams[0], b.new("d", "mul.wide.u32", line, 4 * _LINE))
    places = b.new("d", "add.s64", streams[1], b.new("d", "mul.wide.u32", line, 2 * _LINE))
    begin, end = b.label(), b.label()
    b.place(begin)
    b.emit(f"@{b.new('p', 'setp.ge.u32', line, last)} bra {end}")
    weights = [b.register("f") for _ in range(_RUN)]
    b.emit(f"ld.global.nc.v2.f32 {{{', '.join(weights)}}}, [{values}]")
    both = b.new("r", "ld.global.nc.u32", f"[{places}]")
    halves = b.new("r", "and.b32", both, 0xFFFF), b.new("r", "shr.u32", both, 16)
    for weight, place in zip(weights, halves, strict=True):
        at = b.new("r", "add.u32", shared, place)
        for row, total in enumerate(own):
            x = b.new("f", "ld.shared.f32", f"[{at}+{4 * row * deal.depth}]")
            b.emit(f"fma.rn.f32 {total}, {x}, {weight}, {total}")
    b.emit(f"add.s64 {values}, {values}, {4 * _LINE}")
    b.emit(f"add.s64 {places}, {places}, {2 * _LINE}")
    b.emit(f"add.u32 {line}, {line}, 1")
    b.emit(f"bra {begin}")
    b.place(end)
