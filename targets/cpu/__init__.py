"""CPU targets: every TOML file beside this one is a board; programs differ only in the architecture they name."""

from __future__ import annotations

import platform
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packer.ir import Graph, Node, TensorType
from targets.base import Form, Layout, Lowered, Target
from targets.cpu.forms import forms
from targets.cpu.lower import lower, reorder

__all__ = ["TARGETS", "CpuTarget", "create"]

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

    def forms(self, graph: Graph, node: Node) -> tuple[Form, ...]:
        return forms(graph, node)

    def lower(self, graph: Graph, node: Node, form: Form) -> Lowered:
        return lower(graph, node, form)

    def reorder(self, type: TensorType, source: Layout, destination: Layout) -> tuple[Lowered, float]:
        return reorder(type, source, destination)


def create(name: str) -> Target:
    """The CPU target called `name`, a key of TARGETS."""
    board = _BOARDS[name]
    arch = platform.machine() if board["arch"] == "host" else board["arch"]
    return CpuTarget(name, arch, board["description"])
