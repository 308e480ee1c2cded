"""Capsules of DLPack as NumPy and PyTorch make them, and what `__cuda_array_interface__` says, are read as meant."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgert._device_arrays import device_array, on_device

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FLAGS = 24  # the place of the flags in DLManagedTensorVersioned


class Producer:
    """Hands out capsules of an array in host memory, said to be on a device: their addresses are not looked into."""

    def __init__(self, array: Any, kind: int = 2, versioned: bool = True) -> None:
        self.array, self.kind, self.versioned = array, kind, versioned
        self.asked: list[dict[str, object]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 3)

    def __dlpack__(self, **options: object) -> object:
        self.asked.append(options)
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**({"max_version": options["max_version"]} if self.versioned else {}))


def changed(capsule: Any, place: int, value: int) -> Any:
    """The versioned capsule with another 32-bit number at a byte of its structure."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    ctypes.c_uint32.from_address(pointer_of(capsule, b"dltensor_versioned") + place).value = value
    return capsule


def torch_tensor() -> tuple[Any, int]:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(ARRAY.copy())
    return tensor, tensor.data_ptr()


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("make", [lambda: (ARRAY, ARRAY.ctypes.data), torch_tensor])
def test_capsules_of_both_kinds(make: Callable[[], tuple[Any, int]], versioned: bool) -> None:
    array, address = make()
    producer = Producer(array, versioned=versioned)
    found = device_array(producer, 77)
    assert (found.pointer, found.shape, found.dtype, found.writable) == (address, ARRAY.shape, ARRAY.dtype, True)
    assert found.contiguous
    assert producer.asked[0] == {"stream": 77, "max_version": (1, 0)}
    assert producer.asked[1:] == ([] if versioned else [{"stream": 77}])


def test_strides_are_elements() -> None:
    found = device_array(Producer(ARRAY[:, ::2, 1:]), 1)
    assert (found.pointer, found.shape, found.strides) == (ARRAY.ctypes.data + 4, (2, 2, 3), (12, 8, 1))
    assert not found.contiguous


def test_what_is_read_only_or_a_copy_is_no_output() -> None:
    fixed = ARRAY.copy()
    fixed.flags.writeable = False
    assert not device_array(Producer(fixed), 1).writable

    class Copied(Producer):
        def __dlpack__(self, **options: object) -> object:
            return changed(super().__dlpack__(**options), FLAGS, 2)

    assert not device_array(Copied(ARRAY), 1).writable


def test_other_versions_are_not_read() -> None:
    class Later(Producer):
        def __dlpack__(self, **options: object) -> object:
            return changed(super().__dlpack__(**options), 0, 2)

    with pytest.raises(ValueError, match="version 2"):
        device_array(Later(ARRAY), 1)


@pytest.mark.parametrize(("kind", "there"), [(1, False), (2, True), (3, False), (10, False), (13, True)])
def test_kinds_of_memory(kind: int, there: bool) -> None:
    assert on_device(Producer(ARRAY, kind)) == there


@pytest.mark.parametrize(("handle", "asked"), [(0, 1), (1, 1), (2, 2), (0x7F00, 0x7F00)])
def test_the_default_stream_is_called_1(handle: int, asked: int) -> None:
    producer = Producer(ARRAY)
    device_array(producer, handle)
    assert producer.asked[0]["stream"] == asked


class Described:
    def __init__(self, **fields: object) -> None:
        usual = {"shape": (2, 3, 4), "typestr": "<f4", "data": (4096, False), "version": 3}
        self.__cuda_array_interface__ = usual | fields


def test_fields_that_may_be_missing() -> None:
    found = device_array(Described(), 5)
    assert (found.pointer, found.strides, found.wait, found.writable) == (4096, None, None, True)
    assert device_array(Described(mask=None, strides=(48, 16, 4), stream=None), 5).strides == (12, 4, 1)


def test_streams_of_the_interface() -> None:
    assert [device_array(Described(stream=stream), 5).wait for stream in (1, 2, 5, 6)] == [1, 2, None, 6]
    with pytest.raises(ValueError, match="stream is 0"):
        device_array(Described(stream=0), 5)


def test_masks_are_refused() -> None:
    with pytest.raises(ValueError, match="mask"):
        device_array(Described(mask=Described()), 5)


def test_an_empty_array_has_no_address() -> None:
    found = device_array(Described(shape=(0, 4), data=(0, False), strides=(64, 4)), 5)
    assert (found.pointer, found.nbytes, found.contiguous) == (0, 0, True)
