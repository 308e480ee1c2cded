"""A small network, and a device that only pretends to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from edgert.reader import read
from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.ops import Activation, Concat, Conv, Pool, Softmax

__all__ = ["Device", "network"]


@dataclass(frozen=True, slots=True)
class _Pretended:
    """A timing as a device gives it."""

    seconds: float
    spread: float = 0.01
    runs: int = 5


@dataclass(slots=True)
class Device:
    """Gives every step the same time, and remembers what it was asked for: kernel and where weights come from."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None

    def measure(self, path: Path, step: int, weights: str) -> _Pretended:
        self.meanwhile()
        self.asked.append((read(path).programs[0].steps[step].kernel, weights))
        return _Pretended(1e-4)


def network() -> Graph:
    """x [1,16,12,12] -> two convolutions side by side, concatenated, pooled, softmax over the channels."""
    values = {"x": Value("x", TensorType(DType.F32, (1, 16, 12, 12)))}
    random = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> str:
        values[name] = Value.constant(name, random.standard_normal(shape).astype(np.float32))
        return name

    def made(name: str, *shape: int) -> str:
        values[name] = Value(name, TensorType(DType.F32, shape))
        return name

    wide = Conv((1, 1), (1, 1, 1, 1), (1, 1), 1, Activation("relu"))
    narrow = Conv((1, 1), (0,) * 4, (1, 1))
    nodes = (
        Node(wide, ("x", weights("w", 32, 16, 3, 3)), (made("a", 1, 32, 12, 12),)),
        Node(narrow, ("x", weights("v", 16, 16, 1, 1)), (made("b", 1, 16, 12, 12),)),
        Node(Concat(1), ("a", "b"), (made("c", 1, 48, 12, 12),)),
        Node(Pool("max", (2, 2), (2, 2), (0,) * 4, (1, 1)), ("c",), (made("d", 1, 48, 6, 6),)),
        Node(Softmax("softmax", (1,)), ("d",), (made("y", 1, 48, 6, 6),)),
    )
    graph = Graph("network", ("x",), ("y",), nodes, values)
    graph.validate()
    return graph
