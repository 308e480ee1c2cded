"""What a bundle holds, layer by layer: shapes, sizes, zeros among the weights. Needs no device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from edgert.reader import Bundle, Program, Step, Tensor

__all__ = ["LayerSummary", "ProgramSummary", "summarize"]

_Place = tuple[int, int, int]  # of a constant: segment, offset, bytes
# Their weights are values, and where these are.
_SPARSE = ("conv_sparse", "conv_unrolled", "linear_masked", "linear_sliced", "linear_sparse", "recurrent_sliced")
_SPACED = ":spaced"  # what the names of tensors end with that have room between the planes of a value
_COPIES = ("put", "get")  # to a device, and back


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """The steps of one operator, all its pieces, or one change of layout: kernels, ONNX nodes, what it reads and writes
    ("float32[1,16,8,8]"), and its constants.

    `entries` are the kernels that its steps launch on a device. `weights` counts the elements of its weights (constants
    with two or more real dimensions) in the ONNX model, but not of those that lie in a device's code, `nonzeros` those
    that are not zero, `stored_bytes` all its constants as they lie in the bundle.
    `tiles`: in how many parts another layer takes its output as they are made, `outputs` being the last of them; 0: in
    none.
    """

    steps: tuple[int, ...]
    kernel: str
    entries: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tiles: int
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
    """One program. What several layers share, `weights_bytes` and `sparsity` count once; `sparsity` is None where a
    device has layers: its code leaves zeros out, and no constant tells of them.

    With a `device`, `device_bytes` of its memory hold tensors, and its `modules` have so many bytes of machine code
    and, deflated, of PTX; `device_layers` run there, besides `copies` to it and back.
    """

    target: str
    arch: str
    cores: int
    steps: int
    phases: int
    arena_bytes: int
    arena_floor: int
    weights_bytes: int
    sparsity: float | None
    device: str
    device_bytes: int
    modules: int
    cubin_bytes: int
    ptx_bytes: int
    device_layers: int
    copies: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    layers: tuple[LayerSummary, ...]


def summarize(bundle: Bundle, program: Program) -> ProgramSummary:
    """The layers of a program of the bundle, with its weights counted."""
    counted: dict[_Place, tuple[int, int]] = {}  # elements and non-zeros of weights
    layers = tuple(_layer(bundle, program, steps, counted) for steps in _grouped(program))
    weights = sum(elements for elements, _ in counted.values())
    nonzeros = sum(nonzeros for _, nonzeros in counted.values())
    launches = sum(layer.kernel == "launch" for layer in layers)
    stored = {_place(t) for t in program.tensors if t.place == "segment" and t.root < 0}
    return ProgramSummary(
        program.target,
        program.arch,
        program.cores,
        len(program.steps),
        program.steps[-1].phase + 1 if program.steps else 0,
        program.arena_bytes,
        program.arena_floor,
        sum(size for _, _, size in stored),
        None if launches else 1.0 - nonzeros / weights if weights else 0.0,
        program.device,
        program.device_bytes,
        len(program.modules),
        sum(module.cubin_bytes for module in program.modules if module.cubin_segment >= 0),
        sum(module.ptx_stored for module in program.modules if module.ptx_segment >= 0),
        launches,
        sum(layer.kernel in _COPIES for layer in layers),
        tuple((program.tensors[i].name, _type(program.tensors[i])) for i in program.inputs),
        tuple((program.tensors[i].name, _type(program.tensors[i])) for i in program.outputs),
        layers,
    )


def _grouped(program: Program) -> Iterable[list[int]]:
    """The numbers of the steps that stand for the same ONNX nodes, or else do the same to the same tensor."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, step in enumerate(program.steps):
        written = tuple(_root_of(program, i) for i in step.outputs)
        groups.setdefault(step.nodes or (step.kernel, written), []).append(number)
    return groups.values()


