"""CPU targets: every TOML file beside this one is a board; programs differ only in the architecture they name."""

from __future__ import annotations

import math
import platform
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from packer.ir import DType, Graph, Node, TensorType
from packer.ir.ops import Conv, MatMul, Part
from packer.ir.rounding import nearest
from targets.base import Form, Layout, Lowered, Target, TargetError, Work
from targets.cpu import host
from targets.cpu.cost import reorder_seconds, seconds
from targets.cpu.cost.weights import weights
from targets.cpu.forms import forms
from targets.cpu.lower import lower, lower_sum, reorder
from targets.cpu.precision import SETTINGS as PRECISIONS
from targets.cpu.precision import noise_of, stored_type
from targets.cpu.restrict import grain, restrict, splittable, work
from targets.cpu.spacing import spaced
from targets.cpu.winograd import SETTINGS as WINOGRAD
from targets.machine import Machine

__all__ = ["SETTINGS", "TARGETS", "CpuTarget", "create"]

SETTINGS = ("winograd", "precision")  # of create

_BOARDS = {
    board["name"]: board
    for board in (tomllib.loads(p.read_text(encoding="utf-8")) for p in sorted(Path(__file__).parent.glob("*.toml")))
}
TARGETS: dict[str, str] = {name: board["description"] for name, board in _BOARDS.items()}


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A CPU: float32 kernels over planar and channel-blocked tensors."""

    name: str
    arch: str
    description: str
    machine: Machine
    core_counts: tuple[int, ...]
    winograd: str = "strict"  # which of its algorithms: a key of WINOGRAD
    precision: str = "f32"  # what weights may be rounded to: a key of PRECISIONS
    avx512: bool = False  # its processors have AVX-512, of which kernels make instructions,
    vnni: bool = False  # and products of bytes among those

    def on(self, machine: Machine) -> CpuTarget:
        return replace(self, machine=machine)

    def forms(self, graph: Graph, node: Node) -> tuple[Form, ...]:
        return forms(graph, node, self.machine, self.winograd, self.precision, self.avx512, self.vnni)

    def seconds(self, work: Work, form: Form, distances: Sequence[int], core: int, active: int) -> float:
        return seconds(self.machine, work, form, distances, core, active)

    def bound(self, work: Work, form: Form) -> str:
        return ""

    def weights(self, work: Work, form: Form) -> float:
        return weights(work, form)

    def reorder_seconds(self, type: TensorType, source: Layout, destination: Layout, core: int, active: int) -> float:
        return reorder_seconds(self.machine, type, source, destination, core, active)

    def grain(self, graph: Graph, node: Node) -> tuple[int, ...]:
        return grain(graph, node)

    def work(self, graph: Graph, node: Node, form: Form) -> tuple[tuple[int, np.ndarray], ...]:
        return work(graph, node, form, self.machine)

    def splittable(self, graph: Graph, node: Node, form: Form) -> bool:
        return splittable(graph, node, form)

    def spaced(self, type: TensorType) -> TensorType:
        return TensorType(type.dtype, spaced(type.shape, type.dtype.bytes))

    def lower(self, graph: Graph, node: Node, form: Form) -> Lowered:
        return lower(graph, node, form, self.machine)

    def restrict(self, graph: Graph, node: Node, form: Form, lowered: Lowered, part: Part) -> Lowered:
        return restrict(graph, node, form, lowered, part)

    def reorder(self, graph: Graph, name: str, type: TensorType, source: Layout, destination: Layout) -> Lowered:
        return reorder(destination)

    def stored(self, graph: Graph, name: str) -> tuple[DType, tuple[int, ...]]:
        return graph.type(name).dtype, ()

    @property
    def device(self) -> str:
        return ""

    @property
    def attends(self) -> bool:
        return True

    @property
    def fallback(self) -> str:
        return ""

    @property
    def budget(self) -> float:
        return math.inf

    def keeping(self, exact: frozenset[str]) -> CpuTarget:
        return self

    def rounded(self, graph: Graph, node: Node, form: Form) -> np.ndarray | None:
        dtype = stored_type(form.implementation)
        weights = graph.constant(node.inputs[1]) if isinstance(node.op, Conv | MatMul) else None
        return None if weights is None or dtype is DType.F32 else nearest(weights, dtype)

    def noise(self, form: Form) -> float:
        return noise_of(form.implementation)

    def narrows(self, form: Form) -> bool:
        return False

    def assemble(
        self, modules: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> tuple[bytes | None, ...]:
        return (None,) * len(modules)

    def lower_sum(self, node: Node, layout: Layout) -> tuple[Lowered, tuple[str, ...]]:
        return lower_sum(node)


def create(name: str, winograd: str = "strict", precision: str = "f32") -> Target:
    """The CPU target called `name`, a key of TARGETS; raises TargetError for an unknown setting."""
    if winograd not in WINOGRAD:
        raise TargetError(f"winograd: expected {', '.join(WINOGRAD)}, got '{winograd}'")
    if precision not in PRECISIONS:
        raise TargetError(f"precision: expected {', '.join(PRECISIONS)}, got '{precision}'")
    board = _BOARDS[name]
    arch = platform.machine() if board["arch"] == "host" else board["arch"]
    known = host.machine() if board["machine"] == "host" else board["machine"]
    machine, cores = Machine.load(known), tuple(board["cores"])
    avx512 = {"yes": True, "host": host.has_avx512()}.get(board.get("avx512", ""), False)
    vnni = {"yes": True, "host": host.has_vnni()}.get(board.get("vnni", ""), False)
    return CpuTarget(name, arch, board["description"], machine, cores, winograd, precision, avx512, vnni)
