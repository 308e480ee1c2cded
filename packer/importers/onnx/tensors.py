"""Tensors stored in a model, inline, sparse or external, as arrays; never reads outside the model's folder."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from packer.errors import ModelError
from packer.importers.onnx.numeric import carried, element_name

__all__ = ["LARGEST_TENSOR", "Store"]

LARGEST_TENSOR = 1 << 31  # bytes; more in one tensor is taken for an attack or a mistake


class Store:
    """Turns the tensors of one model into arrays; `folder` is where external data may lie (None: nowhere)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def array(self, tensor: TensorProto, where: str) -> np.ndarray:
        """The tensor's values in a dtype the importer computes with; raises ModelError naming `where`."""
        shape = tuple(tensor.dims)
        if any(size < 0 for size in shape):
            raise ModelError("a tensor has a negative dimension", where=where, got=f"{list(shape)}")
        try:
            if tensor.data_location == TensorProto.EXTERNAL:
                found = self._external(tensor, shape, where)
            else:
                found = numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                "a tensor does not hold what it declares",
                where=where,
                expected=f"{element_name(tensor.data_type)} {list(shape)}",
                got=str(error),
            ) from error
        values = carried(found)
        if values is None:
            raise ModelError(
                f"tensors of {element_name(tensor.data_type)} are not supported",
                where=where,
                expected="float, integer or boolean tensors",
                hint="take that part of the model out before packing",
            )
        return values

    def dense(self, sparse: SparseTensorProto, where: str) -> np.ndarray:
        """A sparse tensor with its zeros filled in; raises ModelError naming `where`."""
        values = self.array(sparse.values, where)
        indices = self.array(sparse.indices, where)
        shape = tuple(sparse.dims)
        if any(size < 0 for size in shape) or math.prod(shape) * values.itemsize > LARGEST_TENSOR:
            raise ModelError(
                "a sparse tensor is too large",
                where=where,
                expected=f"at most {LARGEST_TENSOR} bytes",
                got=f"{list(shape)}",
            )
        result = np.zeros(shape, values.dtype)
        try:
            positions = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
            if values.ndim != 1 or positions.shape != values.shape or (positions < 0).any():
                raise ValueError("indices that do not match the values")
            result.reshape(-1)[positions] = values
        except (ValueError, IndexError, TypeError) as error:
            raise ModelError("a sparse tensor does not hold what it declares", where=where, got=str(error)) from error
        return result

    def _external(self, tensor: TensorProto, shape: tuple[int, ...], where: str) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._inside(entries.get("location", ""), where)
        raw = TensorProto(dims=shape, data_type=tensor.data_type)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        bits = (
            4
            if element_name(tensor.data_type).endswith("4") and "int" in element_name(tensor.data_type)
            else dtype.itemsize * 8
        )
        size = -(-math.prod(shape) * bits // 8)
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        available = path.stat().st_size
        if length != size or offset < 0 or offset > available or size > available - offset:
            raise ModelError(
                "external data does not hold the tensor",
                where=where,
                expected=f"{size} bytes at offset {offset} of '{path.name}'",
                got=f"length {length} in a file of {available} bytes",
                hint="export the model again with its data files",
            )
        if size > LARGEST_TENSOR:
            raise ModelError(
                "a tensor is too large", where=where, expected=f"at most {LARGEST_TENSOR} bytes", got=f"{size}"
            )
        with path.open("rb") as file:
            file.seek(offset)
            raw.raw_data = file.read(size)
        return np.asarray(numpy_helper.to_array(raw))

    def _inside(self, location: str, where: str) -> Path:
        """The file a location names; raises ModelError unless it lies inside the model's folder."""
        if self._folder is None:
            raise ModelError(
                "a model in memory has external data", where=where, got=f"'{location}'", hint="import it from its file"
            )
        parts = PurePosixPath(location).parts
        plain = (
            location
            and "\\" not in location
            and not PureWindowsPath(location).drive
            and not PurePosixPath(location).is_absolute()
        )
        path = self._folder / location
        if not plain or ".." in parts or "\0" in location or not path.resolve().is_relative_to(self._folder.resolve()):
            raise ModelError(
                "external data lies outside the model's folder",
                where=where,
                expected="a relative path below the folder of the model",
                got=f"'{location}'",
                hint="put the data file beside the model and save the model again",
            )
        if not path.is_file():
            raise ModelError(
                "external data is missing", where=where, expected=f"the file '{location}' beside the model"
            )
        return path
