"""Types of the inputs of a graph: shapes as declared, pinned by the user, or a batch of one; all floats are float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from packer.errors import ModelError
from packer.importers.onnx.numeric import carried_type, element_name, is_native
from packer.ir import DType, TensorType

__all__ = ["check_output", "input_types"]


def input_types(inputs: list[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorType]:
    """The type of every input. Symbols pinned through one input hold for the others; an unknown first dimension is 1.

    Raises ModelError for a pin that does not fit and for any other unknown dimension, naming input, dimension and flag.
    """
    names = [info.name for info in inputs]
    for name in shapes:
        if name not in names:
            raise ModelError(
                f"there is no input '{name}' to give a shape", expected=", ".join(names) or "no inputs", got=name
            )
    bound: dict[str, int] = {}
    for info in inputs:
        if info.name in shapes:
            _bind(info, tuple(shapes[info.name]), bound)
    for info in inputs:
        dims = info.type.tensor_type.shape.dim
        if info.name not in shapes and dims and dims[0].dim_param and not dims[0].HasField("dim_value"):
            bound.setdefault(dims[0].dim_param, 1)
    return {info.name: _type(info, shapes.get(info.name), bound) for info in inputs}


def check_output(info: onnx.ValueInfoProto) -> None:
    """Raise ModelError if a graph output is declared to be what no bundle can give."""
    kind = info.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise ModelError(f"output '{info.name}' is no tensor", expected="a tensor", got=kind.removesuffix("_type"))
    element = info.type.tensor_type.elem_type
    if element:
        _element_type("output", info.name, element)


def _element_type(what: str, name: str, element: int) -> DType:
    """What an input or output holds: as the model says, or float32 for another type of floats."""
    dtype = carried_type(element)
    if dtype is None or not (is_native(element) or dtype.is_float):
        raise ModelError(
            f"{what} '{name}' has an element type that is not supported",
            expected="floats, integers of 8 bits and more, or bool",
            got=element_name(element),
            hint="cut that part off the model",
        )
    return dtype


def _known(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    return int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _declared(info: onnx.ValueInfoProto) -> str:
    dims = info.type.tensor_type.shape.dim
    return "x".join(str(_known(dim)) if _known(dim) is not None else dim.dim_param or "?" for dim in dims) or "scalar"


def _bind(info: onnx.ValueInfoProto, shape: tuple[int, ...], bound: dict[str, int]) -> None:
    """Check a pinned shape against the declaration and note the symbols it gives values to."""
    got = "x".join(map(str, shape))
    fits = all(isinstance(size, int | np.integer) and size >= 0 for size in shape)
    if info.type.tensor_type.HasField("shape"):
        dims = info.type.tensor_type.shape.dim
        fits = fits and len(dims) == len(shape)
        for dim, size in zip(dims, shape, strict=False):
            known = _known(dim)
            fits = fits and known in (None, size)
            if known is None and dim.dim_param and bound.setdefault(dim.dim_param, size) != size:
                raise ModelError(
                    f"dimension '{dim.dim_param}' is pinned twice",
                    where=f"input '{info.name}'",
                    expected=str(bound[dim.dim_param]),
                    got=str(size),
                )
    if not fits:
        raise ModelError(
            f"the shape given for input '{info.name}' does not fit",
            expected=_declared(info),
            got=got,
            hint="only dimensions without a number can be chosen; change others where the model is exported",
        )


def _type(info: onnx.ValueInfoProto, pinned: tuple[int, ...] | None, bound: Mapping[str, int]) -> TensorType:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelError(
            f"input '{info.name}' is no tensor", expected="a tensor", got=(kind or "nothing").removesuffix("_type")
        )
    dtype = _element_type("input", info.name, info.type.tensor_type.elem_type)
    if pinned is not None:
        return TensorType(dtype, tuple(map(int, pinned)))
    if not info.type.tensor_type.HasField("shape"):
        raise ModelError(
            f"input '{info.name}' has no shape",
            expected="a static shape",
            hint=f"give it: --shape {info.name}=1x3x224x224",
        )
    shape: list[int] = []
    for axis, dim in enumerate(info.type.tensor_type.shape.dim):
        size = _known(dim)
        if size is None:
            size = bound.get(dim.dim_param) if dim.dim_param else (1 if axis == 0 else None)
        if size is None:
            raise ModelError(
                f"dimension {axis} of input '{info.name}' is not known",
                expected="a static shape",
                got=_declared(info),
                hint=f"give all of it: --shape {info.name}={_example(info)}",
            )
        shape.append(size)
    return TensorType(dtype, tuple(shape))


def _example(info: onnx.ValueInfoProto) -> str:
    sizes = [_known(dim) for dim in info.type.tensor_type.shape.dim]
    return "x".join(str(size) if size is not None else ("1" if axis == 0 else "224") for axis, size in enumerate(sizes))
