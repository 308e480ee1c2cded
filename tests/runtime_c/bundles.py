"""The bundles that the C tests open: `python -m tests.runtime_c.bundles` writes them to tests/golden.

For x [64,96] they give y = transpose(relu(x) + w), and the positions of relu(x)'s non-zeros, whose number depends on
data. `session.edge` has a program of one core, which sees y in two shapes; `cores.edge` has programs of several cores.
Each is there for both architectures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packer.bundle.model import ALL_CORES, Bundle, Golden, Place, Program, Step, Tensor
from packer.bundle.writer import write_bundle
from packer.ir import DType, TensorType, extents_of
from targets.base import Attribute, Layout

__all__ = ["CORES", "GOLDEN", "Builder", "cores_bundle", "session_bundle"]

FOLDER = Path(__file__).resolve().parents[1] / "golden"
GOLDEN, CORES = FOLDER / "session.edge", FOLDER / "cores.edge"
ROWS, COLUMNS = 64, 96
CUTS = {1: (0, 96), 2: (0, 50, 96), 3: (0, 48, 80, 96), 4: (0, 24, 48, 72, 96)}  # of the columns among cores
SPEEDS = {3: (1.0, 0.75, 0.5)}  # by number of cores


def session_bundle() -> Bundle:
    """The contents of session.edge, the same at every call."""
    size = ROWS * COLUMNS
    w = np.arange(COLUMNS, dtype=np.float32) / 8
    x = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    flat = TensorType(DType.F32, (size,))
    matrix = TensorType(DType.F32, (ROWS, COLUMNS))
    planar = Layout.PLANAR
    tensors = (
        Tensor("x", matrix, planar, Place.INPUT),
        Tensor("w", TensorType(DType.F32, (COLUMNS,)), planar, Place.SEGMENT, data=w),
        Tensor("relu", matrix, planar, Place.ARENA),
        Tensor("sum", matrix, planar, Place.ARENA, offset=size * 4),
        Tensor("y", TensorType(DType.F32, (COLUMNS, ROWS)), planar, Place.OUTPUT),
        Tensor("y_flat", flat, planar, Place.OUTPUT),
        Tensor("where", TensorType(DType.I64, (2, size)), planar, Place.OUTPUT, 1, extent=(1, 7)),
        Tensor("where_count", TensorType(DType.I64, (1,)), planar, Place.ARENA, offset=size * 8),
    )
    steps = (
        Step("unary", ("activate",), (0,), (2,), (Attribute("kind", text="relu"),)),
        Step("binary", ("shift", "again"), (2, 1), (3,), (Attribute("kind", text="add"),)),
        Step(
            "copy",
            ("turn",),
            (3,),
            (5,),
            (
                Attribute("offset", ints=(0,)),
                Attribute("shape", ints=(COLUMNS, ROWS)),
                Attribute("strides", ints=(1, COLUMNS)),
            ),
        ),
        Step("non_zero", ("find",), (2,), (6, 7), ()),
    )
    arena = size * 8 + 64
    programs = tuple(
        Program(target, arch, arena, arena, tensors, steps, (0,), (4, 6))
        for target, arch in (("cpu", "x86_64"), ("cpu-aarch64", "aarch64"))
    )
    golden = Golden({"x": x}, {"y": (np.maximum(x, 0) + w).T.copy()}, 0.0, 0.0)
    return Bundle("edgert tests", "session", programs, (golden,))


@dataclass(slots=True)
class Builder:
    """A program under construction: planar tensors, those of the arena one behind the other."""

    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    end: int = 0  # of the arena, bytes
    phase: int = 0

    def add(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def input(self, name: str, type: TensorType) -> int:
        self.inputs.append(self.add(Tensor(name, type, Layout.PLANAR, Place.INPUT, len(self.inputs))))
        return self.inputs[-1]

    def output(self, name: str, type: TensorType, extent: tuple[int, int] | None = None) -> int:
        self.outputs.append(self.add(Tensor(name, type, Layout.PLANAR, Place.OUTPUT, len(self.outputs), extent=extent)))
        return self.outputs[-1]

    def constant(self, name: str, data: np.ndarray) -> int:
        type = TensorType(DType.of(data.dtype), data.shape)
        return self.add(Tensor(name, type, Layout.PLANAR, Place.SEGMENT, data=data))

    def arena(self, name: str, type: TensorType) -> int:
        """In memory of its own."""
        offset = self.end
        self.end = -(-(offset + type.bytes) // 64) * 64
        return self.add(Tensor(name, type, Layout.PLANAR, Place.ARENA, offset=offset))

    def view(self, root: int, *box: tuple[int, int]) -> int:
        """A box of a tensor, whole along the dimensions that are not named."""
        of = self.tensors[root]
        within = (*box, *((0, n) for n in of.type.shape[len(box) :]))
        type = TensorType(of.type.dtype, extents_of(within))
        return self.add(Tensor(of.name, type, of.layout, of.place, root=root, within=within))

    def step(
        self, kernel: str, node: str, inputs: list[int], outputs: list[int], core: int, *attributes: Attribute
    ) -> None:
        """A step of the present phase."""
        self.steps.append(Step(kernel, (node,), tuple(inputs), tuple(outputs), attributes, core, self.phase))

    def program(self, target: str, arch: str, cores: int, speeds: tuple[float, ...] = ()) -> Program:
        tensors, steps = tuple(self.tensors), tuple(self.steps)
        bindings = tuple(self.inputs), tuple(self.outputs)
        return Program(target, arch, self.end, self.end, tensors, steps, *bindings, cores, speeds)


def cores_program(target: str, arch: str, cores: int) -> Program:
    """Phases: relu by columns, one piece a core; the sum shared by all, and meanwhile the search on the last core; the
    transposed, one piece a core, by rows of y."""
    b = Builder()
    matrix, turned = TensorType(DType.F32, (ROWS, COLUMNS)), TensorType(DType.F32, (COLUMNS, ROWS))
    x, relu, total, y = b.input("x", matrix), b.arena("relu", matrix), b.arena("sum", matrix), b.output("y", turned)
    count = b.arena("where_count", TensorType(DType.I64, (1,)))
    where = b.output("where", TensorType(DType.I64, (2, ROWS * COLUMNS)), extent=(1, count))
    w = b.constant("w", np.stack([np.zeros(COLUMNS), np.arange(COLUMNS) / 8]).astype(np.float32))
    pieces = list(zip(CUTS[cores], CUTS[cores][1:], strict=False))
    for core, piece in enumerate(pieces):
        kind = Attribute("kind", text="relu")
        b.step("unary", "activate", [b.view(x, (0, ROWS), piece)], [b.view(relu, (0, ROWS), piece)], core, kind)
    b.phase = 1
    b.step("binary", "shift", [relu, b.view(w, (1, 2))], [total], ALL_CORES, Attribute("kind", text="add"))
    b.step("non_zero", "find", [relu], [where, count], cores - 1)
    b.phase = 2
    for core, (begin, end) in enumerate(pieces):
        take = (
            Attribute("offset", ints=(begin,)),
            Attribute("shape", ints=(end - begin, ROWS)),
            Attribute("strides", ints=(1, COLUMNS)),
        )
        b.step("copy", "turn", [total], [b.view(y, (begin, end))], core, *take)
    return b.program(target, arch, cores, SPEEDS.get(cores, ()))


def cores_bundle() -> Bundle:
    """The contents of cores.edge, the same at every call: targets for 1 to 3 cores, and "wide" ones for 3 and 4."""
    programs = tuple(
        cores_program(target + suffix, arch, cores)
        for suffix, arch in (("", "x86_64"), ("-aarch64", "aarch64"))
        for target, counts in (("cpu", (2, 1, 3)), ("wide", (4, 3)))
        for cores in counts
    )
    return Bundle("edgert tests", "cores", programs, session_bundle().goldens)


if __name__ == "__main__":
    write_bundle(session_bundle(), GOLDEN)
    write_bundle(cores_bundle(), CORES)
