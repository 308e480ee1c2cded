"""What an assembler made of a kernel, as the model takes it: its code, and how it will be issued.

Before sm_70 three instructions share a control word, since then each has its own. Its low four bits are the cycles
until the next instruction may go: before sm_70, none for one that goes together with the next.
(Scott Gray, "Control Codes", github.com/NervanaSystems/maxas.)
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from targets.cuda.cubin import Cubin, code
from targets.cuda.toolchain import disassemble

__all__ = ["MachineCode", "class_of"]

_OLD = 70
_CLASSES = {
    "shared": ("LDS", "STS", "SHFL", "ATOMS"),
    "global": ("LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG", "LDL", "STL", "TEX", "TLD"),
    "branch": (
        "BRA",
        "BRX",
        "BRK",
        "EXIT",
        "RET",
        "SSY",
        "SYNC",
        "PBK",
        "CAL",
        "CALL",
        "BSSY",
        "BSYNC",
        "JMP",
        "WARPSYNC",
    ),
    "barrier": ("BAR", "DEPBAR", "MEMBAR"),
    "special": ("MUFU", "F2F", "F2I", "I2F", "I2I", "FRND", "POPC", "FLO", "F2FP", "RRO"),
    "float": ("FADD", "FMUL", "FMNMX", "FSET", "FSETP", "FSEL", "FCHK", "FCMP", "FADD32I", "FMUL32I"),
    "ffma": ("FFMA", "FFMA32I"),
}
_CLASS = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes}


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The code of one entry: `registers` of a thread, `bytes`, its instructions, how many of them go together with the
    one before, and how many are of each class ({}: there is no disassembler). Padding does not count."""

    registers: int
    bytes: int
    instructions: int
    together: int
    classes: dict[str, int]

    @classmethod
    def of(cls, cubin: Cubin) -> MachineCode:
        """What there is to know of a cubin."""
        image, sm = code(cubin.image), int(cubin.arch[3:])
        waits, opcodes = list(_waits(image, sm)), disassemble(cubin)
        while opcodes and opcodes[-1] == "NOP":
            opcodes.pop()
        waits = waits[: len(opcodes)] if opcodes else waits
        together = waits.count(0) if sm < _OLD else 0
        classes = Counter(map(class_of, opcodes or ()))
        return cls(cubin.registers, len(image), len(waits), together, dict(classes))


def class_of(opcode: str) -> str:
    """The class, of those in machine.py, of an opcode of a disassembler, such as "FFMA"."""
    if opcode in _CLASS:
        return _CLASS[opcode]
    if opcode.startswith(("HFMA2", "HADD2", "HMUL2", "HSET", "HMNMX2")):
        return "half"
    return "double" if opcode in ("DFMA", "DADD", "DMUL", "DMNMX", "DSETP", "DSET") else "integer"


def _waits(image: bytes, sm: int) -> Iterator[int]:
    """Cycles from each instruction to the next one."""
    if sm >= _OLD:
        yield from (control >> 9 & 15 for (control,) in struct.iter_unpack("<12xI", image))
        return
    for (control,) in struct.iter_unpack("<Q24x", image):
        yield from (control & 15, control >> 21 & 15, control >> 42 & 15)
