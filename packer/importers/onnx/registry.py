"""Which function imports which ONNX operator, from which opset version on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from packer.importers.onnx.builder import Tensor
    from packer.importers.onnx.call import Call

__all__ = ["Handler", "find", "handler", "known"]

Handler = Callable[["Call"], "Tensor | tuple[Tensor, ...]"]
Own = TypeVar("Own", bound=Handler)

_HANDLERS: dict[str, dict[str, list[tuple[int, Handler]]]] = {}  # by domain


def handler(*op_types: str, since: int = 1, domain: str = "") -> Callable[[Own], Own]:
    """Register the decorated function for operators of a domain, by default ONNX's, from opset `since` on."""

    def register(function: Own) -> Own:
        for op_type in op_types:
            entries = _HANDLERS.setdefault(domain, {}).setdefault(op_type, [])
            if any(version == since for version, _ in entries):
                raise ValueError(f"two handlers for {domain} {op_type} since {since}")
            entries.append((since, function))
            entries.sort(key=lambda entry: entry[0])
        return function

    return register


def find(op_type: str, version: int, domain: str = "") -> Handler | None:
    """The newest handler that covers `op_type` of a domain at opset `version`, or None."""
    found = None
    for since, function in _HANDLERS.get(domain, {}).get(op_type, ()):
        if since <= version:
            found = function
    return found


def known(domain: str = "") -> dict[str, tuple[int, ...]]:
    """Every operator of a domain with a handler, with the versions its handlers start at, in alphabetical order."""
    found = _HANDLERS.get(domain, {})
    return {op_type: tuple(since for since, _ in found[op_type]) for op_type in sorted(found)}
