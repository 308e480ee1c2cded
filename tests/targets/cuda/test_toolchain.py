"""The compilers: what they take, what they refuse and how that reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from unittest.mock import Mock

import numpy as np
import pytest

from packer.ir import DType
from targets.cuda import slices, toolchain
from targets.cuda.cache import Cache
from targets.cuda.cubin import code, machine_instructions
from targets.cuda.emit import emit, settings_of
from targets.cuda.emit.ptx import module
from targets.cuda.rounding import round20
from targets.cuda.template import specialised
from targets.cuda.toolchain import ToolchainError, assemble, assemble_all, compile, disassemble, missing
from tests.targets.cuda.layers import layer_of

needs_compilers = pytest.mark.skipif(bool(missing()), reason=missing())
ARCHITECTURES = ("sm_62", "sm_90")
NOTHING = module(".visible .entry e()\n{\nret;\n}\n")


def pruned(shape: tuple[int, ...], density: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(shape).astype(np.float32)
    weights[rng.random(shape) >= density] = 0
    return weights


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    with pytest.raises(ToolchainError, match=r"^ptxas is missing; install it: pip install 'edgert\[cuda\]'$"):
        assemble(NOTHING, "sm_62")


def test_compilers_that_are_too_new_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: "/bin/ptxas")
    monkeypatch.setattr(toolchain, "_version", lambda tool: "Cuda compilation tools, release 13.0, V13.0.88")
    with pytest.raises(ToolchainError, match=r"^/bin/ptxas is of CUDA 13, which knows no sm_62\. ptxas of CUDA 12 is"):
        assemble_all((), "sm_62")
    assert assemble_all((), "sm_90") == []


@pytest.mark.parametrize(("known", "asked"), [([50, 61, 62, 70, 90], 62), ([75, 80, 90], 75)])
def test_the_oldest_processor_that_a_compiler_knows(
    known: list[int], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Mock(nvrtcVersion=lambda: (0, 13, 0), nvrtcGetSupportedArchs=lambda: (0, known))
    fake.nvrtcCreateProgram.return_value = (0, "program")
    fake.nvrtcCompileProgram.return_value = (fake.nvrtcResult.NVRTC_SUCCESS,)
    fake.nvrtcGetPTXSize.return_value = (0, 1)
    monkeypatch.setattr(toolchain, "_nvrtc", lambda: fake)
    compile("", "nothing")
    ((_, _, flags),) = (call.args for call in fake.nvrtcCompileProgram.call_args_list)
    assert flags[0] == f"--gpu-architecture=compute_{asked}".encode()


@needs_compilers
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("route", [emit, specialised])
def test_kernels_assemble_without_spills(route: object, arch: str) -> None:
    layer = layer_of(round20(pruned((64, 16, 3, 3), 0.1)), (28, 28), pads=(1, 1, 1, 1))
    (kernel,) = emit(layer) if route is emit else specialised(layer)
    cubin = assemble(kernel.ptx, arch)
    assert cubin.spilled == 0
    assert 64 <= cubin.registers <= 128
    opcodes = disassemble(cubin)
    if opcodes is not None:
        assert opcodes.count("FFMA") == kernel.multiplies
        assert len(opcodes) == machine_instructions(cubin)
    assert len(code(cubin.image)) > 8 * kernel.multiplies


@needs_compilers
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("window", [1, 3])
def test_kernels_of_halves_assemble_without_spills(window: int, arch: str) -> None:
    own = layer_of(round20(pruned((64, 16, window, window), 0.1)), (28, 28), pads=(window // 2,) * 4)
    source, target = (replace(planes, dtype=DType.F16) for planes in (own.source, own.target))
    (kernel,) = emit(replace(own, source=source, target=target, added=target))
    cubin = assemble(kernel.ptx, arch)
    assert cubin.spilled == 0
    assert len(code(cubin.image)) > 8 * kernel.multiplies


@needs_compilers
def test_what_would_spill_gets_more_registers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(round20(pruned((64, 16, 3, 3), 0.1)), (28, 28))
    (kernel,) = emit(layer, replace(settings_of(layer), registers=64))
    cubin = assemble(kernel.ptx, "sm_62", cache=Cache(tmp_path))
    assert cubin.spilled == 0
    assert 64 < cubin.registers <= 128
    assert assemble(kernel.ptx, "sm_62", cache=Cache(tmp_path)) == cubin
    monkeypatch.setattr(toolchain, "_REGISTERS", 64 * kernel.threads)
    assert assemble(kernel.ptx, "sm_62").spilled > 0


@needs_compilers
def test_rounded_weights_need_no_constants() -> None:
    layer = layer_of(pruned((32, 16, 3, 3), 0.2), (28, 28))
    exact = assemble(emit(layer)[0].ptx, "sm_62")
    used = layer_of(round20(layer.weights), (28, 28))
    rounded = assemble(emit(used)[0].ptx, "sm_62")
    assert exact.constants > rounded.constants + 2 * np.count_nonzero(layer.weights)
    assert rounded.constants < 400
    assert machine_instructions(exact) < 1.02 * machine_instructions(rounded)


@pytest.mark.slow
@needs_compilers
def test_values_beyond_the_constant_bank_cost_an_instruction_each(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.zeros((64, 48, 3, 3), np.float32)
    rng = np.random.default_rng(0)
    weights.reshape(-1)[rng.permutation(weights.size)[:20_000]] = rng.standard_normal(20_000)
    layer = layer_of(weights, (28, 28))
    settings = replace(settings_of(layer, 16), multiplies=1 << 20)
    split = [assemble(kernel.ptx, "sm_62") for kernel in emit(layer, settings)]
    monkeypatch.setattr(slices, "MOST_VALUES", 1 << 20)
    (kernel,) = emit(layer, settings)
    whole = assemble(kernel.ptx, "sm_62")
    assert [cubin.constants < 65_536 for cubin in split] == [True, True]
    assert whole.constants > 65_536
    assert machine_instructions(whole) > sum(map(machine_instructions, split)) + 3000


@needs_compilers
def test_refused_ptx_names_the_line() -> None:
    with pytest.raises(ToolchainError, match=r"ptxas for sm_62 .*\n  line 7: ret 5;"):
        assemble(NOTHING.replace("ret;", "ret 5;"), "sm_62")


@needs_compilers
def test_refused_source_names_the_line() -> None:
    source = 'extern "C" __global__ void f(float* y)\n{\n    y[0] = z;\n}\n'
    with pytest.raises(ToolchainError, match=r"f\.cu\(3\): error.*\"z\" is undefined.*\n  line 3: y\[0\] = z;"):
        compile(source, "f.cu")


@needs_compilers
def test_memory_is_bounded() -> None:
    with pytest.raises(ToolchainError, match="memory limit 16 MiB"):
        assemble(NOTHING, "sm_62", memory=16 << 20)


@needs_compilers
def test_many_are_assembled_longest_first_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [NOTHING.replace(" e(", f" {'e' * i}(") for i in (2, 5, 1, 4, 3)]
    cache, told = Cache(tmp_path), []
    monkeypatch.setattr(toolchain, "_free_memory", lambda: 0)  # one at a time, at least
    cubins = assemble_all(sources, "sm_62", cache=cache, progress=lambda done, of: told.append((done, of)))
    sizes = sorted(map(len, sources), reverse=True)
    assert told == [(done, sum(sizes)) for done in accumulate(sizes)]
    assert all(f".text.{'e' * i}\0".encode() in cubin.image for i, cubin in zip((2, 5, 1, 4, 3), cubins, strict=True))
    monkeypatch.setattr(toolchain.subprocess, "Popen", None)  # nothing may be started any more
    assert assemble_all(sources, "sm_62", cache=cache) == cubins


@needs_compilers
def test_as_many_run_at_a_time_as_memory_and_processors_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    together, run = Barrier(2), toolchain._run
    monkeypatch.setattr(toolchain.os, "sched_getaffinity", lambda process: {0, 1, 2})
    monkeypatch.setattr(toolchain, "_free_memory", lambda: 2 * toolchain.MEMORY + 1)
    monkeypatch.setattr(toolchain, "_run", lambda *arguments: (together.wait(60), run(*arguments))[1])
    assert len(assemble_all([NOTHING.replace(" e(", f" {name}(") for name in "abcd"], "sm_62")) == 4
    monkeypatch.setattr(toolchain.os, "sched_getaffinity", lambda process: {0})
    monkeypatch.setattr(toolchain, "_run", lambda *arguments: (together.wait(0.2), run(*arguments))[1])
    with pytest.raises(BrokenBarrierError):
        assemble_all([NOTHING, NOTHING.replace(" e(", " f(")], "sm_62")


@needs_compilers
def test_what_was_assembled_before_an_error_is_kept(tmp_path: Path) -> None:
    sources = [NOTHING, NOTHING.replace("ret;", "ret 5;")]
    with pytest.raises(ToolchainError):
        assemble_all(sources, "sm_62", cache=Cache(tmp_path))
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 1
