"""Operators whose result is known at pack time: constants, shapes, ranges."""

from __future__ import annotations

import math

import numpy as np
from onnx import AttributeProto, TensorProto

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.numeric import DOUBLE, carried_type
from packer.importers.onnx.registry import handler


@handler("Constant")
def constant(call: Call) -> Tensor:
    if len(call.attributes) != 1:
        raise call.error("Constant takes one attribute", got=", ".join(call.attributes) or "none")
    (attribute,) = call.attributes.values()
    where = f"Constant node '{call.name}'"
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return call.literal(call.walker.store.array(attribute.t, where))
    if kind == AttributeProto.SPARSE_TENSOR:
        return call.literal(call.walker.store.dense(attribute.sparse_tensor, where))
    if kind in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return call.literal(
            np.array(attribute.f if kind == AttributeProto.FLOAT else list(attribute.floats), np.float32)
        )
    if kind in (AttributeProto.INT, AttributeProto.INTS):
        return call.literal(np.array(attribute.i if kind == AttributeProto.INT else list(attribute.ints), np.int64))
    raise Unsupported("a string value")


@handler("ConstantOfShape")
def constant_of_shape(call: Call) -> Tensor:
    shape = call.ints(0, "the shape")
    value = np.zeros(1, np.float32)
    if "value" in call.attributes:
        value = call.walker.store.array(call.attributes["value"].t, f"ConstantOfShape node '{call.name}'").reshape(-1)
    if min(shape, default=0) < 0 or value.size != 1:
        raise call.error("the shape or value is not well formed", got=f"shape {shape}, {value.size} values")
    call.walker.builder.folder.reserve(math.prod(shape) * value.itemsize, call.name)
    return call.literal(np.broadcast_to(value[0], shape))


@handler("Shape")
def shape(call: Call) -> Tensor:
    x = call.tensor(0)
    sizes = call.static_shape(x)
    start, end = call.integer("start", 0), call.integer("end", x.rank)
    return call.literal(np.array(sizes[start:end], np.int64))


@handler("Size")
def size(call: Call) -> Tensor:
    return call.literal(np.array(math.prod(call.static_shape(call.tensor(0))), np.int64))


@handler("Range")
def range_(call: Call) -> Tensor:
    parts = [call.constant(index, f"'{role}'").reshape(-1) for index, role in enumerate(("start", "limit", "delta"))]
    start, limit, delta = (call.scalar(index, f"'{role}'") for index, role in enumerate(("start", "limit", "delta")))
    if delta == 0:
        raise call.error("a range with a step of zero")
    dtype = np.result_type(*parts)
    count = max(0, math.ceil((limit - start) / delta))
    call.walker.builder.folder.reserve(count * dtype.itemsize, call.name)
    steps = np.arange(count, dtype=np.float64 if dtype.kind == "f" else np.int64)
    return call.literal((start + steps * delta).astype(dtype))


@handler("EyeLike")
def eye_like(call: Call) -> Tensor:
    x = call.tensor(0)
    if x.rank != 2:
        raise call.error("EyeLike takes a matrix", got=str(x.type))
    rows, columns = call.static_shape(x)
    dtype = x.dtype.numpy
    if "dtype" in call.attributes:
        element = call.integer("dtype")
        native = carried_type(element)
        if native is None:
            raise Unsupported(f"of {TensorProto.DataType.Name(element).lower()}")
        dtype = np.dtype(np.float64) if element == DOUBLE else native.numpy
    call.walker.builder.folder.reserve(rows * columns * dtype.itemsize, call.name)
    return call.literal(np.eye(rows, columns, call.integer("k", 0), dtype))
