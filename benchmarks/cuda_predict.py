"""What whole networks are predicted to take on a board's GPU, float32 and halves stored, beside what others published.

Nothing is run: times are those of targets/cuda/costs, of which the planner's choices are made, and with --kernels those
of targets/cuda/model, counted in the kernels of some networks' programs. No device has confirmed either.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.networks import NAMES, network_file, nonzero_flops
from benchmarks.report import save, table
from edgert.decisions import parse_plan
from packer.bundle.model import Place, Program, Step
from packer.importers import import_onnx
from packer.passes import optimize
from packer.planner import make_plans
from targets.base import DEVICE_KERNELS, resolve, stored_bytes
from targets.cuda.board import BOARDS, Board
from targets.cuda.kernel import Kernel
from targets.cuda.model import count, predict

__all__ = ["PUBLISHED", "Row", "add_arguments", "main", "run"]

NETWORKS = ("squeezenet", "inception_v1", "inception_v2", "mobilenet_v1", "mobilenet_v2", "resnet50", "vgg19")
STORAGES = ("f32", "f16")
# TensorRT on the Jetson TX2, milliseconds with float and with half: NVIDIA-AI-IOT/tf_to_trt_image_classification at
# 0aced03, README.md; with copies to the GPU and back, one image. VGG-16 stands beside VGG-19, which has 1.27 times as
# many products; Inception v2 is in a comment of that page.
SOURCE = "github.com/NVIDIA-AI-IOT/tf_to_trt_image_classification, README.md at 0aced03"
PUBLISHED = {
    "inception_v1": (12.8, 7.98),
    "inception_v2": (16.9, 10.3),
    "mobilenet_v1": (12.9, 12.9),
    "resnet50": (27.1, 15.7),
    "vgg19": (79.2, 38.2),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One network; times in milliseconds. `predicted` is the planner's sum, of which `moving` are copies and `bounds`
    what kernels are limited by; `kernels` the model's (None: not asked for); `published` TensorRT's with dense weights
    (None: nothing found). `tiers` counts convolutions; `gflop` are operations on weights that are not zero."""

    network: str
    zeros: int
    storage: str
    predicted: float
    moving: float
    bounds: dict[str, float]
    tiers: dict[str, int]
    kernels: float | None
    published: float | None
    gflop: float
    seconds: float


def measure(name: str, zeros: int, storage: str, board: str, kernels: bool) -> Row:
    """Plan a network, and with `kernels` look at those."""
    began = time.perf_counter()
    path = network_file(name, zeros)
    target = resolve(board, activations=storage)
    (plan,) = make_plans(optimize(import_onnx(path, shapes={}, constants={})), target, (1,))
    found = parse_plan(plan.explain())
    bounds: Counter[str] = Counter()
    for d in found.decisions:
        bounds[d.bound if d.on_device else "CPU"] += d.compute / 1e6
    tiers = Counter(d.algorithm.partition(" ")[0] for d in found.decisions if d.operator == "Conv" and d.on_device)
    return Row(
        name,
        zeros,
        storage,
        found.nanoseconds / 1e6,
        sum(d.adjust for d in found.decisions) / 1e6,
        {bound: spent for bound, spent in bounds.most_common() if spent},
        dict(tiers),
        modelled(plan.program(), BOARDS[board]) if kernels else None,
        PUBLISHED[name][STORAGES.index(storage)] if name in PUBLISHED and not zeros else None,
        nonzero_flops(path) / 1e9,
        time.perf_counter() - began,
    )


def modelled(program: Program, board: Board) -> float:
    """Milliseconds of all kernels of a program, by the model."""
    return 1e3 * sum(_step(program, step, board) for step in program.steps if step.kernel in DEVICE_KERNELS)


def _step(program: Program, step: Step, board: Board) -> float:
    own = {attribute.name: attribute for attribute in step.attributes}
    operands = [program.tensors[i] for i in (*step.inputs, *step.outputs) if i >= 0]
    constants = [t.data if t.place is Place.SEGMENT else None for t in operands]
    sizes = [stored_bytes(t.type, t.layout, t.halo) for t in operands]
    seconds = 0.0
    for number, (name, module) in enumerate(zip(own["entries"].text.split(","), own["module"].ints, strict=True)):
        x, y, z = own["grid"].ints[3 * number : 3 * number + 3]
        kernel = Kernel(name, program.modules[module].ptx, (x, y, z), own["threads"].ints[number])
        seconds += predict(kernel, count(kernel, constants), board, sizes).seconds
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--zeros", nargs="+", type=int, default=[0, 90], metavar="PERCENT")
    parser.add_argument("--board", choices=list(BOARDS), default="jetson")
    parser.add_argument("--kernels", nargs="+", choices=NAMES, default=[], metavar="NAME", help="look at their kernels")
    parser.add_argument("--output", type=Path, help="where to save results (results/cuda_predict.json)")


def main(arguments: argparse.Namespace) -> None:
    own = arguments
    run(False, own.networks, own.zeros, own.board, own.kernels, own.output)


def run(
    quick: bool = False,
    networks: Sequence[str] = NETWORKS,
    zeros: Sequence[int] = (0, 90),
    board: str = "jetson",
    kernels: Sequence[str] = (),
    output: Path | None = None,
) -> None:
    """Print the table and save results/cuda_predict.json."""
    cases = [
        (name, z, storage) for name in (networks[:1] if quick else networks) for z in zeros for storage in STORAGES
    ]
    rows = []
    for name, z, storage in cases:
        rows.append(measure(name, z, storage, board, name in kernels))
        table(f"{name}, predicted for {board}", _HEADER, [_cells(rows[-1])])
    if board != "jetson":
        rows = [replace(row, published=None) for row in rows]
    table(
        f"PREDICTED for {board}, not measured; published: TensorRT, dense ({SOURCE})", _HEADER, list(map(_cells, rows))
    )
    if quick and output is None:
        print("only a part was looked at: not saved (--output FILE)")
        return
    save("cuda_predict", {"board": board, "source": SOURCE, "rows": [asdict(row) for row in rows]}, output)


_HEADER = ("network", "zeros %", "stored", "ms", "moving", "kernels ms", "published ms", "GFLOP", "tiers", "bounds")


def _cells(row: Row) -> list[object]:
    spent = sum(row.bounds.values())
    return [
        row.network,
        row.zeros,
        row.storage,
        row.predicted,
        row.moving,
        "-" if row.kernels is None else row.kernels,
        "-" if row.published is None else row.published,
        row.gflop,
        " ".join(f"{tier}:{count}" for tier, count in sorted(row.tiers.items())),
        " ".join(f"{bound} {part / spent:.0%}" for bound, part in row.bounds.items() if part > 0.02 * spent),
    ]
