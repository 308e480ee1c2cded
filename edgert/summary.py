"""What a bundle holds, layer by layer: shapes, sizes, zeros among the weights. Needs no device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgert.reader import Bundle, Program, Step, Tensor

__all__ = ["LayerSummary", "ProgramSummary", "summarize"]


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One step: kernel, ONNX nodes, what it reads and writes ("float32[1,16,8,8]"), and its constants.

    `weights` counts the elements of its weights (constants with two or more real dimensions) in the ONNX model,
    `nonzeros` those that are not zero, `stored_bytes` all its constants as they lie in the bundle.
    """

    step: int
    kernel: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layout: str
    weights: int
    nonzeros: int
    stored_bytes: int

    @property
    def sparsity(self) -> float:
        """The fraction of zeros among the weights."""
        return 1.0 - self.nonzeros / self.weights if self.weights else 0.0


@dataclass(frozen=True, slots=True)
class ProgramSummary:
    """One program. `weights_bytes` counts a constant that several layers share once."""

    target: str
    arch: str
    arena_bytes: int
    arena_floor: int
    weights_bytes: int
    sparsity: float
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    layers: tuple[LayerSummary, ...]


def summarize(bundle: Bundle, program: Program) -> ProgramSummary:
    """The layers of a program of the bundle, with its weights counted."""
    layers = tuple(_layer(bundle, program, number, step) for number, step in enumerate(program.steps))
    weights = sum(layer.weights for layer in layers)
    stored = {(t.index, t.offset, t.bytes) for t in program.tensors if t.place == "segment" and t.root < 0}
    return ProgramSummary(
        program.target,
        program.arch,
        program.arena_bytes,
        program.arena_floor,
        sum(size for _, _, size in stored),
        1.0 - sum(layer.nonzeros for layer in layers) / weights if weights else 0.0,
        tuple((program.tensors[i].name, _type(program.tensors[i])) for i in program.inputs),
        tuple((program.tensors[i].name, _type(program.tensors[i])) for i in program.outputs),
        layers,
    )


def _layer(bundle: Bundle, program: Program, number: int, step: Step) -> LayerSummary:
    inputs = [program.tensors[i] for i in step.inputs if i >= 0]
    outputs = [program.tensors[i] for i in step.outputs]
    constants = [tensor for tensor in inputs if tensor.place == "segment"]
    weights = [tensor for tensor in constants if _is_weight(tensor)]
    return LayerSummary(
        number,
        step.kernel,
        step.nodes,
        tuple(_type(t) for t in inputs if t.place != "segment"),
        tuple(_type(t) for t in outputs),
        outputs[0].layout if outputs else "",
        sum(int(np.prod(t.shape)) for t in weights),
        sum(int(np.count_nonzero(bundle.stored(t))) for t in weights),
        sum(t.bytes for t in constants),
    )


def _is_weight(tensor: Tensor) -> bool:
    """Packed for a convolution or matrix product, or a float array with two real dimensions. Lanes of padding are zero,
    so that non-zeros can be counted in any layout."""
    if tensor.layout in ("weight16", "depth16"):
        return True
    real = sum(extent > 1 for extent in tensor.shape)
    return tensor.layout == "planar" and tensor.dtype.kind == "f" and real >= 2


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
