"""Runs the code of an operator on the emulator, or a device, over arrays laid out as it wants them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from targets.cuda.array import Array
from targets.cuda.kernel import Code
from tests.targets.cuda.driver import DEFAULT, Buffer, Module, device, launch, synchronize

__all__ = ["run"]

_NOT_WRITTEN = 0x5A


def run(
    code: Code, inputs: Sequence[tuple[Array, np.ndarray] | None], outputs: Sequence[Array], **environment: str
) -> list[np.ndarray]:
    """What the kernels write to the outputs, which are all that they may write. Halos of inputs are zero."""
    slack = max(kernel.slack for kernel in code.kernels)
    with device(**{**DEFAULT, **environment}):
        operands = []
        for operand in code.operands:
            if isinstance(operand, np.ndarray):
                operands.append(Buffer(np.ascontiguousarray(operand)))
                continue
            given = inputs[operand]
            assert given is not None
            array, data = given
            assert array.shape == data.shape
            memory = np.zeros(_extent(array) + slack, array.dtype.numpy)
            _elements(array, memory)[...] = data
            operands.append(Buffer(memory))
        made = [np.full(_extent(array) * array.dtype.bytes, _NOT_WRITTEN, np.uint8) for array in outputs]
        operands += [Buffer(memory) for memory in made]
        modules = [Module(kernel.ptx) for kernel in code.kernels]
        for kernel, module in zip(code.kernels, modules, strict=True):
            launch(module.function(kernel.name), kernel.grid, (kernel.threads,), *operands)
        synchronize()
        for module in modules:
            module.unload()
        found = []
        for array, buffer in zip(outputs, operands[len(code.operands) :], strict=True):
            memory = buffer.read(array.dtype.numpy.type)
            written = np.zeros(len(memory), bool)
            _elements(array, written)[...] = True
            halo = memory.view(np.uint8).reshape(len(memory), -1)[~written]
            assert (halo == _NOT_WRITTEN).all(), "a halo was written"
            found.append(_elements(array, memory).copy())
        for buffer in operands:
            buffer.free()
    return found


def _extent(array: Array) -> int:
    """Elements of memory that the value takes with its halos."""
    return array.shape[0] * array.strides[0] if array.shape else 1


def _elements(array: Array, memory: np.ndarray) -> np.ndarray:
    """The value's elements as a view of memory."""
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory[array.origin :], array.shape, tuple(stride * size for stride in array.strides)
    )
