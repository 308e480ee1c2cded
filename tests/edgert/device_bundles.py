"""Bundles by hand with programs for devices: small kernels in PTX over vectors, the processor's steps between them."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from packer.bundle.model import Bundle, Golden, Module, Place, Program, Step, Tensor
from packer.bundle.writer import write_bundle
from packer.ir import DType, TensorType
from targets.base import Attribute, Layout

__all__ = [
    "COPY",
    "SCALE",
    "SIZE",
    "WEIGHTS",
    "DeviceBuilder",
    "affine",
    "answer",
    "elementwise",
    "two_runs",
    "write",
    "x_of",
]

SIZE, THREADS = 300, 128
FLOATS = TensorType(DType.F32, (SIZE,))


def elementwise(name: str, inputs: int, body: str, sm: int = 62, version: str = "5.0") -> str:
    """PTX of an entry with `inputs` pointers and one to the output: for each element %f0, %f1, ... `body` makes %f9."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(inputs + 1))
    loads = "".join(
        f"ld.param.u64 %rd1, [p{i}]; add.u64 %rd1, %rd1, %rd0; ld.global.f32 %f{i}, [%rd1];\n" for i in range(inputs)
    )
    return f"""
.version {version}
.target sm_{sm}
.address_size 64
.visible .entry {name}({parameters})
{{
.reg .pred %p0; .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .f32 %f<10>;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
setp.ge.u32 %p0, %r3, {SIZE};
@%p0 bra END;
mul.wide.u32 %rd0, %r3, 4;
{loads}{body}
ld.param.u64 %rd1, [p{inputs}]; add.u64 %rd1, %rd1, %rd0; st.global.f32 [%rd1], %f9;
END:
ret;
}}
"""


COPY = elementwise("copy", 1, "mov.f32 %f9, %f0;")
SCALE = elementwise("scale", 2, "mul.rn.f32 %f9, %f0, %f1;")
SHIFT = elementwise("shift", 1, "add.rn.f32 %f9, %f0, 0f3F800000;")


@dataclass(slots=True)
class DeviceBuilder:
    """A program under construction: vectors of SIZE floats, each in memory of its own."""

    modules: list[Module] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    ends: dict[Place, int] = field(default_factory=lambda: {Place.ARENA: 0, Place.DEVICE: 0})

    def add(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def input(self, name: str) -> int:
        self.inputs.append(self.add(Tensor(name, FLOATS, Layout.PLANAR, Place.INPUT, len(self.inputs))))
        return self.inputs[-1]

    def output(self, name: str) -> int:
        self.outputs.append(self.add(Tensor(name, FLOATS, Layout.PLANAR, Place.OUTPUT, len(self.outputs))))
        return self.outputs[-1]

    def constant(self, name: str, data: np.ndarray) -> int:
        return self.add(Tensor(name, FLOATS, Layout.PLANAR, Place.SEGMENT, data=data))

    def value(self, name: str, place: Place = Place.DEVICE) -> int:
        offset = self.ends[place]
        self.ends[place] = -(-(offset + FLOATS.bytes) // 64) * 64
        layout = Layout.PLANES if place is Place.DEVICE else Layout.PLANAR
        return self.add(Tensor(name, FLOATS, layout, place, offset=offset))

    def module(self, ptx: str, cubin: bytes | None = None) -> int:
        self.modules.append(Module(ptx, cubin))
        return len(self.modules) - 1

    def step(self, kernel: str, node: str, inputs: list[int], outputs: list[int], *attributes: Attribute) -> None:
        self.steps.append(Step(kernel, (node,), tuple(inputs), tuple(outputs), attributes))

    def launch(
        self,
        kernel: str,
        node: str,
        module: int,
        entries: str,
        inputs: list[int],
        outputs: list[int],
        threads: int = THREADS,
    ) -> None:
        """A step of one of the kernels launch, put and get; each entry covers SIZE elements."""
        count = entries.count(",") + 1
        self.step(
            kernel,
            node,
            inputs,
            outputs,
            Attribute("module", ints=(module,) * count),
            Attribute("entries", text=entries),
            Attribute("grid", ints=(-(-SIZE // threads), 1, 1) * count),
            Attribute("threads", ints=(threads,) * count),
        )

    def program(self, arch: str = "", device: str = "sm_62", target: str = "jetson") -> Program:
        return Program(
            target,
            arch or platform.machine(),
            self.ends[Place.ARENA],
            self.ends[Place.ARENA],
            tuple(self.tensors),
            tuple(self.steps),
            tuple(self.inputs),
            tuple(self.outputs),
            device=device,
            device_bytes=self.ends[Place.DEVICE],
            modules=tuple(self.modules),
        )


def x_of(seed: int = 1) -> np.ndarray:
    """Values for the input."""
    return np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)


WEIGHTS = np.linspace(-2, 2, SIZE, dtype=np.float32)


def affine(copy: str = COPY, scale: str = SCALE, shift: str = SHIFT) -> DeviceBuilder:
    """y = x * w + 1, all of it on the device."""
    b = DeviceBuilder()
    x, y, w = b.input("x"), b.output("y"), b.constant("w", WEIGHTS)
    moved, scaled, shifted = b.value("moved"), b.value("scaled"), b.value("shifted")
    copies, scales, shifts = b.module(copy), b.module(scale), b.module(shift)
    b.launch("put", "x", copies, "copy", [x], [moved])
    b.launch("launch", "scale", scales, "scale", [moved, w], [scaled])
    b.launch("launch", "shift", shifts, "shift", [scaled], [shifted])
    b.launch("get", "y", copies, "copy", [shifted], [y])
    return b


def two_runs() -> DeviceBuilder:
    """y = relu(x * w + 1) * w, the relu on the processor; z = x * w."""
    b = DeviceBuilder()
    x, y, z, w = b.input("x"), b.output("y"), b.output("z"), b.constant("w", WEIGHTS)
    moved, scaled, shifted, back, product = (b.value(n) for n in ("moved", "scaled", "shifted", "back", "product"))
    out, relu = b.value("out", Place.ARENA), b.value("relu", Place.ARENA)
    copies, scales, shifts = b.module(COPY), b.module(SCALE), b.module(SHIFT)
    b.launch("put", "x", copies, "copy", [x], [moved])
    b.launch("launch", "scale", scales, "scale", [moved, w], [scaled])
    b.launch("launch", "shift", shifts, "shift", [scaled], [shifted])
    b.launch("get", "out", copies, "copy", [shifted], [out])
    b.step("unary", "relu", [out], [relu], Attribute("kind", text="relu"))
    b.launch("put", "back", copies, "copy", [relu], [back])
    b.launch("launch", "product", scales, "scale", [back, w], [product])
    b.launch("get", "y", copies, "copy", [product], [y])
    b.launch("get", "z", copies, "copy", [scaled], [z])
    return b


def answer(x: np.ndarray) -> dict[str, np.ndarray]:
    """What two_runs gives."""
    scaled = x * WEIGHTS
    return {"y": np.maximum(scaled + np.float32(1), 0) * WEIGHTS, "z": scaled}


def write(path: Path, *programs: Program, golden: Golden | None = None) -> Path:
    """The bundle of the programs, in a file."""
    write_bundle(Bundle("edgert tests", "device", programs, () if golden is None else (golden,)), path, durable=False)
    return path
