"""Let transposed convolutions be convolutions of fewer taps, one for all phases of outputs that meet the same inputs.

Before: `y = relu(conv_transpose(x) + bias)`. After: `y = shuffle(concat(relu(conv(x) + bias), ...))`: of every position
a block of outputs as large as the strides, which are moved from neighbouring channels to neighbouring positions. A
phase is the place of an output in its block; each meets its own taps only, and none of the zeros between inputs.
Sub-pixel convolution, W. Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel
Convolutional Neural Network", CVPR 2016.
"""

from __future__ import annotations

from itertools import groupby, product
from math import prod
from typing import NamedTuple

import numpy as np

from packer.ir import Graph, Node
from packer.ir.ops import Concat, Conv, ConvTranspose, Reshape, Slice, Transpose
from packer.passes.rewrite import Rewriting

__all__ = ["make_subpixel"]

_DENSE = 0.65  # least share of non-zeros and least places for which Winograd's convolution is faster: measured
_PLACES = 100


class _Window(NamedTuple):
    """The inputs `i + first` to `i + last` that output i of some neighbouring phases of a dimension meets."""

    phases: tuple[int, ...]
    first: int
    last: int


class _Dimension(NamedTuple):
    """One of the spatial dimensions; `places` is the number of blocks."""

    taps: int
    stride: int
    pad: int
    inside: int
    places: int

    def windows(self) -> list[_Window]:
        """Those of all phases. They are at least so large that no input is left out at either end."""
        found: list[tuple[int, int]] = []
        for phase in range(self.pad, self.pad + self.stride):
            met = [(phase - t) // self.stride for t in range(phase % self.stride, self.taps, self.stride)] or [0]
            found.append((min(met[-1], 0), max(met[0], self.inside - self.places)))
        groups = groupby(range(self.stride), lambda phase: found[phase])
        return [_Window(tuple(phases), *span) for span, phases in groups]

    def tap(self, phase: int, met: int) -> int:
        """The tap by which a phase of output i meets input i + met; one behind the last if there is none."""
        tap = phase + self.pad - met * self.stride
        return tap if 0 <= tap < self.taps else self.taps

    def ends(self, window: _Window) -> tuple[int, int]:
        """The pads of the convolution."""
        return -window.first, self.places - self.inside + window.last


def make_subpixel(graph: Graph) -> Graph:
    """The graph with transposed convolutions of constant weights as convolutions."""
    made = Rewriting(graph, "subpixel")
    for node in graph.nodes:
        if not _able(graph, node):
            made.nodes.append(node)
            continue
        op = node.op
        assert isinstance(op, ConvTranspose)
        x, w, bias = (*node.inputs, None)[:3]
        assert x is not None
        assert w is not None
        y, weights, rank = graph.type(node.outputs[0]), np.asarray(graph.constant(w)), len(op.strides)
        dimensions = _dimensions(op, weights.shape[2:], graph.type(x).shape[2:], y.shape[2:])
        places, ones = tuple(d.places for d in dimensions), (1,) * rank
        one = op.group == 1 and _suits_winograd(dimensions) and graph.density(w) > _DENSE
        several = list(product(*_joined(dimensions, op.group, one)))
        by_phase = len(several) > 1  # so that the channels of the parts follow each other
        parts: list[str] = []
        for windows in several:
            operands: tuple[str, ...] = (
                x,
                made.constant(w, _filters(weights, op.group, dimensions, windows, by_phase)),
            )
            if bias is not None:
                each, times = np.asarray(graph.constant(bias)), prod(len(s.phases) for s in windows)
                operands = (*operands, made.constant(bias, np.tile(each, times) if by_phase else each.repeat(times)))
            begins, ends = zip(*(d.ends(s) for d, s in zip(dimensions, windows, strict=True)), strict=True)
            parts.append(made.add(Conv(ones, (*begins, *ends), ones, op.group, op.activation), operands, node))
        found = made.add(Concat(1), tuple(parts), node) if by_phase else parts[0]
        channels = (*op.strides, y.shape[1]) if by_phase else (y.shape[1], *op.strides)
        blocks = made.add(Reshape((y.shape[0], *channels, *places)), (found,), node)
        filters, phases = (1 + rank, 1) if by_phase else (1, 2)  # dimensions of `blocks`
        order = (0, filters, *(at for i in range(rank) for at in (2 + rank + i, phases + i)))
        moved = made.add(Transpose(order), (blocks,), node)
        whole = (*y.shape[:2], *(n * s for n, s in zip(places, op.strides, strict=True)))
        if whole == y.shape:
            made.add(Reshape(whole), (moved,), node, node.outputs[0])
        else:
            cut = Slice((0,) * y.rank, (1,) * y.rank, y.shape)
            made.add(cut, (made.add(Reshape(whole), (moved,), node),), node, node.outputs[0])
    return made.result()


def _dimensions(
    op: ConvTranspose, taps: tuple[int, ...], inside: tuple[int, ...], outside: tuple[int, ...]
) -> list[_Dimension]:
    places = (-(-n // s) for n, s in zip(outside, op.strides, strict=True))
    return [_Dimension(*of) for of in zip(taps, op.strides, op.pads[: len(taps)], inside, places, strict=True)]


def _suits_winograd(dimensions: list[_Dimension]) -> bool:
    """Whether with one window for all phases the fewer products of Winograd's convolution outweigh its zeros."""
    spans = [max(s.last for s in d.windows()) - min(s.first for s in d.windows()) + 1 for d in dimensions]
    return spans == [3, 3] and prod(d.places for d in dimensions) >= _PLACES


def _joined(dimensions: list[_Dimension], group: int, one: bool) -> list[list[_Window]]:
    """The windows of each dimension, joined to one if that is asked for, or where the channels of the parts would not
    follow each other by phase: where there are several behind a window of several phases, or groups as well."""
    found = [d.windows() for d in dimensions]
    several = [any(len(window.phases) > 1 for window in windows) for windows in found]
    for i, windows in enumerate(found):
        if one or any(several[:i]) or (group > 1 and any(several)):
            phases = tuple(phase for window in windows for phase in window.phases)
            found[i] = [_Window(phases, min(s.first for s in windows), max(s.last for s in windows))]
    return found


def _filters(
    weights: np.ndarray, group: int, dimensions: list[_Dimension], windows: tuple[_Window, ...], by_phase: bool
) -> np.ndarray:
    """Weights [C, K / group, taps] as filters [K phases, C / group, inputs of the window]; in each group those of a
    phase follow each other if `by_phase`, else the phases of a filter."""
    rank = len(dimensions)
    found = np.pad(weights, [(0, 0), (0, 0), *((0, 1),) * rank])  # no tap is one of zeros
    for i, (d, window) in enumerate(zip(dimensions, windows, strict=True)):
        taps = [[d.tap(phase, met) for met in range(window.first, window.last + 1)] for phase in window.phases]
        found = found.take(taps, axis=2 + 2 * i)
    found = found.reshape(group, -1, *found.shape[1:])
    phases, met = range(3, 3 + 2 * rank, 2), range(4, 4 + 2 * rank, 2)
    found = found.transpose(0, *((*phases, 2) if by_phase else (2, *phases)), 1, *met)
    return found.reshape(-1, *found.shape[2 + rank :])


def _able(graph: Graph, node: Node) -> bool:
    op = node.op
    if not isinstance(op, ConvTranspose) or graph.type(node.outputs[0]).elements == 0:
        return False
    x, w, bias = (*node.inputs, None)[:3]
    weights = graph.constant(w)
    if weights is None or weights.size == 0 or (bias is not None and graph.constant(bias) is None):
        return False
    if x is None or graph.type(x).elements == 0:
        return False
    return all(d == 1 or n == 1 for d, n in zip(op.dilations, weights.shape[2:], strict=True))
