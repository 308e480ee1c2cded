"""Kernels of all kinds for the tests of the model, with operands to run them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from packer.ir import DType
from packer.ir.ops import Binary, Conv, Lrn, MatMul, Pool, Reduce, Resize, Softmax, Transpose, Unary
from packer.ir.ops.base import Op
from targets.cuda import dense, stream
from targets.cuda.array import Array
from targets.cuda.emit import emit, settings_of
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer
from targets.cuda.rounding import round20
from targets.cuda.slices import cache_resident
from tests.targets.cuda.generic.check import code as generic
from tests.targets.cuda.layers import layer_of, pooled

__all__ = ["CASES", "Case", "constants", "sizes"]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Code with its inputs (None: those it does not read) and outputs."""

    code: Code
    inputs: list[tuple[Array, np.ndarray] | None]
    outputs: list[Array]


def sizes(case: Case) -> list[int]:
    """Bytes of the parameters."""
    found = []
    for operand in case.code.operands:
        given = None if isinstance(operand, np.ndarray) else case.inputs[operand]
        found.append(operand.nbytes if isinstance(operand, np.ndarray) else given[1].nbytes if given else 0)
    return found + [array.elements * array.dtype.bytes for array in case.outputs]


def constants(case: Case) -> list[np.ndarray | None]:
    """The parameters that are known when packing."""
    return [operand if isinstance(operand, np.ndarray) else None for operand in case.code.operands]


def _layer(shape: tuple[int, ...], density: float, size: tuple[int, int], **more: object) -> ConvLayer:
    rng = np.random.default_rng(5)
    weights = rng.standard_normal(shape).astype(np.float32)
    weights[rng.random(shape) >= density] = 0
    return layer_of(round20(weights), size, **more)  # type: ignore[arg-type]


def _pooled(shape: tuple[int, ...], size: tuple[int, int], **more: object) -> ConvLayer:
    layer = pooled(_layer(shape, 0.15, size, **more), "max")
    assert layer is not None
    return layer


def _conv(layer: ConvLayer, code: Code) -> Case:
    array = layer.source.array(layer.images)
    x = np.random.default_rng(6).standard_normal(array.shape).astype(array.dtype.numpy)
    return Case(code, [(array, x)], [layer.target.array(layer.images)])


def _sparse(layer: ConvLayer, channels: int | None = None) -> Case:
    return _conv(layer, Code(tuple(emit(layer, settings_of(layer, channels))), (0,)))


def _halves(layer: ConvLayer) -> ConvLayer:
    return replace(layer, **{name: replace(getattr(layer, name), dtype=DType.F16) for name in ("source", "target")})


def _operator(op: Op, *shapes: tuple[int, ...], constant: tuple[int, ...] = (), halo: bool = False) -> Case:
    rng = np.random.default_rng(7)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    code, arrays, outputs = generic(op, values, constant, halo, count=1)
    assert code is not None
    given = [None if a is None else (a, x) for a, x in zip(arrays, values, strict=True)]
    return Case(code, given, outputs)


def _product(a: tuple[int, ...], b: tuple[int, ...], constant: bool) -> Case:
    rng = np.random.default_rng(8)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in (a, b)]
    arrays = [Array.dense(DType.F32, shape) for shape in (a, b)]
    y = Array.dense(DType.F32, (*a[:-1], b[-1]))
    code = dense.matmul(MatMul(None), arrays, [y], [None, values[1] if constant else None])
    assert code is not None
    return Case(code, list(zip(arrays, values, strict=True)), [y])


_ONE = (1, 1, 1, 1)
_POINTS = _layer((48, 32, 1, 1), 1, (20, 20))
_DEEP = _layer((40, 64, 3, 3), 0.1, (9, 11), pads=_ONE, images=2)
_RESNET = _layer((64, 16, 3, 3), 0.1, (28, 28), pads=_ONE)
_POOLED = _pooled((64, 16, 3, 3), (33, 28), pads=_ONE)

CASES: dict[str, Callable[[], Case]] = {
    "t1": lambda: _sparse(_RESNET),
    "t1 of two slices and two images": lambda: _sparse(_layer((96, 8, 3, 3), 0.3, (17, 23), pads=_ONE, images=2)),
    "t1 of stride 2": lambda: _sparse(_layer((32, 8, 5, 5), 0.2, (31, 31), strides=(2, 2), pads=(2, 2, 2, 2))),
    "t1 and a pool": lambda: _sparse(_POOLED),
    "t1 of single pixels and a pool": lambda: _sparse(_pooled((64, 32, 1, 1), (29, 28))),
    "t2 and a pool": lambda: _conv(_POOLED, stream.conv(_POOLED)),
    "t3 and a pool": lambda: _conv(_POOLED, dense.conv(_POOLED)),
    "t1c": lambda: _sparse(_RESNET, cache_resident(_RESNET.weights)),
    "t1 of single pixels": lambda: _sparse(_layer((64, 32, 1, 1), 0.2, (28, 28))),
    "t1 of halves": lambda: _sparse(_halves(_RESNET)),
    "t3": lambda: _conv(_RESNET, dense.conv(_layer((64, 16, 3, 3), 1, (28, 28), pads=_ONE))),
    "t3 of single pixels": lambda: _conv(_POINTS, dense.conv(_POINTS)),
    "t1h": lambda: _conv(
        _halves(_RESNET), Code(tuple(emit(_halves(_RESNET), settings_of(_RESNET, arithmetic="half2"))), (0,))
    ),
    "t2": lambda: _conv(_RESNET, stream.conv(_RESNET)),
    "t2 of two images": lambda: _conv(_DEEP, stream.conv(_DEEP)),
    "product": lambda: _product((70, 40), (40, 90), False),
    "vector": lambda: _product((1, 200), (200, 300), True),
    "depthwise": lambda: _operator(
        Conv((1, 1), _ONE, (1, 1), 24), (1, 24, 20, 20), (24, 1, 3, 3), constant=(1,), halo=True
    ),
    "pool": lambda: _operator(Pool("max", (3, 3), (2, 2), _ONE, (1, 1)), (1, 16, 29, 29), halo=True),
    "whole pool": lambda: _operator(Pool("average", (7, 7), (1, 1), (0, 0, 0, 0), (1, 1)), (1, 64, 7, 7)),
    "relu": lambda: _operator(Unary("relu"), (1, 16, 20, 21)),
    "add": lambda: _operator(Binary("add"), (1, 16, 20, 21), (1, 16, 20, 21), halo=True),
    "softmax": lambda: _operator(Softmax("softmax", (1,)), (3, 1000)),
    "mean": lambda: _operator(Reduce("mean", (2, 3)), (1, 40, 14, 14)),
    "lrn": lambda: _operator(Lrn(5, 1e-4, 0.75, 1.0), (1, 16, 13, 13)),
    "transpose": lambda: _operator(Transpose((0, 2, 3, 1)), (1, 32, 14, 14)),
    "resize": lambda: _operator(Resize((1, 8, 28, 28), (1.0, 1.0, 2.0, 2.0)), (1, 8, 14, 14)),
}
