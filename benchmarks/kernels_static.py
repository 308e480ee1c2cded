"""What processors that are not at hand can make of the kernels' inner loops, by LLVM's models of their pipelines.

The kernels of each instruction set are compiled to assembly as the library is. The block of a function with the most
multiply-adds and the shortest way around back to it are its inner loop, so the sources need no marks. llvm-mca runs the
loops over and over, with all data in the first-level cache and all branches foreseen. A processor's peak is that of
multiply-adds on registers alone; additions, maxima and the like count as much as a multiply-add does. The column MACs
counts those of elements: one instruction has as many as a vector has floats, or bytes.

NVIDIA's Denver 2 has no model, neither in LLVM nor in GCC.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.report import save, table

__all__ = ["Loop", "Throughput", "add_arguments", "flags_of", "loops_of", "main", "run", "throughputs_of"]

SOURCES = Path(__file__).resolve().parents[1] / "runtime_c"
FLAGS = (
    "-std=c11",
    "-O3",
    "-g0",
    "-DNDEBUG",
    "-D_GNU_SOURCE",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-w",
    "-Iinclude",
    "-Isrc",
    "-S",
)
ITERATIONS = 200
MANY = 8  # vector operations of a loop worth a row in a function that has several
PREFERRED = (*(f"llvm-mca-{version}" for version in range(22, 15, -1)), "llvm-mca")

_FUSED = r"fml[as]\b.*\.4s|vfn?m(add|sub)\d*ps|(s|us|su)dot\b|(\{vex\} )?vpdpbusd\b"
FUSED = re.compile(_FUSED)
ARITHMETIC = re.compile(rf"{_FUSED}|(fadd|fsub|fmul|fmaxn?m?|fminn?m?)\b.*\.4s|v(add|sub|mul|max|min)ps")
VECTOR = re.compile(r"%[xyz]mm\d+|\b[vq]\d+\b")
STACK = re.compile(r"\[sp\b|\[x29\b|\(%rsp\b|\(%rbp\b")
JUMP = re.compile(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z)\s.*?(\.L\w+)$")
SIZED = re.compile(r"_\d+(x\d+)?(?=(_[A-Z][A-Z0-9]*)*(\.\w+)*$)")  # the size of a tile in a function's name
COMMENT = re.compile(r"\s*(//|# |#APP|#NO_APP).*")
SIGNED_BYTE = re.compile(r"\b0xf{14}([0-9a-f]{2})$")  # as gcc writes an immediate that LLVM takes unsigned only
LEAVES = re.compile(r"(?:jmp|b|ret|retq|br)\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Unit:
    """Kernels of one instruction set. `product`: a multiply-add into register {}; `macs`: how many it is of elements.
    `extensions`: of Armv8.2-A, which compilers take in different ways."""

    isa: str
    source: str
    triple: str
    cores: tuple[str, ...]
    product: str
    macs: int
    extensions: str = ""


ARM, X86 = "aarch64-linux-gnu", "x86_64-linux-gnu"
OLD_ARM, DOT_ARM, I8MM_ARM = (
    ("cortex-a57", "cortex-a72", "cortex-a53"),
    ("neoverse-n1", "cortex-a55"),
    ("neoverse-n2", "cortex-a510"),
)
FMLA, SDOT, USDOT = "fmla v{}.4s, v30.4s, v31.4s", "sdot v{}.4s, v30.16b, v31.16b", "usdot v{}.4s, v30.16b, v31.16b"
FMA, DPBUSD = "vfmadd231ps %{0}mm14, %{0}mm15, %{0}mm{{}}", "{{vex}} vpdpbusd %ymm14, %ymm15, %ymm{}"
UNITS = (
    Unit("neon", "simd-neon", ARM, OLD_ARM, FMLA, 4),
    Unit("neondotprod", "i8-dotprod", ARM, DOT_ARM, SDOT, 16, extensions="+dotprod"),
    Unit("neoni8mm", "i8-i8mm", ARM, I8MM_ARM, USDOT, 16, extensions="+dotprod+i8mm"),
    Unit("avx2", "simd-avx2", X86, ("haswell", "znver4"), FMA.format("y"), 8),
    Unit("avx2vnni", "i8-avxvnni", X86, ("alderlake",), DPBUSD, 32),
    Unit("avx512", "simd-avx512", X86, ("skylake-avx512", "znver4"), FMA.format("z"), 16),
)


@dataclass(frozen=True, slots=True)
class Loop:
    """The instructions of one way around a loop. `chains`: registers that vector arithmetic accumulates in."""

    name: str
    instructions: tuple[str, ...]
    operations: int  # vector arithmetic
    fused: int  # those that are multiply-adds
    chains: int
    spills: int  # vectors loaded from the stack or stored there, by address of the stack itself


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of one loop on one core. `limit`: the resource that is always busy, "dispatch", or else "latency"."""

    loop: str
    instructions: int
    chains: int
    spills: int
    operations: int
    fused: int
    cycles: float  # of one way around
    peak: float  # operations a cycle of multiply-adds alone
    limit: str

    @property
    def per_cycle(self) -> float:
        return self.operations / self.cycles

    @property
    def of_peak(self) -> float:
        """Percent."""
        return 100 * self.per_cycle / self.peak


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--isa", nargs="+", default=[unit.isa for unit in UNITS], help="instruction sets")
    parser.add_argument("--loops", default="", help="a regular expression: all of those, not only the main ones")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="another runtime_c folder")
    parser.add_argument("--output", type=Path, help="where the result goes; needed if not everything is looked at")


