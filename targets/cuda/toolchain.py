"""The compilers, all of them in this file: CUDA C++ to PTX by NVRTC, PTX to cubin by ptxas, cubin to text by nvdisasm.

They come as Python packages and need no GPU. ptxas runs as a process of its own, so that many can run at once and one
that needs too much memory harms nobody. CUDA 13 knows nothing before sm_75, so the packages are those of CUDA 12.9.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from targets.base import TargetError
from targets.cuda.cache import Cache
from targets.cuda.cubin import Cubin

__all__ = ["Compiled", "ToolchainError", "assemble", "assemble_all", "compile", "disassemble", "find", "missing"]

MEMORY = 2 << 30  # bytes of address space of one ptxas; entries of 32,768 multiply-adds take a seventh of that
_REGISTERS = 32_768  # of a block, on a Tegra
_LIMITS = re.compile(r"^\.maxntid (\d+), 1, 1\n\.maxnreg (\d+)$", re.MULTILINE)
_ERROR = re.compile(r"(?:ptxas .*?, line (\d+); |^\S*\((\d+)\): )(?:error|fatal)", re.MULTILINE)


class ToolchainError(TargetError):
    """A compiler is missing or refused its input; the message shows the line it refused, or what to install."""


def find(tool: str) -> str | None:
    """Where "ptxas" or "nvdisasm" is: in the package beside this Python, or on the path."""
    places = [f"{folder}/nvidia/cuda_nvcc/bin" for folder in sys.path] + [f"{sys.prefix}/bin"]
    return shutil.which(tool, path=os.pathsep.join(places)) or shutil.which(tool)


def missing(assembler: bool = True) -> str:
    """What to install so that CUDA C++ can be compiled, and assembled; empty if nothing is missing."""
    try:
        _nvrtc()
        if assembler:
            _assembler("sm_62")
    except ToolchainError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class Compiled:
    """PTX, and the seconds of a processor that it took the compiler."""

    ptx: str
    seconds: float


def compile(source: str, name: str, options: Sequence[str] = (), cache: Cache | None = None) -> Compiled:
    """CUDA C++ to PTX for the oldest processor from sm_62 on that the compiler knows; raises ToolchainError with the
    line refused."""
    nvrtc = _nvrtc()
    _, major, minor = nvrtc.nvrtcVersion()
    oldest = min(arch for arch in nvrtc.nvrtcGetSupportedArchs()[1] if arch >= 62)
    flags = [f"--gpu-architecture=compute_{oldest}", "--std=c++17", "--restrict", *options]
    key = ("nvrtc", f"{major}.{minor}", *flags, source)
    if cache is not None and (found := cache.get(key)) is not None:
        return Compiled(found[1].decode(), **found[0])
    began = time.process_time()
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            _, size = nvrtc.nvrtcGetProgramLogSize(program)
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            raise ToolchainError(_refused(f"NVRTC refused {name}", log.rstrip(b"\0 ").decode(), source))
        _, size = nvrtc.nvrtcGetPTXSize(program)
        text = b" " * size
        nvrtc.nvrtcGetPTX(program, text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    result = Compiled(text.rstrip(b"\0 ").decode(), time.process_time() - began)
    if cache is not None:
        cache.put(key, {"seconds": result.seconds}, result.ptx.encode())
        cache.trim()
    return result


def assemble(
    ptx: str, arch: str, options: Sequence[str] = (), cache: Cache | None = None, memory: int = MEMORY
) -> Cubin:
    """PTX to a cubin for `arch`, such as "sm_62"; raises ToolchainError with the line refused.

    Where registers would be spilled, a thread gets more of them than `.maxnreg` says, as long as a block has them.
    """
    tool = _assembler(arch)
    flags = ("--verbose", f"--gpu-name={arch}", *options)
    key = ("ptxas", *(field.name for field in fields(Cubin)), _version(tool), *flags, ptx)
    if cache is not None and (found := cache.get(key)) is not None:
        return Cubin(image=found[1], **found[0])
    seconds = 0.0
    for text in _eased(ptx):
        cubin = _assembled(text, arch, [tool, *flags], memory)
        seconds += cubin.seconds
        if not cubin.spilled:
            break
    cubin = replace(cubin, seconds=seconds)
    if cache is not None:
        facts = asdict(cubin)
        cache.put(key, facts, facts.pop("image"))
    return cubin


def _eased(ptx: str) -> Iterator[str]:
    """A module of one entry, and then with more and more registers a thread."""
    yield ptx
    if found := _LIMITS.search(ptx):
        most = min(255, _REGISTERS // int(found[1]))
        for registers in range(int(found[2]) + 16, most + 16, 16):
            yield f"{ptx[: found.start(2)]}{min(registers, most)}{ptx[found.end(2) :]}"


def _assembled(ptx: str, arch: str, command: Sequence[str], memory: int) -> Cubin:
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "source.ptx", Path(folder) / "result.cubin"
        source.write_text(ptx, encoding="ascii")
        status, log, seconds = _run([*command, str(source), "-o", str(result)], memory)
        if status or not result.exists():
            what = f"ptxas for {arch} ended with {status} (memory limit {memory >> 20} MiB)"
            raise ToolchainError(_refused(what, log, ptx))
        return Cubin(image=result.read_bytes(), arch=arch, seconds=seconds, **_facts(log))


def _run(command: Sequence[str], memory: int) -> tuple[int, str, float]:
    """Exit status, output and seconds of a processor of a command that may have so many bytes of address space."""
    limited = ["/bin/sh", "-c", f'ulimit -v {memory >> 10} && exec "$0" "$@"', *command]  # before it allocates anything
    with subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        log = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, log, usage.ru_utime + usage.ru_stime


def assemble_all(
    sources: Iterable[str],
    arch: str,
    options: Sequence[str] = (),
    cache: Cache | None = None,
    memory: int = MEMORY,
    progress: Callable[[int, int], None] | None = None,
) -> list[Cubin]:
    """The cubins of many modules, in order, as many at a time as there are processors and memory for, longest first.

    `progress` is told how many bytes of PTX of how many are done. What was done before an error is in the cache.
    Without a ptxas for `arch`, it is an error to assemble nothing too.
    """
    texts = list(sources)
    _assembler(arch)
    if not texts:
        return []
    done, whole = 0, sum(map(len, texts))
    workers = max(1, min(len(os.sched_getaffinity(0)), _free_memory() // memory, len(texts)))
    with ThreadPoolExecutor(workers) as pool:
        futures = {
            pool.submit(assemble, texts[i], arch, options, cache, memory): i
            for i in sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        }
        try:
            for future in as_completed(futures):
                future.result()
                done += len(texts[futures[future]])
                if progress is not None:
                    progress(done, whole)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            if cache is not None:
                cache.trim()
    return [future.result() for future in sorted(futures, key=futures.__getitem__)]


def _free_memory() -> int:
    """Bytes that can be had, by dropping what is cached of files too."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def disassemble(cubin: Cubin) -> list[str] | None:
    """Opcodes of the machine instructions, such as "FFMA", in order; None if there is no nvdisasm, which no package of
    CUDA 12 brings, but a toolkit does."""
    tool = find("nvdisasm")
    if tool is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.image)
        file.flush()
        text = subprocess.run([tool, "--print-code", file.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", text, re.MULTILINE)


def _assembler(arch: str) -> str:
    """The ptxas there is, if it knows the processor."""
    tool = find("ptxas")
    if tool is None:
        raise ToolchainError(_install("ptxas"))
    release = re.search(r"release (\d+)", _version(tool))
    if release and int(release[1]) >= 13 and int(arch[3:]) < 75:
        raise ToolchainError(f"{tool} is of CUDA {release[1]}, which knows no {arch}. {_install('ptxas of CUDA 12')}")
    return tool


def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise ToolchainError(_install("NVRTC")) from error
    return nvrtc


def _install(what: str) -> str:
    return f"{what} is missing; install it: pip install 'edgert[cuda]'"


@functools.cache
def _version(tool: str) -> str:
    """What the tool says of itself, which has all its numbers."""
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def _facts(log: str) -> dict[str, int]:
    """Registers, spills, shared memory and constants from the log of an assembler."""
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", log)
    registers, shared = re.search(r"Used (\d+) registers", log), re.search(r"(\d+) bytes smem", log)
    return {
        "registers": int(registers[1]) if registers else 0,
        "spilled": sum(map(int, spills)),
        "shared": int(shared[1]) if shared else 0,
        "constants": sum(map(int, re.findall(r"(\d+) bytes cmem", log))),
    }


def _refused(what: str, log: str, source: str) -> str:
    """The message of a compiler that refused: its first error, and the line of the source that it is about."""
    found = _ERROR.search(log)
    if found is None:
        return f"{what}: {log.strip()[:500]}"
    end = log.find("\n", found.end())
    message = log[found.start() : end if end >= 0 else None].strip()
    number = int(found[1] or found[2])
    lines = source.splitlines()
    return f"{what}: {message}\n  line {number}: {lines[number - 1].strip() if 0 < number <= len(lines) else '?'}"
