"""Small graphs on which passes must change no result at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from packer.ir import DType, Graph, Node, TensorType, Value
from packer.ir.evaluate import evaluate
from packer.ir.ops import Op

__all__ = ["Sketch"]

F32 = np.float32


class Sketch:
    """A graph of small integers, of which all sums are exact."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.inputs: dict[str, np.ndarray] = {}
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []

    def input(self, *shape: int, dtype: type = F32) -> str:
        name = f"x{len(self.inputs)}"
        low, high = (0, 256) if dtype is np.uint8 else (-8, 9)
        self.inputs[name] = self.rng.integers(low, high, shape).astype(dtype)
        self.values[name] = Value(name, TensorType(DType.of(np.dtype(dtype)), shape))
        return name

    def constant(self, *shape: int, dtype: type = F32) -> str:
        return self.given(self.rng.integers(1, 9, shape) * self.rng.choice([-1, 1], shape), dtype)

    def given(self, data: object, dtype: type = F32) -> str:
        name = f"c{len(self.values)}"
        self.values[name] = Value.constant(name, np.asarray(data).astype(dtype))
        return name

    def add(self, op: Op, *inputs: str | None) -> str:
        name = f"v{len(self.values)}"
        types = [None if i is None else self.values[i].type for i in inputs]
        self.values[name] = Value(name, op.infer(types)[0])
        self.nodes.append(Node(op, inputs, (name,), (name,)))
        return name

    def check(self, run: Callable[[Graph], Graph]) -> tuple[Graph, Graph]:
        """The graph before and after a pass; they give the same, and nothing is left to be done."""
        outputs = tuple(name for node in self.nodes for name in node.outputs)
        before = Graph("g", tuple(self.inputs), outputs, tuple(self.nodes), self.values)
        before.validate()
        after = run(before)
        after.validate()
        want, got = (evaluate(graph, self.inputs) for graph in (before, after))
        for name in outputs:
            np.testing.assert_array_equal(got[name], want[name])
        assert run(after) is after
        return before, after