def run(quick: bool = False) -> None:
    """Look at all instruction sets, or at the first one."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    main(parser.parse_args(["--isa", UNITS[0].isa] if quick else []))


def main(options: argparse.Namespace) -> None:
    """Print the tables and save results/kernels_static.json."""
    mca = _mca()
    rows = []
    for unit in UNITS:
        if unit.isa not in options.isa:
            continue
        for compiler, command in _compilers(unit):
            assembly = _assembly(unit, command, options.sources)
            loops = [loop for loop in loops_of(assembly) if re.search(options.loops, loop.name)]
            for core in unit.cores:
                found = _simulate(mca, unit, core, loops)
                found = found if options.loops else _main_loops(found)
                _show(f"{unit.isa} by {compiler} on {core}", unit, found)
                rows += [{"isa": unit.isa, "compiler": compiler, "core": core, **_result(unit, row)} for row in found]
    if not rows:
        raise SystemExit(f"no loop matches --isa {' '.join(options.isa)} --loops {options.loops!r}")
    print("\nDenver 2: no model in LLVM")
    if options.output or (not options.loops and len(options.isa) == len(UNITS) and options.sources == SOURCES):
        save("kernels_static", {"llvm_mca": _version(mca), "loops": rows}, options.output)
    else:
        print("only a part was looked at: not saved (--output FILE)")


def loops_of(assembly: str) -> Iterator[Loop]:
    """The inner loops of all functions in assembly (GNU syntax; of x86 AT&T's operand order)."""
    for name, blocks in _functions(assembly):
        weights = [(_count(FUSED, block.body), _count(ARITHMETIC, block.body)) for block in blocks]
        found: list[Loop] = []
        seen: set[int] = set()
        for start in sorted(range(len(blocks)), key=lambda i: weights[i], reverse=True):
            if found and (weights[start][1] < MANY or SIZED.search(name)):
                break
            if weights[start][1] == 0:
                continue
            around = _shortest_cycle(blocks, start)
            if not seen.isdisjoint(around):
                continue
            seen.update(around)
            found.append(_loop(name, tuple(line for i in around for line in blocks[i].body)))
        for number, loop in enumerate(found):
            yield loop if len(found) == 1 else replace(loop, name=f"{name}#{number + 1}")


def throughputs_of(report: str, loops: Sequence[Loop]) -> list[Throughput]:
    """From llvm-mca's JSON. Its first region is the peak loop of a core; the others are the loops in order."""
    regions = json.loads(report)["CodeRegions"]
    resources = json.loads(report)["TargetInfo"]["Resources"]
    assert len(regions) == len(loops) + 1
    summary = regions[0]["SummaryView"]
    peak = summary["Instructions"] / summary["TotalCycles"]
    found = []
    for loop, region in zip(loops, regions[1:], strict=True):
        summary = region["SummaryView"]
        cycles = summary["TotalCycles"] / summary["Iterations"]
        usage = {"dispatch": summary["TotaluOps"] / summary["Iterations"] / summary["DispatchWidth"]}
        for info in region["ResourcePressureView"]["ResourcePressureInfo"]:
            if info["InstructionIndex"] == len(region["Instructions"]):  # the sums over one way around
                usage[resources[info["ResourceIndex"]]] = info["ResourceUsage"]
        busiest = max(usage, key=lambda name: usage[name])
        limit = busiest if usage[busiest] >= 0.9 * cycles else "latency"
        found.append(
            Throughput(
                loop=loop.name,
                instructions=len(loop.instructions),
                chains=loop.chains,
                spills=loop.spills,
                operations=loop.operations,
                fused=loop.fused,
                cycles=cycles,
                peak=peak,
                limit=limit,
            )
        )
    return found


@dataclass(slots=True)
class _Block:
    body: list[str]
    next: list[int]


def _functions(assembly: str) -> Iterator[tuple[str, list[_Block]]]:
    """Each function's name and its basic blocks."""
    names = set(re.findall(r"\.type\s+(\w[\w.]*), *[@%]function", assembly))
    name, lines = "", list[str]()
    for raw in assembly.splitlines():
        line = COMMENT.sub("", raw).strip()
        if line.endswith(":") and line[:-1] in names:
            if lines:
                yield name, _blocks(lines)
            name, lines = line[:-1], []
        elif name and line and (line.endswith(":") or not line.startswith(".")):
            lines.append(SIGNED_BYTE.sub(r"0x\1", re.sub(r"\s+", " ", line)))
    if lines:
        yield name, _blocks(lines)


def _blocks(lines: Sequence[str]) -> list[_Block]:
    blocks, labels = [_Block([], [])], dict[str, int]()
    for line in lines:
        if line.endswith(":"):
            if blocks[-1].body:
                blocks.append(_Block([], []))
            labels[line[:-1]] = len(blocks) - 1
        else:
            blocks[-1].body.append(line)
            if JUMP.match(line) or LEAVES.match(line):
                blocks.append(_Block([], []))
    for i, block in enumerate(blocks):
        last = block.body[-1] if block.body else ""
        jump = JUMP.match(last)
        if jump and jump[1] in labels:
            block.next.append(labels[jump[1]])
        if not LEAVES.match(last) and i + 1 < len(blocks):
            block.next.append(i + 1)
    return blocks


def _shortest_cycle(blocks: Sequence[_Block], start: int) -> list[int]:
    """The blocks from `start` back to it with the fewest instructions; `start` alone if there is no way back."""
    queue: list[tuple[int, int, list[int]]] = [(0, i, [start]) for i in blocks[start].next]
    heapq.heapify(queue)
    done = set()
    while queue:
        length, at, way = heapq.heappop(queue)
        if at == start:
            return way
        if at not in done:
            done.add(at)
            for i in blocks[at].next:
                heapq.heappush(queue, (length + len(blocks[at].body), i, [*way, at]))
    return [start]


def _loop(name: str, instructions: tuple[str, ...]) -> Loop:
    fused, operations = _count(FUSED, instructions), _count(ARITHMETIC, instructions)
    chains = set()
    for line in filter((FUSED if fused else ARITHMETIC).match, instructions):
        registers = VECTOR.findall(line)
        chains.add(registers[-1] if "%" in line else registers[0])
    spills = sum(1 for line in instructions if STACK.search(line) and VECTOR.search(line))
    return Loop(name, instructions, operations, fused, len(chains), spills)


def _count(pattern: re.Pattern[str], lines: Sequence[str]) -> int:
    return sum(1 for line in lines if pattern.match(line))


def _mca() -> str:
    for name in PREFERRED:
        if found := shutil.which(name):
            return found
    raise SystemExit(
        "kernels_static needs llvm-mca: apt install llvm-16, or a later version: it is the first with Zen 4"
    )


def _version(mca: str) -> str:
    printed = subprocess.run([mca, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\S+)", printed)
    return found[1] if found else "unknown"


def _compilers(unit: Unit) -> list[tuple[str, list[str]]]:
    """Names and commands of what the library is built with for this instruction set."""
    gcc = shutil.which(f"{unit.triple}-gcc")
    march = [f"-march=armv8.2-a{unit.extensions}"] if unit.extensions else []
    found = [("gcc", [gcc, *march])] if gcc else []
    zig = shutil.which("python-zig") or shutil.which("python-zig", path=str(Path(sys.executable).parent))
    if zig and (unit.triple == ARM or not gcc):
        mcpu = [f"-mcpu=generic{unit.extensions}"] if unit.extensions else []
        found.insert(0, ("zig", [zig, "cc", "-target", f"{unit.triple}.2.27", *mcpu]))
    if not found:
        raise SystemExit(f"kernels_static needs a compiler for {unit.triple}: pip install ziglang")
    return found


def flags_of(unit: Unit, sources: Path) -> list[str]:
    """What the build compiles the kernels with; those of Arm depend on the compiler there, as `extensions` do here."""
    build = (sources / "cmake" / "sources.cmake").read_text()
    found = re.search(rf"src/kernels/simd/{unit.source}\.c([^)]*)\)", build)
    if found is None:
        raise SystemExit(f"cmake/sources.cmake of {sources} does not build src/kernels/simd/{unit.source}.c")
    return [flag for flag in found[1].split() if not flag.startswith("${")]


def _assembly(unit: Unit, compiler: Sequence[str], sources: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.s"
        command = [*compiler, *FLAGS, *flags_of(unit, sources), f"src/kernels/simd/{unit.source}.c", "-o", str(path)]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"cannot compile the {unit.isa} kernels: {' '.join(command)}\n{done.stderr}")
        return path.read_text()


def _simulate(mca: str, unit: Unit, core: str, loops: Sequence[Loop]) -> list[Throughput]:
    bodies = [[unit.product.format(i) for i in range(14)] * 4, *(loop.instructions for loop in loops)]
    text = "".join(
        f"# LLVM-MCA-BEGIN {i}\n" + "\n".join(body) + "\n# LLVM-MCA-END\n"  # at line starts a comment anywhere
        for i, body in enumerate(bodies)
    )
    command = [mca, f"-mtriple={unit.triple}", f"-mcpu={core}", f"-iterations={ITERATIONS}", "-json", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed; does this llvm-mca know {core}?\n{done.stderr[:2000]}")
    return throughputs_of(done.stdout, loops)


def _macs(unit: Unit, row: Throughput) -> float:
    """Multiply-adds of elements a cycle."""
    return unit.macs * row.fused / row.cycles


def _result(unit: Unit, row: Throughput) -> dict[str, object]:
    found = {"per_cycle": round(row.per_cycle, 3), "macs_per_cycle": round(_macs(unit, row), 2)}
    return {**asdict(row), **found, "percent_of_peak": round(row.of_peak, 1)}


def _main_loops(rows: Sequence[Throughput]) -> list[Throughput]:
    """Of a function of several sizes the best, of others the one with the most work; and all that spill."""
    best: dict[str, Throughput] = {}
    for row in rows:
        family = SIZED.sub("", row.loop.split("#")[0])
        if family not in best or (SIZED.search(row.loop) and _worth(row) > _worth(best[family])):
            best[family] = row
    return [row for row in rows if row.spills or row in best.values()]


def _worth(row: Throughput) -> tuple[float, float]:
    """Multiply-adds a cycle, then operations of all kinds."""
    return row.fused / row.cycles, row.per_cycle


def _show(title: str, unit: Unit, rows: Sequence[Throughput]) -> None:
    header = [
        "loop",
        "chains",
        "instructions",
        "spills",
        "operations",
        "cycles",
        "a cycle",
        "MACs",
        "% of peak",
        "limit",
    ]
    shown: list[list[object]] = []
    for r in rows:
        counts = [r.chains, r.instructions, r.spills, r.operations]
        shown.append([r.loop, *counts, r.cycles, r.per_cycle, _macs(unit, r), r.of_peak, r.limit])
    table(title, header, shown)
