"""PTX as a compiler writes it, read into instructions: as much of the language as a template needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from targets.base import TargetError

__all__ = ["REGISTER", "Instruction", "Template", "parse"]

REGISTER = re.compile(r"%[a-z]+\d+")
_ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(([^)]*)\)([^{]*)\{(.*)\}", re.DOTALL)
_REGISTERS = re.compile(r"\.reg\s+(\.\w+)\s+(%[a-z]+)<(\d+)>")
_INSTRUCTION = re.compile(r"(?:(@!?%p\d+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_NO_RESULT = ("st", "bar", "barrier", "bra", "ret", "exit", "red", "membar")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction, or a label (which has no operands and an opcode that ends in ":")."""

    opcode: str
    operands: tuple[str, ...] = ()
    guard: str = ""

    @property
    def has_result(self) -> bool:
        """Whether the first operand is written."""
        return bool(self.operands) and self.opcode.split(".")[0] not in _NO_RESULT

    def __str__(self) -> str:
        if self.opcode.endswith(":"):
            return self.opcode
        return f"{self.guard} {self.opcode} {', '.join(self.operands)}".strip() + ";"


@dataclass(frozen=True, slots=True)
class Template:
    """An entry with one loop: what stands before it, its body without the branch back, what comes after.

    `parameters` are (type, name), `registers` tell type and number of those of each prefix, `declared` are the other
    declarations, `directives` what stands between the parameters and the body.
    """

    parameters: tuple[tuple[str, str], ...]
    directives: str
    registers: dict[str, tuple[str, int]]
    declared: tuple[str, ...]
    before: tuple[Instruction, ...]
    body: tuple[Instruction, ...]
    after: tuple[Instruction, ...]


def parse(text: str) -> Template:
    """The only entry of a module; raises TargetError unless it is straight-line code up to the end of its only loop."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    found = _ENTRY.search(text)
    if found is None:
        raise TargetError("a template must have one .entry; found none")
    parameters = tuple(
        (parameter.split()[1], parameter.split()[-1]) for parameter in found[2].split(",") if parameter.strip()
    )
    registers: dict[str, tuple[str, int]] = {}
    declared, code = [], []
    for statement in re.split(r";|(?<=:)\s*\n", found[4]):
        statement = statement.strip()
        if match := _REGISTERS.match(statement):
            registers[match[2]] = (match[1], int(match[3]))
        elif statement.startswith((".shared", ".local", ".const")):
            declared.append(statement)
        elif statement and not statement.startswith("."):
            code.append(_instruction(statement))
    labels = {instruction.opcode[:-1]: i for i, instruction in enumerate(code) if instruction.opcode.endswith(":")}
    back = [
        (labels[instruction.operands[0]], i)
        for i, instruction in enumerate(code)
        if instruction.opcode.startswith("bra") and labels[instruction.operands[0]] <= i
    ]
    if len(back) != 1:
        raise TargetError(f"a template must have one loop, over chunks of channels; found {len(back)}")
    begin, end = back[0]
    straight = (*code[:begin], *code[begin + 1 : end])
    odd = next((i for i in straight if i.guard or i.opcode.endswith(":") or i.opcode.startswith(("bra", "ret"))), None)
    if odd is not None:
        raise TargetError(f"a template must have no branch up to the end of its loop; found '{odd}'")
    condition = code[end].guard.lstrip("@!")
    body = tuple(i for i in code[begin + 1 : end] if not i.operands or i.operands[0] != condition)
    return Template(
        parameters,
        " ".join(found[3].split()),
        registers,
        tuple(declared),
        tuple(code[:begin]),
        body,
        tuple(code[end + 1 :]),
    )


def _instruction(statement: str) -> Instruction:
    if statement.endswith(":"):
        return Instruction(statement)
    match = _INSTRUCTION.fullmatch(statement)
    if match is None:
        raise TargetError(f"expected an instruction of PTX, got '{statement}'")
    return Instruction(match[2], tuple(_OPERAND.findall(match[3])), match[1] or "")
