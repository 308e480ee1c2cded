"""What it takes to make sparse kernels for a GPU, and what they are: ten convolutions, three routes, no GPU needed.

"template" is the published route, CUDA C++ -> PTX -> instructions deleted; "direct" emits PTX from the loop nest;
"half2" does so for two pixels at a time in halves, so that an instruction multiplies and adds for both.
Seconds are those of a processor; results of compilers are kept in benchmarks/.cache/cuda, with what they took, so that
an interrupted run goes on where it was. "deleted" compares with the kernels of a dense layer.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.cuda_operators import OPERATORS, layer
from benchmarks.report import save, table
from targets.cuda.cache import Cache
from targets.cuda.cubin import Cubin, code, machine_instructions
from targets.cuda.emit import emit, settings_of
from targets.cuda.kernel import Kernel
from targets.cuda.layer import ConvLayer
from targets.cuda.rounding import rounded
from targets.cuda.slices import channels_a_thread
from targets.cuda.template import specialised
from targets.cuda.template.shape import shape_of
from targets.cuda.toolchain import assemble, disassemble, missing

__all__ = ["Row", "add_arguments", "main", "measure", "run"]

CACHE = Cache(Path(__file__).resolve().parent / ".cache" / "cuda")
# route -> how opcodes of its multiply-adds begin
ROUTES = {"direct": ("FFMA",), "template": ("FFMA",), "half2": ("HFMA2", "HMUL2")}
_PADDING = ("NOP",)


@dataclass(frozen=True, slots=True)
class Row:
    """One operator by one route; times in seconds of a processor, sizes in bytes, `share` of multiply-adds in the
    machine instructions (None: no disassembler). `compiler` is the time of CUDA C++ -> PTX, once for a shape."""

    operator: str
    sparsity: float
    route: str
    arch: str
    entries: int
    compiler: float
    generation: float
    assembler: float
    slowest: float
    ptx: int
    cubin: int
    code: int
    multiplies: int
    deleted_ptx: int
    deleted_machine: int | None
    registers: int
    spilled: int
    constants: int
    share: float | None


def measure(name: str, sparsity: float, route: str, arch: str, rounding: str, dense: bool) -> Row:
    """Generate and assemble the kernels of an operator; with `dense`, also those with all multiply-adds kept."""
    own = _rounded(layer(name, sparsity), rounding)
    channels = channels_a_thread(own.weights)
    compiler = _compiler(own) if route == "template" else 0.0
    began = time.process_time()
    kernels = _kernels(own, route, channels)
    generation = time.process_time() - began
    cubins = [assemble(kernel.ptx, arch, cache=CACHE) for kernel in kernels]
    multiplies = sum(kernel.multiplies for kernel in kernels)
    deleted = None
    if dense:
        every = _kernels(_rounded(layer(name, 0), rounding), route, channels)
        full = [assemble(kernel.ptx, arch, cache=CACHE) for kernel in every]
        deleted = sum(map(machine_instructions, full)) - sum(map(machine_instructions, cubins))
    return Row(
        name,
        sparsity,
        route,
        arch,
        len(kernels),
        compiler,
        generation,
        sum(cubin.seconds for cubin in cubins),
        max(cubin.seconds for cubin in cubins),
        sum(len(kernel.ptx) for kernel in kernels),
        sum(len(cubin.image) for cubin in cubins),
        sum(len(code(cubin.image)) for cubin in cubins),
        multiplies,
        own.weights.size - multiplies,
        deleted,
        max(cubin.registers for cubin in cubins),
        sum(cubin.spilled for cubin in cubins),
        max(cubin.constants for cubin in cubins),
        _share(cubins, route),
    )


def _rounded(own: ConvLayer, rounding: str) -> ConvLayer:
    return replace(own, weights=rounded(own.weights) if rounding == "20bit" else own.weights)


def _kernels(own: ConvLayer, route: str, channels: int) -> list[Kernel]:
    if route == "template":
        return specialised(own, channels, CACHE)
    return emit(own, settings_of(own, channels, "half2" if route == "half2" else "float32"))


def _compiler(own: ConvLayer) -> float:
    """Seconds that the compiler took for the templates of a layer."""
    sizes = {len(kernel.channels[0]) for kernel in specialised(own, cache=CACHE)}
    return sum(shape_of(own, size).compile(CACHE).seconds for size in sizes)


def _share(cubins: Sequence[Cubin], route: str) -> float | None:
    counts: Counter[str] = Counter()
    for cubin in cubins:
        opcodes = disassemble(cubin)
        if opcodes is None:
            return None
        counts.update(opcode for opcode in opcodes if opcode not in _PADDING)
    return sum(count for opcode, count in counts.items() if opcode.startswith(ROUTES[route])) / counts.total()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operators", nargs="+", choices=list(OPERATORS), default=list(OPERATORS), metavar="NAME")
    parser.add_argument("--sparsity", nargs="+", type=float, default=[0.5, 0.9], metavar="SHARE")
    parser.add_argument("--route", nargs="+", choices=list(ROUTES), default=list(ROUTES), metavar="NAME")
    parser.add_argument("--arch", nargs="+", default=["sm_62"], metavar="SM")
    parser.add_argument("--weight-rounding", choices=("off", "20bit"), default="20bit")
    parser.add_argument("--dense", action="store_true", help="count deleted machine instructions too")
    parser.add_argument("--output", type=Path, help="where to save results (results/cuda_codegen.json)")


def main(arguments: argparse.Namespace) -> None:
    own = arguments
    run(False, own.operators, own.sparsity, own.route, own.arch, own.weight_rounding, own.dense, own.output)


def run(
    quick: bool = False,
    operators: Sequence[str] = tuple(OPERATORS),
    sparsities: Sequence[float] = (0.5, 0.9),
    routes: Sequence[str] = tuple(ROUTES),
    architectures: Sequence[str] = ("sm_62",),
    rounding: str = "20bit",
    dense: bool = False,
    output: Path | None = None,
) -> None:
    """Print the tables and save results/cuda_codegen.json."""
    if what := missing():
        print(f"cuda_codegen: {what}")
        return
    if quick:
        operators, sparsities = operators[:2], (0.9,)
    cases = [(o, s, r, a) for a in architectures for s in sparsities for o in operators for r in routes]
    rows = [measure(*case, rounding, dense) for case in cases]
    for arch in architectures:
        for sparsity in sparsities:
            own = [row for row in rows if (row.arch, row.sparsity) == (arch, sparsity)]
            table(f"{arch}, {sparsity:.2f} of the weights zero, rounding {rounding}", _HEADER, list(map(_cells, own)))
    save("cuda_codegen", {"rounding": rounding, "rows": [asdict(row) for row in rows]}, output)


_HEADER = (
    "operator",
    "route",
    "entries",
    "CUDA->PTX s",
    "generate s",
    "ptxas s",
    "slowest s",
    "PTX KB",
    "cubin KB",
    "multiplies",
    "deleted PTX",
    "machine",
    "registers",
    "spills",
    "share",
)


def _cells(row: Row) -> list[object]:
    return [
        row.operator,
        row.route,
        row.entries,
        row.compiler,
        row.generation,
        row.assembler,
        row.slowest,
        round(row.ptx / 1024),
        round(row.cubin / 1024),
        row.multiplies,
        row.deleted_ptx,
        "-" if row.deleted_machine is None else row.deleted_machine,
        row.registers,
        row.spilled,
        "-" if row.share is None else row.share,
    ]
