"""Einstein summation as transposes, reductions and products."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler
from packer.ir.ops import MatMul, Slice


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor with one label a dimension, all distinct."""

    tensor: Tensor
    labels: str

    def size(self, label: str) -> int:
        return self.tensor.shape[self.labels.index(label)] if label in self.labels else 1


@handler("Einsum")
def einsum(call: Call) -> Tensor:
    """Contracts the operands from left to right."""
    operands = [call.tensor(index) for index in range(len(call.inputs))]
    inputs, output = _parse(call, call.text("equation"), operands)
    terms = [_diagonal(call, _Term(tensor, labels)) for tensor, labels in zip(operands, inputs, strict=True)]
    result = terms[0]
    for position, term in enumerate(terms[1:], start=1):
        later = set(output).union(*(other.labels for other in terms[position + 1 :]))
        result = _combine(
            call,
            _summed(call, result, later | set(term.labels)),
            _summed(call, term, later | set(result.labels)),
            later,
        )
    result = _summed(call, result, set(output))
    return call.transpose(result.tensor, [result.labels.index(label) for label in output])


def _parse(call: Call, equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Labels of the operands and of the result; an ellipsis is replaced by digits, aligned at its end."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise call.error("equation and operands do not match", expected=f"{len(parts)} inputs", got=str(len(operands)))
    widths = [
        tensor.rank - len(part.replace("...", "")) if "..." in part else 0
        for part, tensor in zip(parts, operands, strict=True)
    ]
    widest = max(widths)
    if min(widths) < 0 or widest > len(string.digits):
        raise call.error("equation and operands do not match", got=equation)
    hidden = string.digits[:widest]
    inputs = [part.replace("...", hidden[widest - width :]) for part, width in zip(parts, widths, strict=True)]
    for labels, tensor in zip(inputs, operands, strict=True):
        if len(labels) != tensor.rank:
            raise call.error("equation and operands do not match", expected=f"rank {len(labels)}", got=str(tensor.type))
    every = "".join(inputs)
    if arrow:
        output = right.replace("...", hidden)
    else:
        output = hidden + "".join(sorted(label for label in set(every) - set(hidden) if every.count(label) == 1))
    if len(set(output)) != len(output) or not set(output) <= set(every):
        raise call.error("equation is not well formed", got=equation)
    return inputs, output


def _diagonal(call: Call, term: _Term) -> _Term:
    """The term with each repeated label taken along its diagonal."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            size = term.tensor.shape[first]
            if term.tensor.shape[second] != size:
                raise call.error("a repeated index has two sizes", got=str(term.tensor.type))
            kept = [axis for axis in range(term.tensor.rank) if axis not in (first, second)]
            tensor = call.transpose(term.tensor, [*kept, first, second])
            rest = tensor.shape[:-2]
            flat = call.reshape(tensor, (*rest, size * size))
            tensor = call.emit(Slice((0,) * flat.rank, (*(1,) * len(rest), size + 1), (*rest, size)), flat)
            term = _Term(tensor, "".join(term.labels[axis] for axis in kept) + label)
    return term


def _summed(call: Call, term: _Term, needed: set[str]) -> _Term:
    """The term with labels summed away that nobody else has."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    return _Term(call.reduce("sum", term.tensor, axes, keepdims=False), "".join(c for c in term.labels if c in needed))


def _combine(call: Call, a: _Term, b: _Term, later: set[str]) -> _Term:
    """The product of two terms, summed over the labels that are not needed later."""
    sizes = {
        label: max(a.size(label), b.size(label)) if a.size(label) and b.size(label) else 0
        for label in a.labels + b.labels
    }
    for term in (a, b):
        if any(size not in (sizes[label], 1) for label, size in zip(term.labels, term.tensor.shape, strict=True)):
            raise call.error("an index has two sizes", got=f"{a.tensor.type} and {b.tensor.type}")
    shared = [label for label in a.labels if label in b.labels]
    contracted = [label for label in shared if label not in later]
    batch = [label for label in shared if label in later]
    if not contracted:
        labels = batch + [c for c in a.labels if c not in shared] + [c for c in b.labels if c not in shared]
        return _Term(call.binary("mul", _aligned(call, a, labels), _aligned(call, b, labels)), "".join(labels))
    rows = [label for label in a.labels if label not in shared]
    columns = [label for label in b.labels if label not in shared]
    left = _matrix(call, a, sizes, (batch, rows, contracted))
    right = _matrix(call, b, sizes, (batch, contracted, columns))
    labels = batch + rows + columns
    return _Term(call.reshape(call.emit(MatMul(), left, right), [sizes[label] for label in labels]), "".join(labels))


def _aligned(call: Call, term: _Term, labels: Sequence[str]) -> Tensor:
    """The tensor with its dimensions in the order of `labels`, ones for labels it has not."""
    order = [term.labels.index(label) for label in labels if label in term.labels]
    return call.reshape(call.transpose(term.tensor, order), [term.size(label) for label in labels])


def _matrix(call: Call, term: _Term, sizes: dict[str, int], groups: tuple[list[str], list[str], list[str]]) -> Tensor:
    """The tensor as a batch of matrices: batch, row and column labels, each of the last two groups one dimension."""
    labels = [label for group in groups for label in group]
    full = call.expand(_aligned(call, term, labels), [sizes[label] for label in labels])
    batch, rows, columns = ([sizes[label] for label in group] for group in groups)
    return call.reshape(full, (*batch, math.prod(rows), math.prod(columns)))
