"""Random ONNX networks of nearly all operators, with odd shapes, batches, integers, views and data-dependent sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, helper

from tests.e2e.random_builder import Arrays, Builder, make_model
from tests.e2e.random_operators import INTEGERS, OPERATORS

__all__ = ["RandomNetwork", "random_network"]


@dataclass(frozen=True, slots=True)
class RandomNetwork:
    """A model, inputs for it, and the outputs they must give."""

    model: ModelProto
    inputs: Arrays
    outputs: Arrays


def random_network(seed: int) -> RandomNetwork:
    """About a dozen operators; results are last values, values used again, views, constants and inputs themselves."""
    b = Builder(seed)
    batch, channels = b.integer(1, 3), int(b.one(1, 3, 4, 7, 16, 17, 20, 33))  # type: ignore[call-overload]
    b.input((batch, channels, b.integer(1, 9), b.integer(1, 9)))
    if seed % 10 == 9:
        b.input(tuple(0 if b.chance(0.3) else b.integer(1, 4) for _ in range(4)))
    rank3, rank2 = (b.integer(1, 5), b.integer(1, 20), b.integer(1, 9)), (b.integer(1, 4), b.integer(1, 20))
    for shape in (rank3, rank2, (2, 5, 3, 2, 4)):
        if b.chance(0.5):
            b.input(shape)
    b.input((b.integer(1, 4), b.integer(1, 6)), b.one(*INTEGERS))  # type: ignore[arg-type]
    b.input((b.integer(1, 9),), np.bool_)
    for _ in range(b.integer(5, 14)):
        OPERATORS[b.integer(0, len(OPERATORS) - 1)](b)
    if not b.nodes:
        b.op("Identity", "x0")
    read = {name for node in b.nodes for name in node.input}
    made = [name for node in b.nodes for name in node.output]
    results = [name for name in made if name not in read or b.chance(0.1)]
    for name in results[:]:
        if b.chance(0.15) and name not in b.dynamic and name in b.values:
            results += b.op("Reshape", name, b.ints(-1)) if b.values[name].size else b.op("Identity", name)
    if b.chance(0.2):
        results += b.op("Identity", str(b.one(*b.inputs)))
    if b.chance(0.2):
        results += b.op("Reshape", "x0", b.ints(-1)) + b.op("Identity", b.constant(b.array((2, 3))))
    results = list(dict.fromkeys(results))
    info = [(n, helper.np_dtype_to_tensor_dtype(b.values[n].dtype), b.values[n].ndim) for n in results]
    used = {name for node in b.nodes for name in node.input}
    inputs, weights = ({n: a for n, a in arrays.items() if n in used} for arrays in (b.inputs, b.weights))
    return RandomNetwork(make_model(b.nodes, inputs, info, weights), inputs, {n: b.values[n] for n in results})
