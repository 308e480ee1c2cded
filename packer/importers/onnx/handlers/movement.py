"""Operators that move data without arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.registry import handler
from packer.ir.ops import Pad, Slice, Tile


@handler("Identity")
def identity(call: Call) -> Tensor:
    return call.tensor(0)


@handler("Dropout")
def dropout(call: Call) -> tuple[Tensor, ...]:
    """The identity, as in inference; the mask keeps everything."""
    x = call.tensor(0)
    if call.version >= 12 and call.has(2):
        training, ratio = call.scalar(2, "'training_mode'"), call.scalar(1, "'ratio'") if call.has(1) else 0.5
        if training and ratio:
            raise Unsupported("training mode")
    if not call.wants(1):
        return (x,)
    shape = call.static_shape(x)
    call.walker.builder.folder.reserve(math.prod(shape), call.name)
    return x, call.literal(np.ones(shape, np.bool_))


@handler("Reshape")
def reshape(call: Call) -> Tensor:
    x = call.tensor(0)
    wanted = call.integers("shape") if call.version < 5 else call.ints(1, "the shape")
    if wanted is None:
        raise call.error("attribute 'shape' is missing")
    sizes = list(wanted)
    if not call.integer("allowzero", 0):
        if any(size == 0 and axis >= x.rank for axis, size in enumerate(sizes)):
            raise call.error("the shape copies a dimension that is not there", got=f"{wanted} of {x.type}")
        sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    if sizes.count(-1) == 1:
        known = math.prod(size for size in sizes if size != -1)
        if not known or x.type.elements % known:
            raise call.error("the shape does not fit", expected=f"{x.type.elements} elements", got=str(wanted))
        sizes[sizes.index(-1)] = x.type.elements // known
    if math.prod(sizes) != x.type.elements or min(sizes, default=0) < 0:
        raise call.error("the shape does not fit", expected=f"{x.type.elements} elements of {x.type}", got=str(wanted))
    return call.reshape(x, sizes)


@handler("Flatten")
def flatten(call: Call) -> Tensor:
    x, axis = call.tensor(0), call.integer("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise call.error("axis out of range", expected=f"{-x.rank} to {x.rank}", got=str(axis))
    axis = axis + x.rank if axis < 0 else axis
    return call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@handler("Squeeze")
def squeeze(call: Call) -> Tensor:
    x = call.tensor(0)
    given = call.ints_either("axes", 1)
    axes = (
        [axis for axis, n in enumerate(call.static_shape(x)) if n == 1] if given is None else call.axes(given, x.rank)
    )
    if any(x.shape[axis] != 1 for axis in axes):
        raise call.error("a dimension to squeeze is not 1", got=f"axes {given} of {x.type}")
    return call.reshape(x, [n for axis, n in enumerate(x.shape) if axis not in axes])


@handler("Unsqueeze")
def unsqueeze(call: Call) -> Tensor:
    x = call.tensor(0)
    given = call.ints_either("axes", 1)
    if given is None:
        raise call.error("'axes' is missing")
    rank = x.rank + len(given)
    axes, sizes = call.axes(given, rank), iter(x.shape)
    return call.reshape(x, [1 if axis in axes else next(sizes) for axis in range(rank)])


@handler("Transpose")
def transpose(call: Call) -> Tensor:
    x = call.tensor(0)
    perm = call.integers("perm")
    if perm is None:
        perm = tuple(reversed(range(x.rank)))
    if sorted(perm) != list(range(x.rank)):
        raise call.error("perm is no permutation", expected=f"of {x.rank} dimensions", got=str(perm))
    return call.transpose(x, perm)


@handler("Concat")
def concat(call: Call) -> Tensor:
    parts = [call.tensor(index) for index in range(len(call.inputs))]
    if not parts:
        raise call.error("nothing to join")
    default = 1 if call.version < 4 else None
    return call.concat(parts, call.axis(call.integer("axis", default), parts[0].rank))


@handler("Split")
def split(call: Call) -> tuple[Tensor, ...]:
    x = call.tensor(0)
    axis = call.axis(call.integer("axis", 0), x.rank)
    sizes: Sequence[int] | None = call.ints_either("split", 1)
    total = x.shape[axis]
    if not sizes:
        count = call.integer("num_outputs", len(call.outputs))
        step = -(-total // max(count, 1))
        sizes = [max(0, min(step, total - index * step)) for index in range(count)]
    if sum(sizes) != total or min(sizes, default=0) < 0 or len(sizes) < len(call.outputs):
        raise call.error(
            "the parts do not make the whole",
            expected=f"{len(call.outputs)} parts of {total} in all",
            got=str(tuple(sizes)),
        )
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return tuple(call.slice(x, axis, start, size) for start, size in zip(starts, sizes, strict=True))


@handler("Slice")
def slice_(call: Call) -> Tensor:
    x = call.tensor(0)
    if call.version < 10:
        starts, ends, axes, steps = call.integers("starts"), call.integers("ends"), call.integers("axes"), None
        if starts is None or ends is None:
            raise call.error("'starts' or 'ends' is missing")
    else:
        starts, ends = call.ints(1, "'starts'"), call.ints(2, "'ends'")
        axes = call.ints(3, "'axes'") if call.has(3) else None
        steps = call.ints(4, "'steps'") if call.has(4) else None
    axes = call.axes(range(len(starts)) if axes is None else axes, x.rank)
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.error("starts, ends, axes and steps do not fit", got=f"{starts}, {ends}, {axes}, {steps}")
    begin, stride, size = [0] * x.rank, [1] * x.rank, list(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        picked = range(*slice(start, end, step).indices(x.shape[axis]))
        begin[axis], stride[axis], size[axis] = (picked.start if len(picked) else 0), step, len(picked)
        if axis in call.walker.builder.partial_axes(x) and min(start, end) < 0:
            call.static_shape(x)
    if size == list(x.shape) and min(stride, default=1) > 0:
        return x
    return call.emit(Slice(tuple(begin), tuple(stride), tuple(size)), x)


@handler("Pad")
def pad(call: Call) -> Tensor:
    x, value = call.tensor(0), None
    if call.version < 11:
        given = call.integers("pads") or call.integers("paddings")
        if call.number("value", 0.0):
            value = call.like(call.number("value"), x)
    else:
        given, value = call.ints(1, "'pads'"), call.optional(2)
    axes = call.axes(call.ints(3, "'axes'"), x.rank) if call.has(3) else tuple(range(x.rank))
    if given is None or len(given) != 2 * len(axes):
        raise call.error("pads do not fit", expected=f"{2 * len(axes)} entries", got=str(given))
    pads = [0] * 2 * x.rank
    for position, axis in enumerate(axes):
        pads[axis], pads[axis + x.rank] = given[position], given[position + len(axes)]
    mode = call.text("mode", "constant")
    if not any(pads):
        return x
    if mode == "constant" and value is not None:
        return call.emit(Pad(tuple(pads)), x, call.reshape(value, ()))
    return call.emit(Pad(tuple(pads), mode), x)


@handler("Expand")
def expand(call: Call) -> Tensor:
    x, wanted = call.tensor(0), call.ints(1, "the shape")
    try:
        return call.expand(x, np.broadcast_shapes(x.shape, wanted))
    except ValueError:
        raise call.error(
            "the shape does not fit", expected=f"one that {x.type} broadcasts to", got=str(wanted)
        ) from None


@handler("Tile")
def tile(call: Call) -> Tensor:
    x = call.tensor(0)
    if call.version < 6:
        tiles, axis = int(call.scalar(1, "'tiles'")), call.axis(int(call.scalar(2, "'axis'")), x.rank)
        repeats = tuple(tiles if a == axis else 1 for a in range(x.rank))
    else:
        repeats = call.ints(1, "'repeats'")
    return x if all(n == 1 for n in repeats) and len(repeats) == x.rank else call.emit(Tile(repeats), x)


@handler("DepthToSpace")
def depth_to_space(call: Call) -> Tensor:
    x, block = call.tensor(0), call.integer("blocksize")
    mode = call.text("mode", "DCR")
    if x.rank != 4 or block < 1 or x.shape[1] % (block * block) or mode not in ("DCR", "CRD"):
        raise call.error("the blocks do not fit", got=f"blocks of {block} in {x.type}, mode {mode}")
    n, c, h, w = x.shape
    depth = c // (block * block)
    if mode == "DCR":
        parts, perm = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, perm = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return call.reshape(call.transpose(call.reshape(x, parts), perm), (n, depth, h * block, w * block))


@handler("SpaceToDepth")
def space_to_depth(call: Call) -> Tensor:
    x, block = call.tensor(0), call.integer("blocksize")
    mode = call.text("mode", "DCR")
    if x.rank != 4 or block < 1 or x.shape[2] % block or x.shape[3] % block or mode not in ("DCR", "CRD"):
        raise call.error("the blocks do not fit", got=f"blocks of {block} in {x.type}, mode {mode}")
    n, c, h, w = x.shape
    parts = call.reshape(x, (n, c, h // block, block, w // block, block))
    perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return call.reshape(call.transpose(parts, perm), (n, c * block * block, h // block, w // block))
