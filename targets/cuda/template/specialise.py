"""Algorithm 2 of Dong, Liu, Li, Feng, "Performance optimisation of sparse CNNs on GPUs", Journal of Software 31(9),
2020: given weights, delete the multiply-adds of a template whose weight is zero.

One pass over the instructions with two maps. The value map gives for each value in the template the weight that it
stands for. The register map gives for a register of the template what holds its value: where a weight is zero,
`dst = src * 0 + c` is c, so `dst` is mapped to what holds c, and the instruction is gone.

Beyond the paper: the template has a loop over chunks of input channels, whose body is copied for each chunk with
registers of its own, so that compilers see one chunk however many there are. The register map carries values from copy
to copy, and where it finds sums of a register and constants (the third map), they go into offsets of loads and stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from targets.cuda.template.parse import REGISTER, Instruction, Template

__all__ = ["specialise"]

_ZEROS = ("0f00000000", "0f80000000")


@dataclass(frozen=True, slots=True)
class _Sum:
    """A register of the result plus a constant; without a register, the constant."""

    register: str
    offset: int


_Held = str | _Sum


@dataclass(slots=True)
class _Rewriter:
    """The maps, and the instructions so far."""

    registers: dict[str, tuple[str, int]]
    lines: list[str] = field(default_factory=list)
    held: dict[str, _Held] = field(default_factory=dict)  # register map
    floats: dict[str, str] = field(default_factory=dict)  # constant map: registers that hold an immediate
    deleted: int = 0

    def fresh(self, like: str) -> str:
        """A new register of the kind of another."""
        prefix = like.rstrip("0123456789")
        type, count = self.registers[prefix]
        self.registers[prefix] = (type, count + 1)
        return f"{prefix}{count}"

    def use(self, operand: str) -> str:
        """An operand of the template as one of the result, which may need an addition first."""
        if operand.startswith("[") and (found := REGISTER.search(operand)):
            _, _, offset = operand[1:-1].partition("+")
            held = self.held.get(found[0], found[0])
            if isinstance(held, _Sum):
                return f"[{held.register}+{held.offset + int(offset or 0)}]" if held.register else operand
            return f"[{held}+{offset}]" if offset else f"[{held}]"
        return REGISTER.sub(lambda match: self._value(match[0]), operand)

    def _value(self, register: str) -> str:
        held = self.held.get(register, register)
        if isinstance(held, str):
            return held
        if not held.register:
            return str(held.offset)
        result = self.fresh(register)
        type = self.registers[register.rstrip("0123456789")][0][2:]
        self.lines.append(f"add.s{type} {result}, {held.register}, {held.offset};")
        self.held[register] = result
        return result

    def copy(self, instruction: Instruction, values: Mapping[str, str]) -> None:
        """An instruction of the loop's body, with registers of its own."""
        operands = instruction.operands
        if instruction.opcode == "fma.rn.f32":
            self._multiply(operands, values)
            return
        if instruction.opcode.startswith("mov.") and REGISTER.fullmatch(operands[1]):
            self.held[operands[0]] = self.held.get(operands[1], operands[1])
            return
        if instruction.opcode == "mov.f32":
            self.floats[operands[0]] = operands[1]
            return
        if instruction.has_result:
            if (total := self.sum_of(instruction)) is not None:
                self.held[operands[0]] = total
                return
            sources = [self.use(operand) for operand in operands[1:]]
            result = REGISTER.sub(lambda match: self._renamed(match[0]), operands[0])
            self.lines.append(f"{instruction.opcode} {', '.join((result, *sources))};")
        else:
            self.lines.append(str(Instruction(instruction.opcode, tuple(self.use(operand) for operand in operands))))

    def _renamed(self, register: str) -> str:
        result = self.fresh(register)
        self.held[register] = result
        return result

    def _multiply(self, operands: Sequence[str], values: Mapping[str, str]) -> None:
        result, *factors, added = operands
        constants = [self.floats.get(factor, factor) for factor in factors]
        place = next((i for i in (1, 0) if constants[i] in values), None)
        if place is None:
            sources = [self.use(operand) for operand in operands[1:]]
            self.lines.append(f"fma.rn.f32 {self._renamed(result)}, {', '.join(sources)};")
            return
        weight = values[constants[place]]
        if weight in _ZEROS:
            self.deleted += 1
            self.held[result] = self.held.get(added, added)
            return
        value, total = self.use(factors[1 - place]), self.use(added)
        self.lines.append(f"fma.rn.f32 {self._renamed(result)}, {value}, {weight}, {total};")

    def sum_of(self, instruction: Instruction) -> _Sum | None:
        """The result of integer arithmetic if it is a constant, or a constant more than a register."""
        operation, _, kind = instruction.opcode.partition(".")
        if kind.rpartition(".")[2] not in ("s32", "u32", "s64", "u64", "b32", "b64"):
            return None
        sources = [self._integer(operand) for operand in instruction.operands[1:]]
        if any(source is None for source in sources):
            return None
        known = [source for source in sources if source is not None]
        bare = all(not source.register for source in known)
        offsets = [source.offset for source in known]
        if operation == "mov":
            return known[0]
        if operation == "add" and (not known[0].register or not known[1].register):
            return _Sum(known[0].register or known[1].register, sum(offsets))
        if operation == "sub" and not known[1].register:
            return _Sum(known[0].register, offsets[0] - offsets[1])
        if operation == "neg" and bare:
            return _Sum("", -offsets[0])
        if operation == "mul" and bare and kind in ("lo.s32", "lo.u32", "lo.s64", "lo.u64", "wide.s32"):
            return _Sum("", offsets[0] * offsets[1])
        if operation == "shl" and bare:
            return _Sum("", offsets[0] << offsets[1])
        return None

    def _integer(self, operand: str) -> _Sum | None:
        if REGISTER.fullmatch(operand):
            held = self.held.get(operand, operand)
            return held if isinstance(held, _Sum) else _Sum(held, 0)
        try:
            return _Sum("", int(operand, 0))
        except ValueError:
            return None


