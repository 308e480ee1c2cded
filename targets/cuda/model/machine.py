"""Machine instructions of an instruction of PTX, and where they are executed.

Multiplications of integers are three of 16 bits before sm_70 and one since; sums of 64 bits are two everywhere. Rates
are those of the CUDA C++ Programming Guide, "Arithmetic Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

__all__ = ["CLASSES", "Cost", "bytes_of_code", "cost_of", "rate"]

# ffma: multiply-adds of float32; float: all else of float32; half: pairs of f16; special: conversions, and functions of
# the special function units
CLASSES = ("ffma", "float", "half", "double", "integer", "special", "shared", "global", "branch", "barrier")
_OLD = 70  # first processor with whole integer products and 16 bytes an instruction

# lanes a cycle and multiprocessor of what is not as quick as float32: before sm_70, since, sm_80, sm_90
_RATES = {
    "integer": (128, 64, 64, 64),
    "special": (32, 16, 16, 16),
    "double": (4, 32, 2, 64),
    "shared": (32, 32, 32, 32),
    "global": (32, 32, 32, 32),
    "branch": (64, 64, 64, 64),
    "barrier": (32, 32, 32, 32),
}
_SLOW = {"div": 9.0, "sqrt": 8.0, "rcp": 7.0}  # float32, correctly rounded


@dataclass(frozen=True, slots=True)
class Cost:
    """`machine` instructions of a class; none where the operand is read in place."""

    kind: str
    machine: float


@cache
def cost_of(code: str, sm: int) -> Cost:
    """Of an opcode such as "mad.lo.u32"."""
    kind, *rest = code.split(".")
    type = rest[-1] if rest else ""
    if kind in ("ld", "st", "atom", "red", "shfl"):
        space = "shared" if kind == "shfl" else rest[0]
        return Cost("integer", 0) if space == "param" else Cost("shared" if space == "shared" else "global", 1)
    if kind in ("bra", "ret", "exit"):
        return Cost("branch", 1)
    if kind in ("bar", "membar"):
        return Cost("barrier", 2)
    if kind == "cvta":
        return Cost("integer", 0)
    if kind == "cvt":
        return Cost("double" if "f64" in rest else "special", 1)
    if kind in ("ex2", "lg2", "sin", "cos", "tanh") or (kind in ("rcp", "rsqrt", "sqrt") and "approx" in rest):
        return Cost("special", 1 if "ftz" in rest or kind in ("sin", "cos") else 3)
    if type == "f32" and kind not in ("mov", "selp", "setp"):
        return Cost("ffma" if kind == "fma" else "float", _SLOW.get(kind, 1))
    if type in ("f16", "f16x2") and kind != "mov":
        return Cost("half", 1)
    if type == "f64" and kind != "mov":
        return Cost("double", _SLOW.get(kind, 1))
    if (kind, type) == ("mov", "b32"):  # the same register by another name, or a constant in its place
        return Cost("integer", 0)
    return Cost("integer", _integer(kind, rest, type, sm))


def _integer(kind: str, rest: list[str], type: str, sm: int) -> float:
    wide = type.endswith("64")
    if kind in ("mul", "mad"):
        if sm >= _OLD:
            return 4 if wide else 1
        return {"lo": 12 if wide else 3, "hi": 6, "wide": 4}.get(rest[0], 3)
    if kind in ("div", "rem"):
        return 80 if wide else 25
    return 2 if wide else 1


def rate(kind: str, sm: int, lanes: int) -> float:
    """Lanes a cycle and multiprocessor of a class; `lanes` are those of float32."""
    row = _RATES.get(kind)
    return lanes if row is None else row[0 if sm < _OLD else 1 if sm < 80 else 2 if sm < 90 else 3]


def bytes_of_code(machine: float, sm: int) -> float:
    """Bytes of so many machine instructions: 16 each, before sm_70 8 and a third of a control word."""
    return machine * (16 if sm >= _OLD else 32 / 3)
