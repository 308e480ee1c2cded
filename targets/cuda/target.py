"""A GPU beside a processor as one target: each operator runs where, and in the tier in which, it costs least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from packer.ir import DType, Graph, Node, TensorType
from packer.ir.ops import Concat, Part
from targets.base import Form, Layout, Lowered, Target, TargetError, Work, resolve
from targets.cuda import convolution, lower
from targets.cuda.board import BOARDS, Board
from targets.cuda.cache import Cache
from targets.cuda.cost import bound, move_seconds, seconds
from targets.cuda.pooling import conv_before, pool_behind
from targets.cuda.ranking import pooled, tier_of, ways
from targets.cuda.rounding import budget_of
from targets.cuda.state import State
from targets.cuda.toolchain import assemble_all, missing
from targets.machine import Machine

__all__ = ["SETTINGS", "CudaTarget", "create"]

SETTINGS = (  # of create
    "winograd", "precision", "weight_rounding", "activations", "placement", "device_code", "cuda_route",
)  # fmt: skip

_UNCUT = (1 << 40,) * 8  # grain of forms that run as a whole
_FUSED = "fused"  # the implementation of what the kernels before it do
_REGISTERS = (Layout.REGISTERS,)
_TIERS = ("t1", "t1c", "t1h", "t2", "t3", lower.GENERIC, _FUSED)
_STORAGES = {"f32": DType.F32, "f16": DType.F16}
_ALL_BITS = 70  # of the first sm whose immediates have 32 bits
_PLACEMENTS = ("cost", "device")
_CODES = ("cubin", "ptx")


@dataclass(frozen=True, slots=True)
class CudaTarget:
    """A board. `budget` bounds what rounding weights to immediates does, `exact` are those that are not rounded;
    `storage` is how floats are stored on the device. `placement` is "cost", or "device" for all that can run there;
    with `device_code` "ptx" there is no machine code. With `halves` products may be of float16. Straight-line code
    comes by the `route` "direct" or "template"."""

    board: Board
    cpu: Target
    budget: float
    storage: DType
    placement: str
    device_code: str
    halves: bool
    route: str
    exact: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.board.name

    @property
    def arch(self) -> str:
        return self.board.arch

    @property
    def description(self) -> str:
        return self.board.description

    @property
    def device(self) -> str:
        return self.board.device

    @property
    def attends(self) -> bool:
        return False

    @property
    def fallback(self) -> str:
        return self.board.cpu

    @property
    def machine(self) -> Machine:
        return self.cpu.machine

    @property
    def core_counts(self) -> tuple[int, ...]:
        return (1,)

    def on(self, machine: Machine) -> CudaTarget:
        return replace(self, cpu=self.cpu.on(machine))

    def forms(self, graph: Graph, node: Node) -> tuple[Form, ...]:
        state = State(graph, self.storage)
        tiers = convolution.tiers(graph, node, self.halves, self.route)
        found = self._ways(graph, node, tiers)
        if not tiers and lower.runs(state, node):
            found = (lower.GENERIC,)
        inputs = tuple(
            Layout.PLANAR if name is None or graph.constant(name) is not None else Layout.PLANES for name in node.inputs
        )
        outputs = (Layout.PLANES,) * len(node.outputs)
        empty = any(not graph.type(name).elements for name in (*node.inputs, *node.outputs) if name is not None)
        if empty or Layout.PLANES not in inputs:
            found = ()
        uncut = _UNCUT[: graph.type(node.outputs[0]).rank]
        own = tuple(Form(inputs, outputs, way, uncut, tier_of(way)) for way in found)
        if found and tiers and (behind := pool_behind(graph, node, self.storage)):
            names = (pooled(way, behind[0]) for way in self._ways(graph, node, tiers, behind[0]))
            own += tuple(Form(inputs, _REGISTERS, name, uncut, tier_of(name)) for name in names)
        before = conv_before(graph, node)
        if before is not None and any(form.outputs == _REGISTERS for form in self.forms(graph, before)):
            own += (Form(_REGISTERS, outputs, _FUSED, uncut, lower.GENERIC),)
        return own if own and self.placement == "device" else (*own, *self.cpu.forms(graph, node))

    def _ways(self, graph: Graph, node: Node, tiers: Sequence[str], pool: str = "") -> tuple[str, ...]:
        """The ways to make a convolution in some tiers, perhaps with the pool behind it."""
        if not tiers:
            return ()
        layer = convolution.geometry_of(graph, node, self.storage, pool)
        return tuple(way for tier in tiers for way in ways(self.board, layer, tier))

    def seconds(self, work: Work, form: Form, distances: Sequence[int], core: int, active: int) -> float:
        if form.implementation == _FUSED:
            return 0.0
        if _on_device(form):
            return seconds(self.board, work, form.implementation, self.storage)
        return self.cpu.seconds(work, form, distances, core, active)

    def bound(self, work: Work, form: Form) -> str:
        if _on_device(form):
            return bound(self.board, work, form.implementation, self.storage)
        return self.cpu.bound(work, form)

    def weights(self, work: Work, form: Form) -> float:
        return 0.0 if _on_device(form) else self.cpu.weights(work, form)

    def reorder_seconds(self, type: TensorType, source: Layout, destination: Layout, core: int, active: int) -> float:
        here, there = (
            Layout.PLANAR if layout is Layout.PLANES else layout for layout in (source, destination)
        )  # by way of which
        found = move_seconds(self.board, type.elements) if Layout.PLANES in (source, destination) else 0.0
        if here is not there:
            found += self.cpu.reorder_seconds(type, here, there, core, active)
        return found

    def grain(self, graph: Graph, node: Node) -> tuple[int, ...]:
        return self.cpu.grain(graph, node)

    def work(self, graph: Graph, node: Node, form: Form) -> tuple[tuple[int, np.ndarray], ...]:
        return () if _on_device(form) else self.cpu.work(graph, node, form)

    def splittable(self, graph: Graph, node: Node, form: Form) -> bool:
        return _on_device(form) or self.cpu.splittable(graph, node, form)

    def spaced(self, type: TensorType) -> TensorType:
        return type  # copies between host and device take no views with gaps

    def stored(self, graph: Graph, name: str) -> tuple[DType, tuple[int, ...]]:
        state = State(graph, self.storage)
        return state.dtype(name), state.halo(name)

    def lower(self, graph: Graph, node: Node, form: Form) -> Lowered:
        if _on_device(form):
            state, exact = State(graph, self.storage), self._exact(node)
            return lower.lower(state, node, form.implementation, self.board, exact, self.route)
        return self.cpu.lower(graph, node, form)

    def restrict(self, graph: Graph, node: Node, form: Form, lowered: Lowered, part: Part) -> Lowered:
        if not _on_device(form):
            return self.cpu.restrict(graph, node, form, lowered, part)
        assert isinstance(node.op, Concat)  # all else is uncut
        return lower.lower_join(State(graph, self.storage), node, part)

    def reorder(self, graph: Graph, name: str, type: TensorType, source: Layout, destination: Layout) -> Lowered:
        if Layout.PLANES in (source, destination):
            return lower.transfer(State(graph, self.storage), name, type, destination is Layout.PLANES)
        return self.cpu.reorder(graph, name, type, source, destination)

    def lower_sum(self, node: Node, layout: Layout) -> tuple[Lowered, tuple[str, ...]]:
        return self.cpu.lower_sum(node, layout)

    def keeping(self, exact: frozenset[str]) -> CudaTarget:
        return replace(self, exact=exact)

    def rounded(self, graph: Graph, node: Node, form: Form) -> np.ndarray | None:
        if not _on_device(form):
            return self.cpu.rounded(graph, node, form)
        if form.implementation in (lower.GENERIC, _FUSED):
            return None
        exact = graph.constant(node.inputs[1])
        used = convolution.weights_of(graph, node, tier_of(form.implementation), self._exact(node))
        return None if exact is None or np.array_equal(used, exact) else used

    def noise(self, form: Form) -> float:
        return 1.0 if _on_device(form) else self.cpu.noise(form)

    def narrows(self, form: Form) -> bool:
        return tier_of(form.implementation) == "t1h"

    def _exact(self, node: Node) -> bool:
        return not self.budget or not self.exact.isdisjoint(node.inputs)

    def assemble(
        self, modules: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> tuple[bytes | None, ...]:
        if self.device_code == "ptx":
            return (None,) * len(modules)
        cubins = assemble_all(modules, self.device, cache=Cache.of_user(), progress=progress)
        return tuple(cubin.image for cubin in cubins)


def _on_device(form: Form) -> bool:
    return tier_of(form.implementation) in _TIERS


def create(
    name: str,
    winograd: str = "strict",
    precision: str = "f32",
    weight_rounding: str = "auto",
    activations: str = "f32",
    placement: str = "cost",
    device_code: str = "cubin",
    cuda_route: str = "direct",
) -> Target:
    """The target called `name`, a board or an alias of one; raises TargetError for an unknown setting."""
    for name_of, known, got in (
        ("activations", _STORAGES, activations),
        ("placement", _PLACEMENTS, placement),
        ("device code", _CODES, device_code),
        ("CUDA route", convolution.ROUTES, cuda_route),
    ):
        if got not in known:
            raise TargetError(f"{name_of}: expected {', '.join(known)}, got '{got}'")
    if cuda_route == "template":
        if activations != "f32":
            raise TargetError(f"CUDA route template: expected activations f32, got '{activations}'")
        if reason := missing(assembler=False):
            raise TargetError(f"CUDA route template: {reason}")
    board = next(board for board in BOARDS.values() if name in (board.name, *board.aliases))
    try:
        budget = budget_of(weight_rounding)
    except ValueError as error:
        raise TargetError(str(error)) from None
    if budget < math.inf and board.sm >= _ALL_BITS:
        budget = 0.0
    if budget and precision != "f32":
        budget = math.inf  # what was asked for does more
    cpu = resolve(board.cpu, winograd=winograd, precision=precision)
    storage, halves = _STORAGES[activations], precision == "f16"
    return CudaTarget(board, cpu, budget, storage, placement, device_code, halves, cuda_route)
