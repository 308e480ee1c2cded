"""Predicted times on a GPU, for the planner: what is issued, what is moved, and the code that must be fetched."""

from __future__ import annotations

import math

from packer.ir import DType
from packer.ir.ops import Conv, MatMul, Reshape
from targets.base import Work
from targets.cuda.board import Board

__all__ = ["move_seconds", "seconds"]

_THREADS = 128  # of a block
_BLOCKS = 4  # that a multiprocessor holds of kernels with 128 registers a thread
_CODE = 10.67  # bytes of an instruction
_BUSY = 4  # warps that a multiprocessor needs for each of its four schedulers to hide latency
_DENSE = 0.7  # share of multiply-adds in the instructions of dense products
_PAIR = 8  # bytes of a streamed weight
_BANKS = 32  # of a multiprocessor's shared memory: words a cycle
_STAGED = 24  # input channels that streamed layers stage at a time
_FILTERS = 32  # and their output channels a block


def seconds(board: Board, work: Work, tier: str, storage: DType) -> float:
    """Of a node in a tier, floats stored as `storage`; all tiers but those of convolutions are limited by memory, or by
    products."""
    if isinstance(work.op, Reshape):
        return 0.0
    moved = _bytes(work, tier, storage) / (board.gbps * 1e9)
    if isinstance(work.op, Conv) and tier != "cuda":
        return max(moved, _convolution(board, work, tier)) + board.launch_seconds
    if isinstance(work.op, MatMul):
        a = work.inputs[0]
        assert a is not None
        products = work.outputs[0].elements * a.shape[-1]
        return max(moved, products / (board.issue * _DENSE)) + board.launch_seconds
    return moved + board.launch_seconds


def move_seconds(board: Board, elements: int) -> float:
    """Of a value between the processor's memory and planes: copied, written and read again, and waited for."""
    return 3 * 4 * elements / (board.gbps * 1e9) + board.launch_seconds + board.wait_seconds


def _bytes(work: Work, tier: str, storage: DType) -> float:
    """What is read and written: activations as they are stored, and weights in the form that the tier has them in."""
    weight = {"t1": _CODE * work.density, "t1c": _CODE * work.density, "t2": _PAIR * work.density}.get(tier, 4)
    found = 0.0
    for type, constant in zip(
        (*work.inputs, *work.outputs), (*work.constant, *[False] * len(work.outputs)), strict=True
    ):
        if type is not None and constant:
            found += type.elements * weight
        elif type is not None:
            found += type.elements * (storage if type.dtype is DType.F32 else type.dtype).bytes
    return found


def _convolution(board: Board, work: Work, tier: str) -> float:
    """Of the instructions of a convolution."""
    op, weights, y = work.op, work.inputs[1], work.outputs[0]
    assert isinstance(op, Conv)
    assert weights is not None
    pixels = y.elements / y.shape[1]
    products = weights.elements * work.density
    if tier == "t3":
        tiles = math.ceil(pixels / 64) * math.ceil(y.shape[1] / op.group / 64) * op.group
        waves = math.ceil(tiles / board.multiprocessors) * board.multiprocessors / tiles
        return pixels * weights.elements / (board.issue * _DENSE) * min(waves, 4.0)
    if tier == "t2":
        return _streamed(board, work, products)
    channels = min(y.shape[1] // op.group, 64 if tier == "t1" else 16)
    slices = math.ceil(y.shape[1] / op.group / channels) * op.group
    used = 1 - (1 - min(work.density, 1.0)) ** channels  # share of taps that a slice needs
    issued = products + slices * (weights.elements / y.shape[1]) * (used + 0.25) + y.shape[1]
    blocks = math.ceil(pixels / _THREADS) * slices
    warps = blocks * _THREADS / 32 / board.multiprocessors
    busy = min(1.0, warps / (_BUSY * 4))
    fetched = math.ceil(blocks / slices / (board.multiprocessors * _BLOCKS)) * issued * _CODE
    if issued / slices * _CODE <= board.code_bytes:
        fetched /= _BLOCKS
    supply = fetched / (board.code_bytes_per_cycle * board.ghz * 1e9)
    return max(pixels * issued / (board.issue * max(busy, 0.05)), supply)


def _streamed(board: Board, work: Work, products: float) -> float:
    """Of what passes through shared memory: for each product an input, for each pair two words, which all pixels of a
    thread share; for each list of pairs where it begins; and what is staged."""
    weights, y = work.inputs[1], work.outputs[0]
    assert weights is not None
    pixels, each = y.elements / y.shape[1], math.prod(weights.shape[2:]) * work.density
    high = 7 if y.shape[2] >= 14 else 2
    length = max(each * min(_STAGED, weights.shape[1]), 0.1)  # pairs of a list
    cycles = (1 + 2 / high) * (1 + 0.5 / length) + 3 / (high * length) + 1 / max(_FILTERS * each, 0.1)
    blocks = math.ceil(pixels / (4 * 7 * high)) * math.ceil(y.shape[1] / _FILTERS)
    waves = math.ceil(blocks / board.multiprocessors) * board.multiprocessors / blocks
    lanes = 7 / 8 if high > 2 else 49 / 64  # with a pixel
    return pixels * products * cycles * min(waves, 4.0) / (lanes * board.multiprocessors * _BANKS * board.ghz * 1e9)
