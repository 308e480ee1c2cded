"""Control flow whose course is known at pack time, unrolled; a branch on data becomes a selection."""

from __future__ import annotations

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.registry import handler
from packer.ir.ops import Where


@handler("If")
def if_(call: Call) -> tuple[Tensor, ...]:
    """The branch taken; when that depends on data both, provided that they give the same types."""
    condition = call.tensor(0)
    if condition.data is not None:
        branch = "then_branch" if bool(call.scalar(0, "the condition")) else "else_branch"
        return tuple(call.walker.body(call, call.graph(branch), (), branch.removesuffix("_branch")))
    taken = call.walker.body(call, call.graph("then_branch"), (), "then")
    other = call.walker.body(call, call.graph("else_branch"), (), "else")
    if [t.type for t in taken] != [t.type for t in other]:
        raise Unsupported("branches of different shapes on a condition that depends on data")
    chosen = call.reshape(condition, ())
    return tuple(call.emit(Where(), chosen, a, b) for a, b in zip(taken, other, strict=True))


@handler("Loop")
def loop(call: Call) -> tuple[Tensor, ...]:
    """Unrolled; the number of rounds must be known at pack time."""
    body = call.graph("body")
    most = call.optional(0)
    rounds = None if most is None else int(call.scalar(0, "the trip count"))
    running = True if call.optional(1) is None else bool(call.scalar(1, "the loop condition"))
    carried = [call.tensor(index) for index in range(2, len(call.inputs))]
    scanned: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    done = 0
    while running and (rounds is None or done < rounds):
        call.walker.count(call.name)
        inputs = [call.literal(np.array(done, np.int64)), call.literal(np.array(True)), *carried]
        condition, *results = call.walker.body(call, body, inputs, str(done))
        if condition.data is None:
            raise Unsupported("a condition that depends on data")
        running = bool(condition.data.reshape(-1)[0])
        carried, done = results[: len(carried)], done + 1
        for parts, part in zip(scanned, results[len(carried) :], strict=True):
            parts.append(part)
    return (*carried, *(_stacked(call, parts, 0) for parts in scanned))


def _stacked(call: Call, parts: list[Tensor], axis: int) -> Tensor:
    """Tensors of one type side by side along a new axis."""
    if not parts:
        raise Unsupported("a scan of no rounds")
    axis = call.axis(axis, parts[0].rank + 1)
    shape = (*parts[0].shape[:axis], 1, *parts[0].shape[axis:])
    return call.concat([call.reshape(part, shape) for part in parts], axis)


@handler("Scan", since=9)
def scan(call: Call) -> tuple[Tensor, ...]:
    """Unrolled; the length is static."""
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    states = len(call.inputs) - count
    if count < 1 or states < 0:
        raise call.error("num_scan_inputs does not fit", got=str(count))
    state = [call.tensor(index) for index in range(states)]
    outputs = len(body.output) - states
    reads = _directed(call, "scan_input", [call.tensor(index) for index in range(states, len(call.inputs))])
    write_axes = call.integers("scan_output_axes") or (0,) * outputs
    write_backwards = call.integers("scan_output_directions") or (0,) * outputs
    length = reads[0][0].shape[reads[0][1]]
    scanned: list[list[Tensor]] = [[] for _ in range(outputs)]
    for step in range(length):
        call.walker.count(call.name)
        inputs = [
            _entry(call, tensor, axis, length - 1 - step if backwards else step) for tensor, axis, backwards in reads
        ]
        results = call.walker.body(call, body, [*state, *inputs], str(step))
        state = results[:states]
        for parts, part in zip(scanned, results[states:], strict=True):
            parts.append(part)
    ordered = (parts[::-1] if backwards else parts for parts, backwards in zip(scanned, write_backwards, strict=True))
    return (*state, *(_stacked(call, parts, axis) for parts, axis in zip(ordered, write_axes, strict=True)))


def _directed(call: Call, prefix: str, tensors: list[Tensor]) -> list[tuple[Tensor, int, bool]]:
    """Each scanned tensor with its axis and whether it is read backwards."""
    axes = call.integers(f"{prefix}_axes") or (0,) * len(tensors)
    backwards = call.integers(f"{prefix}_directions") or (0,) * len(tensors)
    return [(t, call.axis(axis, t.rank), bool(back)) for t, axis, back in zip(tensors, axes, backwards, strict=True)]


def _entry(call: Call, tensor: Tensor, axis: int, position: int) -> Tensor:
    part = call.slice(tensor, axis, position, 1)
    return call.reshape(part, [n for a, n in enumerate(tensor.shape) if a != axis])
