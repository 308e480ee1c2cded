"""Bundles of kernels over blocks of 16 channels, two steps of reorder around each: small models hardly get any."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from packer.bundle.model import Bundle, Place, Program, Step, Tensor
from packer.ir import DType, TensorType
from packer.ir.ops import Binary, Concat, Lrn, Op, Pool, Reduce, Resize, ScaleShift, Unary
from targets.base import Layout, attributes_of, resolve, stored_bytes

__all__ = ["blocked_bundles"]

X = TensorType(DType.F32, (2, 18, 4, 5))
ONES = (1, 1)


def _bundle(op: Op, kernel: str, operands: int = 1, constants: int = 0, planar: bool = False) -> Bundle:
    """y = op(x, ..., x, constants) in blocks; `planar`: the result is planar already."""
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


def blocked_bundles() -> Iterator[Bundle]:
    """One for each kernel that knows blocks, convolutions apart."""
    window = {"strides": ONES, "pads": ONES + ONES, "dilations": ONES}
    yield _bundle(Unary("hard_swish", 1 / 6, 0.5), "unary")
    yield _bundle(Binary("mul"), "binary", operands=2)
    yield _bundle(ScaleShift(), "scale_shift", constants=2)
    yield _bundle(Concat(1), "concat", operands=2)
    yield _bundle(Concat(3), "concat", operands=3)
    yield _bundle(Pool("max", (3, 3), **window), "pool")
    yield _bundle(Pool("average", (2, 3), **window), "pool")
    yield _bundle(Lrn(5, 1e-4, 0.75, 1.0), "lrn")
    for mode in ("nearest", "linear"):
        yield _bundle(Resize((2, 18, 7, 3), (1.0, 1.0, 1.75, 0.6), mode), "resize")
    for kind in ("mean", "max"):
        yield _bundle(Reduce(kind, (2, 3)), "reduce", planar=True)
