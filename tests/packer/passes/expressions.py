"""ONNX graphs written as expressions of Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Expression", "Tape", "Term"]


class Tape:
    """The nodes and constants of an expression; operands change places and constants their rank at random."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[object] = []
        self.constants: list[TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: object) -> Term:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return Term(self, name)

    def number(self, value: float | np.ndarray) -> Term:
        data = np.asarray(value, np.float32)
        if data.size == 1 and not isinstance(value, np.ndarray):
            data = data.reshape((1,) * int(self.random.integers(4)))
        self.constants.append(numpy_helper.from_array(data, f"k{len(self.constants)}"))
        return Term(self, self.constants[-1].name)

    def flags(self, value: np.ndarray) -> Term:
        self.constants.append(numpy_helper.from_array(value, f"k{len(self.constants)}"))
        return Term(self, self.constants[-1].name)


class Term:
    """A value; operators make more of them."""

    def __init__(self, tape: Tape, name: str) -> None:
        self.tape, self.name = tape, name

    def with_(self, kind: str, other: Other, swapped: bool) -> Term:
        b = other if isinstance(other, Term) else self.tape.number(other)
        return self.tape.node(kind, *((b.name, self.name) if swapped else (self.name, b.name)))

    def __add__(self, other: Other) -> Term:
        return self.with_("Add", other, bool(self.tape.random.integers(2)))

    def __mul__(self, other: Other) -> Term:
        return self.with_("Mul", other, bool(self.tape.random.integers(2)))

    def __truediv__(self, other: Other) -> Term:
        return self.with_("Div", other, swapped=False)

    def __sub__(self, other: Other) -> Term:
        return self.with_("Sub", other, swapped=False)

    def __rsub__(self, other: Other) -> Term:
        return self.with_("Sub", other, swapped=True)

    def __pow__(self, other: Other) -> Term:
        return self.with_("Pow", other, swapped=False)

    __radd__, __rmul__ = __add__, __mul__


Other = Term | float | np.ndarray
Expression = Callable[[Term], Term]
