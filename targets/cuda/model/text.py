"""PTX of one entry as blocks of instructions that are executed together; runs of multiply-adds count as one line.

What is read is what the generators of this package write: a line for each instruction, label or declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Access", "Block", "Instruction", "Program", "parse"]

_LINE = re.compile(r"(?:fma\.rn\.f32 [^\n]*\n)+|[^\n]+\n")
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+) )?([a-z][\w.]*) ?([^;]*);")
_OPERANDS = re.compile(r"\[[^\]]*\]|[^\s,{}]+")
_ADDRESS = re.compile(r"\[(%?\w+)(?:\+(\d+))?\]")
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


@dataclass(frozen=True, slots=True)
class Access:
    """Loads or stores of `bytes` a lane in "global" or "shared" memory, at the address in a register and an offset."""

    space: str
    store: bool
    bytes: int
    register: str
    offset: int
    cached: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """`guard` is the predicate that a lane needs, "" for none, negated if `unless`; a run of `count` multiply-adds has
    the operands of its first."""

    code: str
    operands: tuple[str, ...]
    guard: str = ""
    unless: bool = False
    count: int = 1
    access: Access | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The registers that it writes."""
        if self.access is not None:
            return () if self.access.store else tuple(name for name in self.operands if name.startswith("%"))
        return tuple(self.operands[0].split("|")) if self.operands and self.operands[0].startswith("%") else ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The registers that it reads, and "shared" if it reads shared memory."""
        if self.access is None:
            own = self.operands if self.code in ("bra", "ret", "exit") else self.operands[1:]
            return tuple(name for name in (self.guard, *own) if name.startswith("%"))
        data = self.operands if self.access.store else ("shared",) if self.access.space == "shared" else ()
        return tuple(name for name in (self.guard, self.access.register, *data) if name and not name.startswith("["))


@dataclass(slots=True)
class Block:
    """Instructions from a label, or from behind a branch, to the next; the last one may branch to a label."""

    instructions: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class Program:
    """An entry: `blocks` in the order of the text, `labels` with the numbers of their blocks, bytes of shared memory,
    the names of the parameters, and the most registers of a thread."""

    blocks: list[Block]
    labels: dict[str, int]
    parameters: tuple[str, ...]
    shared: int
    registers: int


def parse(ptx: str) -> Program:
    """The entry of a module that has one."""
    begin = ptx.index(".entry ")
    head, _, body = ptx[begin:].partition("{\n")
    blocks, labels, shared = [Block()], dict[str, int](), 0
    for line in _lines(body):
        if isinstance(line, Instruction):
            blocks[-1].instructions.append(line)
            if line.code in ("bra", "ret", "exit"):
                blocks.append(Block())
        elif line.endswith(":"):
            if blocks[-1].instructions:
                blocks.append(Block())
            labels[line[:-1]] = len(blocks) - 1
        elif found := re.match(r"\.shared .*\[(\d+)\]", line):
            shared = int(found[1])
    registers = re.search(r"\.maxnreg (\d+)", head)
    parameters = tuple(re.findall(r"\.param \.\w+ (\w+)", head))
    return Program(blocks, labels, parameters, shared, int(registers[1]) if registers else 255)


def _lines(body: str) -> Iterator[Instruction | str]:
    """Instructions, and labels and declarations as text."""
    known: dict[str, Instruction] = {}
    for match in _LINE.finditer(body):
        text = match[0]
        if text.startswith("fma.rn.f32 "):
            first = text[11 : text.index(";")]
            yield Instruction("fma.rn.f32", tuple(_OPERANDS.findall(first)), count=text.count("\n"))
            continue
        if text[0] in ".}" or text.endswith(":\n"):
            yield text[:-1]
        else:
            if text not in known:
                known[text] = _instruction(text)
            yield known[text]


def _instruction(text: str) -> Instruction:
    found = _INSTRUCTION.match(text)
    assert found is not None, text
    unless, guard, code, rest = found.groups()
    operands = tuple(_OPERANDS.findall(rest))
    access = None
    kind, _, detail = code.partition(".")
    space = detail.partition(".")[0]
    if kind in ("ld", "st", "red", "atom") and space in ("global", "shared"):
        address = next(operand for operand in operands if operand.startswith("["))
        place = _ADDRESS.fullmatch(address)
        assert place is not None, text
        wide = 4 if ".v4." in code else 2 if ".v2." in code else 1
        width = _BYTES[re.findall(r"\d+", code.rpartition(".")[2])[0]]
        access = Access(space, kind != "ld", wide * width, place[1], int(place[2] or 0), ".nc" in code)
    return Instruction(code, operands, guard or "", bool(unless), 1, access)