def _layer(
    bundle: Bundle, program: Program, numbers: Sequence[int], counted: dict[_Place, tuple[int, int]]
) -> LayerSummary:
    steps = [program.steps[number] for number in numbers]
    constants = {_place(t): t for step in steps for t in _roots(program, step.inputs) if t.place == "segment"}
    weights = {place: tensor for place, tensor in constants.items() if _is_weight(tensor)}
    for step in steps:
        if step.kernel in _SPARSE:
            values = program.tensors[step.inputs[1]]
            weights[_place(values)] = values
            counted.setdefault(_place(values), (_matrix(bundle, program, steps, step), _nonzeros(bundle, values)))
    for place, tensor in weights.items():
        if place not in counted:
            counted[place] = math.prod(tensor.shape), _nonzeros(bundle, tensor)
    read = [t for t in _roots(program, steps[0].inputs) if t.place != "segment"]
    written = _roots(program, steps[-1].outputs)  # behind partial sums comes the sum
    return LayerSummary(
        tuple(numbers),
        "+".join(dict.fromkeys(step.kernel for step in steps)),
        tuple(entry for step in steps for a in step.attributes if a.name == "entries" for entry in a.text.split(",")),
        steps[0].nodes,
        tuple(map(_type, read)),
        tuple(map(_type, written)),
        len(steps) if written and written[0].name.endswith(":tile") else 0,
        written[0].layout if written else "",
        sum(counted[place][0] for place in weights),
        sum(counted[place][1] for place in weights),
        sum(tensor.bytes for tensor in constants.values()),
    )


def _matrix(bundle: Bundle, program: Program, steps: Sequence[Step], step: Step) -> int:
    """Elements of the weights of which a step, and those beside it, read the non-zeros."""
    if step.kernel in ("linear_masked", "linear_sliced"):
        return program.tensors[step.inputs[0]].shape[-1] * max(_last_column(program, other) for other in steps)
    if step.kernel == "recurrent_sliced":  # gates and directions from the operator, as slices are filled up
        features, hidden = (program.tensors[i].shape[-1] for i in (step.inputs[0], step.outputs[0]))
        texts = {attribute.name: attribute.text for attribute in step.attributes}
        directions = 2 if texts["direction"] == "bidirectional" else 1
        return directions * {"rnn": 1, "gru": 3, "lstm": 4}[texts["kind"]] * hidden * (features + hidden)
    x, table = (program.tensors[step.inputs[i]] for i in (0, 4 if step.kernel == "conv_unrolled" else 3))
    table = program.tensors[table.root] if table.root >= 0 else table
    ints = {attribute.name: attribute.ints for attribute in step.attributes}
    if step.kernel == "conv_unrolled":  # a row is a group, of as many outputs as it begins with
        outputs = int(bundle.constant(table)[0, :, 0].sum())
    else:
        outputs = table.shape[1] * ints.get("together", (1,))[0]
    if step.kernel == "linear_sparse":
        return x.shape[-1] * outputs
    return x.shape[1] // ints["group"][0] * math.prod(ints["kernel"]) * outputs


def _last_column(program: Program, step: Step) -> int:
    """Up to which column of its matrix a `linear_masked` or `linear_sliced` reads: blocks of masks have four, slices
    16, the last one up to as many."""
    each, operand = (4, 2) if step.kernel == "linear_masked" else (16, 4)
    blocks, y = program.tensors[step.inputs[operand]], program.tensors[step.outputs[0]]
    return each * sum(blocks.begin[:1]) + y.shape[-1]


def _nonzeros(bundle: Bundle, tensor: Tensor) -> int:
    return int(np.count_nonzero(bundle.stored(tensor)))


def _place(tensor: Tensor) -> _Place:
    return tensor.index, tensor.offset, tensor.bytes


def _roots(program: Program, ids: Sequence[int]) -> list[Tensor]:
    """The tensors of the values that operands are, or are views of."""
    return [program.tensors[_root_of(program, i)] for i in ids if i >= 0]


def _root_of(program: Program, number: int) -> int:
    root = program.tensors[number].root
    if root < 0:
        return number
    if program.tensors[root].name.endswith(_SPACED):  # the value lies at its origin: the first view of it
        return next(i for i, tensor in enumerate(program.tensors) if tensor.root == root)
    return root


def _is_weight(tensor: Tensor) -> bool:
    """Packed for a convolution or matrix product, or a float array with two real dimensions. Lanes of padding are zero,
    so that non-zeros can be counted in any layout."""
    if tensor.layout in ("weight16", "depth16"):
        return True
    real = sum(extent > 1 for extent in tensor.shape)
    return tensor.layout == "planar" and tensor.dtype.kind == "f" and real >= 2


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"
