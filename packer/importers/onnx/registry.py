"""Which function imports which ONNX operator, from which opset version on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packer.importers.onnx.builder import Tensor
    from packer.importers.onnx.call import Call

__all__ = ["Handler", "find", "handler", "known"]

Handler = Callable[["Call"], "Tensor | tuple[Tensor, ...]"]

_HANDLERS: dict[str, list[tuple[int, Handler]]] = {}


def handler(*op_types: str, since: int = 1) -> Callable[[Handler], Handler]:
    """Register the decorated function for operators of the default domain from opset `since` on."""

    def register(function: Handler) -> Handler:
        for op_type in op_types:
            entries = _HANDLERS.setdefault(op_type, [])
            if any(version == since for version, _ in entries):
                raise ValueError(f"two handlers for {op_type} since {since}")
            entries.append((since, function))
            entries.sort(key=lambda entry: entry[0])
        return function

    return register


def find(op_type: str, version: int) -> Handler | None:
    """The newest handler that covers `op_type` at opset `version`, or None."""
    found = None
    for since, function in _HANDLERS.get(op_type, ()):
        if since <= version:
            found = function
    return found


def known() -> dict[str, tuple[int, ...]]:
    """Every operator with a handler, with the versions its handlers start at, in alphabetical order."""
    return {op_type: tuple(since for since, _ in _HANDLERS[op_type]) for op_type in sorted(_HANDLERS)}
