"""What can be wrong with a model: errors that say what, where, expected, got, and the next thing to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ModelError", "UnsupportedOperator", "UnsupportedOperators"]

_NODES_SHOWN = 3


class ModelError(ValueError):
    """A model cannot be used as it is.

    `str()` gives one to four lines: what; where; expected and got; hint. `input_name` is the graph input whose value
    would have to be known at pack time, when that is what is missing.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        expected: str = "",
        got: str = "",
        hint: str = "",
        input_name: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.hint = hint
        self.input_name = input_name

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"at: {self.where}")
        facts = [f"{name}: {text}" for name, text in (("expected", self.expected), ("got", self.got)) if text]
        if facts:
            lines.append("; ".join(facts))
        if self.hint:
            lines.append(f"fix: {self.hint}")
        return "\n  ".join(" ".join(line.split()) for line in lines)


@dataclass(frozen=True, slots=True)
class UnsupportedOperator:
    """All nodes of one operator that cannot be packed for one reason (empty: the operator is not known at all)."""

    op_type: str
    reason: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"'{name}'" for name in self.nodes[:_NODES_SHOWN])
        more = ", ..." if len(self.nodes) > _NODES_SHOWN else ""
        return f"{self.op_type} x{len(self.nodes)} ({shown}{more}{': ' + self.reason if self.reason else ''})"


class UnsupportedOperators(ModelError):
    """Every operator of a model that cannot be packed, each with its node names."""

    def __init__(self, operators: Sequence[UnsupportedOperator]) -> None:
        self.operators = tuple(operators)
        count = sum(len(operator.nodes) for operator in self.operators)
        super().__init__(
            f"{count} node{'s' * (count > 1)} cannot be packed: unsupported operators",
            where="; ".join(map(str, self.operators)),
            hint="export without these operators or with another opset, simplify the model, or cut it before them",
        )
