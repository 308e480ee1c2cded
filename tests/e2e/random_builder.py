"""Building random ONNX networks node by node.

Every node is evaluated by onnx.reference as it is added, so that shapes and values are known; one whose values get out
of hand is left out. Functions with jumps (rounding, comparing, sorting) are given exact values only: multiples of 1/256
that no rounding touched, so that every right implementation gives the same answer.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.helper import make_tensor_value_info
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

__all__ = ["LRN", "Arrays", "Builder", "make_model"]

Arrays = dict[str, np.ndarray]
OPSET = 21


class LRN(OpRun):  # type: ignore[misc]
    """LRN over all channels; that of onnx.reference (1.23) covers as many as there are images."""

    def _run(self, x: np.ndarray, alpha: float, beta: float, bias: float, size: int) -> tuple[np.ndarray]:
        squares = np.zeros_like(x)
        for c in range(x.shape[1]):
            squares[:, c] = (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
        return (x / (bias + alpha / size * squares) ** beta,)


def make_model(
    nodes: list[NodeProto], inputs: Arrays, outputs: list[tuple[str, int, int | None]], weights: Arrays
) -> ModelProto:
    """Outputs are given as name, element type and rank (None: not said); their extents are not said."""
    graph = helper.make_graph(
        nodes,
        "random",
        [make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()],
        [make_tensor_value_info(n, t, None if rank is None else [None] * rank) for n, t, rank in outputs],
        [numpy_helper.from_array(data, name) for name, data in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


class Builder:
    """A network under construction: nodes, and the value that each name has for the sample inputs."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.weights: Arrays = {}
        self.inputs: Arrays = {}
        self.values: Arrays = {}
        self.exact: set[str] = set()
        self.dynamic: list[str] = []  # sizes depend on data: outputs only

    # ---- random choices ----

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def one(self, *choices: object) -> object:
        return choices[self.integer(0, len(choices) - 1)]

    def text(self, *choices: str) -> str:
        return str(self.one(*choices))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    # ---- values ----

    def array(self, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
        if dtype is np.bool_:
            return self.random.random(shape) < 0.5
        if dtype is np.float32:
            return (self.random.integers(-32, 33, shape) / 8).astype(np.float32)
        low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
        return self.random.integers(low, 10, shape).astype(dtype)

    def input(self, shape: tuple[int, ...], dtype: type = np.float32) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = self.array(shape, dtype)
        self.exact.add(name)
        return name

    def constant(self, data: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = self.values[name] = np.asarray(data)
        return name

    def weight(self, *shape: int) -> str:
        """A float32 parameter: constant, or now and then an input of the network."""
        data = self.array(shape) / np.float32(4)
        if self.chance(0.12):
            name = self.input(shape)
            self.inputs[name] = self.values[name] = data
            return name
        return self.constant(data)

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def pick(
        self, dtype: type | tuple[type, ...] = np.float32, least: int = 0, most: int = 6, exact: bool = False
    ) -> str | None:
        """A value of `dtype` and a rank in least..most, most likely a late one."""
        wanted = dtype if isinstance(dtype, tuple) else (dtype,)
        found = [
            name
            for name, value in self.values.items()
            if value.dtype.type in wanted
            and least <= value.ndim <= most
            and name not in self.weights
            and name not in self.dynamic
            and (not exact or name in self.exact)
        ]
        if not found:
            return None
        return found[-1 - self.integer(0, min(2, len(found) - 1))] if self.chance(0.6) else str(self.one(*found))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def op(self, kind: str, *inputs: str, outputs: int = 1, exact: bool = False, **attributes: object) -> list[str]:
        """Add a node; its results, or nothing if their values are not fit for a test. `exact`: it rounds nothing."""
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{len(self.nodes)}", **attributes)
        given = {name: self.values[name] for name in inputs if name}
        try:
            with np.errstate(all="ignore"):
                model = make_model([node], given, [(n, 0, None) for n in names], {})
                results = ReferenceEvaluator(model, new_ops=[LRN]).run(None, given)
        except Exception:
            return []  # the reference does not do this combination
        results = [np.asarray(r) for r in results]
        for result in results:
            if result.size > 30000 or result.ndim > 6:
                return []
            if result.dtype.kind == "f" and not (np.isfinite(result).all() and np.abs(result).max(initial=0) < 1000):
                return []
        self.nodes.append(node)
        self.values.update(zip(names, results, strict=True))
        if exact and all(name in self.exact or name in self.weights for name in inputs if name):
            self.exact.update(n for n, r in zip(names, results, strict=True) if _short(r))
        return names


def _short(x: np.ndarray) -> bool:
    """Whether all values are integers or multiples of 1/256."""
    return x.dtype.kind != "f" or bool((x * 256 == np.rint(x * 256)).all())