def specialise(
    template: Template,
    name: str,
    chunks: Sequence[Mapping[str, str]],
    biases: Mapping[str, str],
    numbers: Mapping[str, int],
) -> tuple[str, int]:
    """The entry for given weights, and how many multiply-adds were deleted.

    `chunks` holds the value map of every copy of the loop's body, immediates of the template -> immediates; `biases`
    that of the code before the loop; `numbers` gives parameters of the template that are no parameters of the result.
    """
    rewriter = _Rewriter(dict(template.registers))
    _before(rewriter, template, biases, numbers)
    for number, values in enumerate(chunks):
        last = number + 1 == len(chunks)
        for instruction in template.body:
            if not (last and instruction.opcode.startswith(("ld.global", "st.shared"))):  # nothing to fetch ahead
                rewriter.copy(instruction, values)
    _after(rewriter, template, numbers)
    parameters = ",\n".join(f".param {type} {own}" for type, own in template.parameters if own not in numbers)
    declared = [f".reg {type} {prefix}<{count}>;" for prefix, (type, count) in rewriter.registers.items()]
    lines = (*declared, *(f"{line};" for line in template.declared), *rewriter.lines)
    body = "\n".join(lines)
    return f".visible .entry {name}(\n{parameters}\n)\n{template.directives}\n{{\n{body}\n}}\n", rewriter.deleted


def _before(rewriter: _Rewriter, template: Template, biases: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    """The code before the loop, and what is known of the registers that it leaves."""
    for instruction in template.before:
        instruction = _numbered(instruction, rewriter, numbers)
        operands = tuple(biases.get(operand, operand) for operand in instruction.operands)
        rewriter.lines.append(str(Instruction(instruction.opcode, operands)))
        if instruction.opcode == "mov.f32" and operands[1].startswith("0f"):
            rewriter.floats[operands[0]] = operands[1]
        elif instruction.has_result and (total := rewriter.sum_of(instruction)) is not None and not total.register:
            rewriter.held[operands[0]] = total
        elif operands:
            rewriter.held.pop(operands[0], None)


def _after(rewriter: _Rewriter, template: Template, numbers: Mapping[str, int]) -> None:
    """The code after the loop, which reads what the last copy left."""
    for instruction in template.after:
        instruction = _numbered(instruction, rewriter, numbers)
        first = 1 if instruction.has_result else 0
        operands = (*instruction.operands[:first], *(rewriter.use(operand) for operand in instruction.operands[first:]))
        rewriter.lines.append(str(Instruction(instruction.opcode, operands, instruction.guard)))
        if first:  # from here on the register holds this
            rewriter.held.pop(instruction.operands[0], None)


def _numbered(instruction: Instruction, rewriter: _Rewriter, numbers: Mapping[str, int]) -> Instruction:
    """A load of a parameter that is a known number as a move."""
    if not instruction.opcode.startswith("ld.param") or instruction.operands[1].strip("[]") not in numbers:
        return instruction
    register = instruction.operands[0]
    type = rewriter.registers[register.rstrip("0123456789")][0][1:]
    return Instruction(f"mov.{type}", (register, str(numbers[instruction.operands[1].strip("[]")])))
