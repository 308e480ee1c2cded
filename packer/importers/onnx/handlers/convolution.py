"""Convolutions, and the padding rules they share with pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler
from packer.ir.ops import Conv, ConvTranspose


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves: one entry a spatial dimension; pads are begins, then ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]

    def spans(self) -> tuple[int, ...]:
        """Extent of the window over the input, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def window(call: Call, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """The window of a convolution or pooling node over an input of `spatial` extents, auto_pad resolved."""
    rank = len(spatial)
    strides = per_dimension(call, "strides", rank, 1)
    dilations = per_dimension(call, "dilations", rank, 1)
    if min((*strides, *dilations, *kernel), default=1) < 1:
        raise call.error(
            "kernel, strides and dilations must be 1 or more", got=f"{tuple(kernel)}, {strides}, {dilations}"
        )
    found = Window(tuple(kernel), strides, dilations, explicit_pads(call, rank))
    mode = call.text("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return found
    if mode == "VALID":
        return Window(found.kernel, strides, dilations, (0,) * 2 * rank)
    totals = [
        max(0, (-(-size // stride) - 1) * stride + span - size)
        for size, stride, span in zip(spatial, strides, found.spans(), strict=True)
    ]
    return Window(found.kernel, strides, dilations, split_pads(call, mode, totals))


def per_dimension(call: Call, name: str, rank: int, default: int) -> tuple[int, ...]:
    """A list attribute with one entry a spatial dimension."""
    values = call.integers(name) or (default,) * rank
    if len(values) != rank:
        raise call.error(f"attribute '{name}' has the wrong length", expected=str(rank), got=str(len(values)))
    return values


def explicit_pads(call: Call, rank: int) -> tuple[int, ...]:
    pads = call.integers("pads") or (0,) * 2 * rank
    if len(pads) != 2 * rank:
        raise call.error("attribute 'pads' has the wrong length", expected=str(2 * rank), got=str(len(pads)))
    return pads


def split_pads(call: Call, mode: str, totals: Sequence[int]) -> tuple[int, ...]:
    """Padding in all per dimension, split into begins and ends; an odd one goes to the end (SAME_UPPER) or begin."""
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise call.error("auto_pad not known", expected="NOTSET, VALID, SAME_UPPER or SAME_LOWER", got=mode)
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def _kernel(call: Call, x: Tensor, w: Tensor) -> tuple[int, ...]:
    if x.rank < 3 or w.rank != x.rank:
        raise call.error(
            "input and weights do not fit", expected="both of one rank from 3", got=f"{x.type} and {w.type}"
        )
    declared = call.integers("kernel_shape")
    if declared is not None and declared != w.shape[2:]:
        raise call.error("kernel_shape is not that of the weights", expected=str(w.shape[2:]), got=str(declared))
    return w.shape[2:]


def conv_op(call: Call, x: Tensor, w: Tensor) -> Conv:
    """The Conv operator that the attributes of the node describe."""
    moves = window(call, x.shape[2:], _kernel(call, x, w))
    return Conv(moves.strides, moves.pads, moves.dilations, call.integer("group", 1))


@handler("Conv")
def conv(call: Call) -> Tensor:
    x, w, bias = call.tensor(0), call.tensor(1), call.optional(2)
    op = conv_op(call, x, w)
    return call.emit(op, x, w) if bias is None else call.emit(op, x, w, bias)


@handler("ConvTranspose")
def conv_transpose(call: Call) -> Tensor:
    x, w, bias = call.tensor(0), call.tensor(1), call.optional(2)
    kernel = _kernel(call, x, w)
    rank = len(kernel)
    strides, dilations = per_dimension(call, "strides", rank, 1), per_dimension(call, "dilations", rank, 1)
    extra = per_dimension(call, "output_padding", rank, 0)
    moves = Window(kernel, strides, dilations, explicit_pads(call, rank))
    pads, extra = _transposed_pads(call, x.shape[2:], moves, extra)
    op = ConvTranspose(strides, pads, dilations, extra, call.integer("group", 1))
    return call.emit(op, x, w) if bias is None else call.emit(op, x, w, bias)


def _transposed_pads(
    call: Call, spatial: Sequence[int], moves: Window, extra: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads and output padding that give the wanted output extents."""
    mode = call.text("auto_pad", "NOTSET") or "NOTSET"
    wanted = call.integers("output_shape")
    full = [
        stride * (size - 1) + more + span
        for size, stride, more, span in zip(spatial, moves.strides, extra, moves.spans(), strict=True)
    ]
    if wanted is not None:
        wanted = wanted[-len(full) :]
        if len(wanted) != len(full):
            raise call.error("output_shape has the wrong length", expected=str(len(full)), got=str(len(wanted)))
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = tuple(size * stride for size, stride in zip(spatial, moves.strides, strict=True))
    elif mode == "VALID":
        return (0,) * 2 * len(full), extra
    else:
        return moves.pads, extra
    surplus = [have - want for have, want in zip(full, wanted, strict=True)]
    pads = split_pads(call, "SAME_UPPER" if mode == "SAME_UPPER" else "SAME_LOWER", [max(0, n) for n in surplus])
    return pads, tuple(more + max(0, -n) for more, n in zip(extra, surplus, strict=True))
