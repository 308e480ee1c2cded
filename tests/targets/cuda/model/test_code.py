"""What the model expects an assembler to make of PTX, against what it makes of it."""

from __future__ import annotations

from functools import cache

import pytest

from targets.cuda.board import BOARDS
from targets.cuda.model import Counts, MachineCode, count, predict
from targets.cuda.model.machine import CLASSES, bytes_of_code
from targets.cuda.model.predict import classes_of
from targets.cuda.toolchain import assemble, find, missing
from tests.targets.cuda.model.cases import CASES, constants, sizes

needs_compilers = pytest.mark.skipif(bool(missing()), reason=missing())
needs_disassembler = pytest.mark.skipif(find("nvdisasm") is None, reason="nvdisasm is missing")
BOARD = BOARDS["jetson"]
CONVOLUTIONS = [name for name in CASES if name.startswith(("t1", "t2", "t3"))]


@cache
def machine_of(name: str, arch: str) -> MachineCode:
    """The code of a case's first kernel."""
    return MachineCode.of(assemble(CASES[name]().code.kernels[0].ptx, arch))


def counted(name: str) -> Counts:
    """What that kernel executes."""
    case = CASES[name]()
    return count(case.code.kernels[0], constants(case))


@needs_compilers
@pytest.mark.parametrize("arch", ["sm_62", "sm_90"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_size_of_code_is_as_expected(name: str, arch: str) -> None:
    counts, machine = counted(name), machine_of(name, arch)
    assert machine.registers <= counts.registers
    text = sum(counts.text(int(arch[3:])).values())
    assert bytes_of_code(text, int(arch[3:])) == pytest.approx(machine.bytes, rel=0.2)


@needs_compilers
@needs_disassembler
@pytest.mark.parametrize("arch", ["sm_62", "sm_90"])
@pytest.mark.parametrize("name", CASES)
def test_instructions_are_those_of_the_disassembler(name: str, arch: str) -> None:
    counts, machine, sm = counted(name), machine_of(name, arch), int(arch[3:])
    real, expected = classes_of(counts, sm, machine), classes_of(counts, sm)
    assert set(machine.classes) <= set(CLASSES)
    assert sum(machine.classes.values()) == machine.instructions
    if name in CONVOLUTIONS:
        products = "ffma" if "ffma" in expected else "half"
        assert real[products] == pytest.approx(expected[products], rel=0.03 if products == "ffma" else 0.2)
        assert sum(real.values()) == pytest.approx(sum(expected.values()), rel=0.15)
    assert 0.4 < sum(real.values()) / sum(expected.values()) < 1.3


@needs_compilers
def test_loads_and_stores_go_beside_products_before_sm_70() -> None:
    text = counted("t1").code
    memory = sum(times for opcode, times in text.items() if opcode.startswith(("ld.shared", "ld.global", "st.")))
    together = machine_of("t1", "sm_62").together
    assert together == pytest.approx(BOARD.dual_issue * memory, rel=0.1)
    assert machine_of("t1", "sm_90").together == 0


@needs_compilers
@pytest.mark.parametrize("name", CASES)
def test_predictions_from_ptx_are_near_those_from_machine_code(name: str) -> None:
    case = CASES[name]()
    kernel = case.code.kernels[0]
    exact, guess = (
        predict(kernel, counted(name), BOARD, sizes(case), machine).seconds
        for machine in (machine_of(name, "sm_62"), None)
    )
    assert guess == pytest.approx(exact, rel=0.05 if name in CONVOLUTIONS else 0.5)
