"""Bundles of kernels over blocks of 16 channels, two steps of reorder around each: small models hardly get any.

And the same dealt to two cores, each with a part of the result and of what that needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from packer.bundle.model import ALL_CORES, Bundle, Place, Program, Step, Tensor
from packer.ir import Box, DType, TensorType, extents_of, whole
from packer.ir.ops import Binary, Concat, Lrn, Op, Pool, Reduce, Resize, ScaleShift, Unary
from targets.base import Layout, attributes_of, resolve, stored_bytes

__all__ = ["blocked_bundles"]

X = TensorType(DType.F32, (2, 18, 4, 5))
ONES = (1, 1)


def _bundle(op: Op, kernel: str, operands: int = 1, constants: int = 0, planar: bool = False) -> Bundle:
    """y = op(x, ..., x, constants) in blocks, the second step of three; `planar`: the result is planar already."""
    vector = TensorType(DType.F32, (X.shape[1],))
    result = op.infer([X] * operands + [vector] * constants)[0]
    size, arch = stored_bytes(X, Layout.BLOCK16), resolve("cpu").arch
    blocks = -(-size // 64) * 64
    data = np.linspace(-1, 1, X.shape[1], dtype=np.float32)
    tensors = [
        Tensor("x", X, Layout.PLANAR, Place.INPUT),
        Tensor("y", result, Layout.PLANAR, Place.OUTPUT),
        Tensor("x blocks", X, Layout.BLOCK16, Place.ARENA),
        Tensor("y blocks", result, Layout.BLOCK16, Place.ARENA, offset=blocks),
    ]
    tensors += [Tensor(f"w{i}", vector, Layout.PLANAR, Place.SEGMENT, data=data) for i in range(constants)]
    inputs = (*(2 for _ in range(operands)), *range(4, 4 + constants))
    steps = [
        Step("reorder", (), (0,), (2,), ()),
        Step(kernel, (kernel,), inputs, (1 if planar else 3,), attributes_of(op)),
    ]
    if not planar:
        steps.append(Step("reorder", (), (3,), (1,), ()))
    arena = blocks + stored_bytes(result, Layout.BLOCK16)
    program = Program("cpu", arch, arena, arena, tuple(tensors), tuple(steps), (0,), (1,))
    return Bundle("edgert tests", kernel, (program,), ())


def _halved(bundle: Bundle, op: Op, axis: int) -> Bundle:
    """The same for two cores, which halve the result of `op` along a dimension, and share the other steps."""
    (program,) = bundle.programs
    tensors, (before, middle, *after) = list(program.tensors), program.steps

    def view(tensor: int, box: Box) -> int:
        root = tensors[tensor]
        if box == whole(root.type):
            return tensor
        type = TensorType(root.type.dtype, extents_of(box))
        tensors.append(Tensor(f"{root.name} part", type, root.layout, root.place, root=tensor, within=box))
        return len(tensors) - 1

    inputs, output = [tensors[i].type for i in middle.inputs], tensors[middle.outputs[0]].type
    extent = output.shape[axis]
    cut = 16 if axis == 1 else extent // 2
    halves = []
    for core, ends in enumerate(((0, cut), (cut, extent))):
        box = tuple(ends if i == axis else full for i, full in enumerate(whole(output)))
        part = op.part(box, inputs)
        reads = tuple(view(tensor, box) for tensor, box in zip(middle.inputs, part.reads, strict=True) if box)
        writes = (view(middle.outputs[0], part.writes),)
        attributes = attributes_of(part.op)
        halves.append(Step(middle.kernel, middle.nodes, reads, writes, attributes, core, 1))
    shared = [replace(step, core=ALL_CORES, phase=number) for number, step in ((0, before), *((2, s) for s in after))]
    steps = (shared[0], *halves, *shared[1:])
    return replace(bundle, programs=(replace(program, tensors=tuple(tensors), steps=steps, cores=2),))


def blocked_bundles() -> Iterator[Bundle]:
    """Some for each kernel that knows blocks, convolutions apart."""
    window = {"strides": ONES, "pads": ONES + ONES, "dilations": ONES}
    cases: tuple[tuple[Op, str, dict[str, int], tuple[int, ...]], ...] = (
        (Unary("hard_swish", 1 / 6, 0.5), "unary", {}, (0, 1, 2)),
        (Binary("mul"), "binary", {"operands": 2}, (1, 3)),
        (ScaleShift(), "scale_shift", {"constants": 2}, (1, 2)),
        (Concat(1), "concat", {"operands": 2}, (2,)),
        (Concat(3), "concat", {"operands": 3}, (1,)),
        (Pool("max", (3, 3), **window), "pool", {}, (1, 2)),
        (Pool("average", (2, 3), **window), "pool", {}, (1, 2)),
        (Lrn(5, 1e-4, 0.75, 1.0), "lrn", {}, (0, 2)),
        *((Resize((2, 18, 7, 3), (1.0, 1.0, 1.75, 0.6), mode), "resize", {}, (1,)) for mode in ("nearest", "linear")),
        *((Reduce(kind, (2, 3)), "reduce", {"planar": True}, (1,)) for kind in ("mean", "max")),
    )
    for op, kernel, options, axes in cases:
        bundle = _bundle(op, kernel, **options)
        yield bundle
        yield from (_halved(bundle, op, axis) for axis in axes)
