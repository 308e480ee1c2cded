"""ONNX element types, and how the importer carries those that the IR does not have.

float16, bfloat16 and the 8- and 4-bit floats are carried as float32, 4- and 2-bit integers as 8-bit ones. float64
constants stay float64 while they are folded and become float32 when a node of the graph reads them; those of narrow
integers stay narrow likewise, so that nothing is quantised to more bits than the model says.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from packer.ir import DType

__all__ = ["DOUBLE", "carried", "carried_type", "dtype_of", "element_name", "is_native", "rounded"]

DOUBLE: int = TensorProto.DOUBLE

_NATIVE: dict[int, DType] = {
    TensorProto.FLOAT: DType.F32,
    TensorProto.UINT8: DType.U8,
    TensorProto.INT8: DType.I8,
    TensorProto.UINT16: DType.U16,
    TensorProto.INT16: DType.I16,
    TensorProto.INT32: DType.I32,
    TensorProto.INT64: DType.I64,
    TensorProto.UINT32: DType.U32,
    TensorProto.UINT64: DType.U64,
    TensorProto.BOOL: DType.BOOL,
}


def element_name(element: int) -> str:
    """The name of an ONNX element type, for messages."""
    return (
        TensorProto.DataType.Name(element).lower()
        if element in TensorProto.DataType.values()
        else f"element type {element}"
    )


def is_native(element: int) -> bool:
    """Whether the IR has this ONNX element type."""
    return element in _NATIVE


def carried_type(element: int) -> DType | None:
    """The IR type that stands for an ONNX element type, or None when none can."""
    if element in _NATIVE:
        return _NATIVE[element]
    name = element_name(element)
    if name.startswith(("float", "bfloat")) or element == DOUBLE:
        return DType.F32
    if name in ("int4", "int2"):
        return DType.I8
    if name in ("uint4", "uint2"):
        return DType.U8
    return None


def carried(array: np.ndarray) -> np.ndarray | None:
    """The array in a dtype that constants are kept in (see above), or None (strings, complex)."""
    kind = dtype_of(array)
    if kind is None or not kind.is_float or array.dtype == np.float64:
        return None if kind is None else array
    return array.astype(np.float32, copy=False)


def dtype_of(array: np.ndarray) -> DType | None:
    """The IR type that stands for the array's, or None when none can."""
    try:
        return carried_type(int(helper.np_dtype_to_tensor_dtype(array.dtype)))
    except (KeyError, ValueError):
        return None


def rounded(array: np.ndarray, element: int) -> np.ndarray:
    """A float array with its values rounded to another float type (float64: widened), in the carried dtype."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    if dtype == np.float64:
        return array.astype(np.float64)
    with np.errstate(all="ignore"):
        return array.astype(dtype).astype(np.float32)
