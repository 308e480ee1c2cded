"""Between row-major memory that the host fills or reads, and values in device memory."""

from __future__ import annotations

from targets.cuda.array import Array
from targets.cuda.generic.access import aligned
from targets.cuda.generic.copy import copy
from targets.cuda.kernel import Code

__all__ = ["get", "put"]


def put(source: Array, target: Array) -> Code:
    """From dense `source`, whose pointer is a multiple of four elements, to `target`; f32 and f16 are converted. No
    kernels for what is empty."""
    return _moved("put", source, target, aligned(target))


def get(source: Array, target: Array) -> Code:
    """From `source` to dense `target`, otherwise as `put`."""
    return _moved("get", source, target, aligned(source))


def _moved(name: str, source: Array, target: Array, together: bool) -> Code:
    return Code((copy(name, source, target, together=together),) if target.elements else (), (0,))
