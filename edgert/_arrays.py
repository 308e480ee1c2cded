"""What sessions take as inputs and outputs: numpy arrays, and whatever can be seen as one without copying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from edgert._device_arrays import DeviceArray, device_array, on_device
from edgert.dtypes import Array, address
from edgert.errors import InvalidArgumentError

__all__ = ["ALIGN", "HostArray", "TensorInfo", "acceptable", "bindable", "empty_array", "host_array", "refuse_overlap"]

ALIGN = 64  # bytes of a line of the cache
_NUMPY = (np.ndarray, np.generic)


class TensorInfo(NamedTuple):
    """An input or output: row-major elements. Where `dynamic`, the shape is the largest one; results have their own."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: int
    dynamic: bool = False

    def __str__(self) -> str:
        return _type_text(self.dtype, self.shape)


class HostArray(NamedTuple):
    """Elements in host memory from the address `pointer`, those of the numpy array `owner`."""

    owner: Array
    pointer: int
    nbytes: int


def host_array(array: Array) -> HostArray:
    """A contiguous array and where it is."""
    return HostArray(array, address(array), array.nbytes)


def empty_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array that begins with a line of the cache, so that no vector lies in two of them."""
    room = np.empty(math.prod(shape) * dtype.itemsize + ALIGN, np.uint8)
    return np.ndarray(shape, dtype, room, -address(room) % ALIGN)


def acceptable(side: str, info: TensorInfo, value: Any, stream: int | None) -> HostArray | DeviceArray:
    """The array of one run: copied only where its memory is the host's, and not contiguous and aligned."""
    if found := _as_it_is(info, value):
        return found
    array = _exact(side, info, value, stream)
    if isinstance(array, DeviceArray):
        return _expect_contiguous(side, info, array)
    return host_array(array if _usable(array) else np.array(array, order="C"))


def bindable(side: str, info: TensorInfo, value: Any, stream: int | None) -> HostArray | DeviceArray:
    """The array that later runs read or write in place."""
    found = _as_it_is(info, value)
    if found and (side == "input" or found.owner.flags.writeable):
        return found
    array = _exact(side, info, value, stream)
    writable = array.writable if isinstance(array, DeviceArray) else array.flags.writeable
    if side == "output" and not writable:
        raise InvalidArgumentError(f"output '{info.name}': expected a writable array, got a read-only one")
    if isinstance(array, DeviceArray):
        if side == "output" and info.dynamic:
            raise InvalidArgumentError(
                f"output '{info.name}': its size depends on data: expected an array in host memory, got one on a device"
            )
        return _expect_contiguous(side, info, array)
    if not _usable(array):
        raise InvalidArgumentError(
            f"{side} '{info.name}': expected contiguous row-major memory, got strides {array.strides}\n"
            "Bind a contiguous array: numpy.ascontiguousarray(array)"
        )
    return host_array(array)


def refuse_overlap(
    inputs: Sequence[HostArray | DeviceArray | None], outputs: Sequence[HostArray | DeviceArray | None]
) -> None:
    """No output's bytes may belong to another buffer."""
    taken = [(array.pointer, array.pointer + array.nbytes) for array in inputs if array is not None]
    for array in outputs:
        if array is None:
            continue
        begin, end = array.pointer, array.pointer + array.nbytes
        for a, b in taken:
            if max(begin, a) < min(end, b):
                raise InvalidArgumentError("two buffers overlap: an output needs its own memory\nBind separate arrays.")
        taken.append((begin, end))


def _as_it_is(info: TensorInfo, value: Any) -> HostArray | None:
    """What most arrays are, in few steps: numpy's own, and as kernels take it."""
    if type(value) is np.ndarray and value.shape == info.shape and value.dtype == info.dtype and _usable(value):
        return host_array(value)
    return None


def _usable(array: Array) -> bool:
    """Whether kernels can read it where it is."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def _type_text(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    order = "" if dtype.isnative else " in the other byte order"
    return f"{dtype.name}[{','.join(map(str, shape))}]{order}"


def _view(side: str, info: TensorInfo, value: Any, stream: int | None) -> Array | DeviceArray:
    """An array over `value` without copying; anything that is no array is refused."""
    if isinstance(value, _NUMPY):
        return np.asarray(value)
    try:
        if stream is not None and on_device(value):
            return device_array(value, stream)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise InvalidArgumentError(
            f"{side} '{info.name}': the {type(value).__name__} cannot be viewed in a device's memory: {error}"
        ) from None
    if not hasattr(value, "__dlpack__"):
        hint = f"Convert it: numpy.asarray(value, dtype=numpy.{info.dtype.name})"
        if hasattr(value, "__cuda_array_interface__"):
            hint = "The session runs on the processor: copy it to the CPU first."
        raise InvalidArgumentError(
            f"{side} '{info.name}': expected an array {info}, got {type(value).__name__}\n{hint}"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{side} '{info.name}': the {type(value).__name__} cannot be viewed in host memory: {error}\n"
            "Copy it to the CPU first (PyTorch: tensor.detach().cpu())."
        ) from None


def _exact(side: str, info: TensorInfo, value: Any, stream: int | None) -> Array | DeviceArray:
    """The array of `value`, of exactly the right dtype and shape."""
    array = _view(side, info, value, stream)
    if array.shape == info.shape and array.dtype == info.dtype:
        return array
    if array.shape != info.shape:
        hint = _shape_hint(array.shape, info)
    else:
        hint = f"Convert it: array.astype(numpy.{info.dtype.name})"
    got = _type_text(array.dtype, array.shape)
    raise InvalidArgumentError(f"{side} '{info.name}': expected {info}, got {got}\n{hint}")


def _expect_contiguous(side: str, info: TensorInfo, array: DeviceArray) -> DeviceArray:
    if array.contiguous:
        return array
    raise InvalidArgumentError(
        f"{side} '{info.name}': expected contiguous row-major memory, got strides {array.strides}\n"
        "Make it contiguous (PyTorch: tensor.contiguous())."
    )


def _shape_hint(got: tuple[int, ...], info: TensorInfo) -> str:
    want = info.shape
    if (1, *got) == want:
        return "Add the batch dimension: array[None]"
    if len(got) == 4 and len(want) == 4 and (got[0], got[3], got[1], got[2]) == want:
        return "Channels come first: array.transpose(0, 3, 1, 2)"
    if len(got) == 3 and len(want) == 4 and (1, got[2], got[0], got[1]) == want:
        return "Channels come first: array.transpose(2, 0, 1)[None]"
    if int(np.prod(got)) == int(np.prod(want)):
        return f"Reshape it: array.reshape({want})"
    shape = "x".join(map(str, got))
    return f"Pack again if the model leaves its shape open: edgert pack model.onnx --shape {info.name}={shape}"
