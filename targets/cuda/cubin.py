"""What comes out of the assembler: a cubin, an ELF file, and what the assembler said of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Cubin", "code", "machine_instructions"]


@dataclass(frozen=True, slots=True)
class Cubin:
    """A cubin of one entry for one processor, `arch` such as "sm_62".

    `spilled` are bytes of registers that go to memory and back, `constants` bytes of the constant banks. `seconds` of
    a processor are what the assembler took.
    """

    image: bytes
    arch: str
    registers: int
    spilled: int
    shared: int
    constants: int
    seconds: float


def code(image: bytes) -> bytes:
    """The machine code: the sections .text.* of the ELF file."""
    (offset,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQ", image, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    return b"".join(
        image[begin : begin + length]
        for name, _, _, _, begin, length in headers
        if image.startswith(b".text.", strings + name)
    )


def machine_instructions(cubin: Cubin) -> int:
    """Instructions in the code, padding included: 16 bytes each, before sm_70 8 and a third of a control word."""
    size = len(code(cubin.image))
    return size // 16 if int(cubin.arch[3:]) >= 70 else size * 3 // 32
