"""Machine code for programs of devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from packer.bundle.model import Module, Program
from targets.base import Target

__all__ = ["assembled"]


def assembled(program: Program, target: Target, progress: Callable[[int, int], None] | None = None) -> Program:
    """The program with the machine code, besides the PTX, that `target` makes for its device; `progress` is told how
    many bytes of PTX of how many are done. Raises TargetError if there is no assembler."""
    if not program.modules:
        return program
    texts = [module.ptx for module in program.modules]
    return replace(program, modules=tuple(map(Module, texts, target.assemble(texts, progress))))
