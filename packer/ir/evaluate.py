"""Run a whole graph by the numpy references: the oracle for passes, targets and golden outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

import numpy as np

from packer.ir.graph import Graph
from packer.ir.ops.base import ShapeError
from packer.ir.types import TensorType

__all__ = ["evaluate"]


def evaluate(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    dtype: type[np.floating] = np.float32,
    halves: Container[str] = (),
) -> dict[str, np.ndarray]:
    """The graph's outputs by name for `inputs`, which must have the graph's types (f32 may come as any float type).

    `dtype` is what f32 tensors are computed in: float32, or float64 for results free of rounding errors. Values named
    in `halves` are rounded to float16.
    Values are freed after their last use. Raises ShapeError for an input that is missing or has another type.
    """
    uses = Counter(name for node in graph.nodes for name in node.inputs if name is not None)
    uses.update(set(graph.outputs))
    live: dict[str, np.ndarray] = {}

    def define(name: str, data: np.ndarray) -> None:
        type = graph.type(name)
        if not _fits(data, type):
            raise ShapeError(f"'{name}': expected {type}, got {data.dtype}{list(data.shape)}")
        if uses[name]:
            live[name] = _cast(_half(data) if name in halves else data, dtype)

    def use(name: str) -> np.ndarray:
        constant = graph.constant(name)
        data = live[name] if constant is None else _cast(constant, dtype)
        uses[name] -= 1
        if not uses[name]:
            live.pop(name, None)
        return data

    for name in graph.inputs:
        if name not in inputs:
            raise ShapeError(f"expected input '{name}', got {sorted(inputs)}")
        define(name, np.asarray(inputs[name]))
    for node in graph.nodes:
        operands = [None if name is None else use(name) for name in node.inputs]
        for name, data in zip(node.outputs, node.op.reference(*operands), strict=False):
            define(name, data)
    return {name: use(name) for name in dict.fromkeys(graph.outputs)}


def _fits(data: np.ndarray, type: TensorType) -> bool:
    kind = data.dtype.kind == "f" if type.dtype.is_float else data.dtype == type.dtype.numpy
    return kind and data.shape == type.shape


def _cast(data: np.ndarray, dtype: type[np.floating]) -> np.ndarray:
    return data.astype(dtype, copy=False) if data.dtype.kind == "f" else data


def _half(data: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return data.astype(np.float16) if data.dtype.kind == "f" else data
