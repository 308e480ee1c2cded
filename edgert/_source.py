"""The bytes of a bundle that is given in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["bytes_of"]


def bytes_of(source: Buffer) -> memoryview:
    """A view of the buffer's bytes. Raises InvalidArgumentError for what is no buffer, or one with gaps."""
    try:
        return memoryview(source).cast("B")
    except TypeError:
        raise InvalidArgumentError(
            f"source: expected a path, or the bytes of a bundle, got {type(source).__name__}\n"
            'Load a file: edgert.load("model.edge")'
        ) from None
