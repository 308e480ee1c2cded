"""A `MatMul` node as products of matrices: what lies where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packer.ir import DType
from packer.ir.ops import Activation
from targets.cuda.array import Array
from targets.cuda.dense.fold import Folded
from targets.cuda.emit.activation import activate
from targets.cuda.emit.address import divide
from targets.cuda.emit.element import fetch, store, widen
from targets.cuda.emit.ptx import Builder
from targets.cuda.generic.access import Walk, address, strides_over

__all__ = ["Problem", "Side", "problem_of"]

_WARP = 32


@dataclass(frozen=True, slots=True)
class Side:
    """Matrices in memory: strides in elements from product to product, from row to row, from column to column."""

    dtype: DType
    origin: int
    products: tuple[int, ...]
    row: int
    column: int

    @property
    def transposed(self) -> Side:
        """The same with rows for columns."""
        return Side(self.dtype, self.origin, self.products, self.column, self.row)


@dataclass(frozen=True, slots=True)
class Problem:
    """`y = a @ b + bias` for each product: a is rows x terms, b terms x columns. `products` are the extents of the
    dimensions that number the products."""

    rows: int
    columns: int
    terms: int
    products: tuple[int, ...]
    a: Side
    b: Side
    y: Side
    bias: Side | None

    @property
    def count(self) -> int:
        """How many products there are."""
        found = 1
        for extent in self.products:
            found *= extent
        return found

    @property
    def transposed(self) -> Problem:
        """The same as `y.T = b.T @ a.T + bias.T`."""
        bias = None if self.bias is None else self.bias.transposed
        sides = (self.b.transposed, self.a.transposed, self.y.transposed, bias)
        return Problem(self.columns, self.rows, self.terms, self.products, *sides)

    def place(self, b: Builder, name: str, side: Side, product: str, row: str | None, column: str | None) -> str:
        """A register with the address of an element of a side, which the parameter `name` points to; row and column 0
        where they are None. `product` has the product's number; it is not looked at if there is one only."""
        offset = b.new("r", "mov.u32", side.origin)
        limit = self.count
        for axis in reversed(range(len(self.products))):
            product, index = divide(b, product, self.products[axis], limit) if axis else (product, product)
            limit = -(-limit // self.products[axis])
            if side.products[axis]:
                offset = b.new("r", "mad.lo.u32", index, side.products[axis], offset)
        for index_or_none, stride in ((row, side.row), (column, side.column)):
            if index_or_none is not None and stride:
                offset = b.new("r", "mad.lo.u32", index_or_none, stride, offset)
        return address(b, name, offset, side.dtype)

    def finish(
        self, b: Builder, sum: Folded, outputs: int, first: str, surplus: bool, activation: Activation | None
    ) -> None:
        """Store activation(total + bias) of the only product, of what the lanes of a warp hold: sums of each row and of
        so many columns from `first` on, with `surplus` of which there may be fewer. Other lanes return."""
        row, place = divide(b, sum.number, outputs, _WARP)
        column = b.new("r", "add.u32", first, place)
        b.emit(f"@{sum.surplus} ret")
        if sum.count > self.rows * outputs:
            b.emit(f"@{b.new('p', 'setp.ge.u32', row, self.rows)} ret")
        if surplus:
            b.emit(f"@{b.new('p', 'setp.ge.u32', column, self.columns)} ret")
        total = sum.value
        if self.bias is not None:
            at = self.place(b, "bias", self.bias, "", row, column)
            value = widen(b, self.bias.dtype, fetch(b, self.bias.dtype, f"[{at}]"))
            total = b.new("f", "add.rn.f32", total, value)
        at = self.place(b, "y", self.y, "", row, column)
        store(b, self.y.dtype, f"[{at}]", activate(b, total, activation))
        b.emit("ret")


def problem_of(a: Array, b: Array, y: Array, bias: Array | None) -> Problem:
    """The products of `numpy.matmul(a, b)`. Dimensions that number products of one b are rows, where strides allow."""
    terms = a.shape[-1]
    outer = len(y.shape) - (len(a.shape) > 1) - (len(b.shape) > 1)
    rows = a.shape[-2] if len(a.shape) > 1 else 1
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    batch = y.shape[:outer]

    def matrices(strides: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """Strides over y as those of products, rows and columns."""
        rest = list(strides[outer:])
        row = rest.pop(0) if len(a.shape) > 1 else 0
        return tuple(strides[:outer]), row, rest[0] if rest else 0

    def operand(array: Array) -> tuple[int, ...]:
        """Strides of an operand's matrices over the dimensions of products."""
        return strides_over(Array(array.dtype, array.shape[:-2], array.strides[:-2]), batch)

    of_y = matrices(y.strides)
    of_bias = None if bias is None else matrices(strides_over(bias, y.shape))
    row = a.strides[-2] if len(a.shape) > 1 else 0
    walk = Walk.over(
        (*batch, rows),
        (*operand(a), row),
        (*operand(b), 0),
        (*of_y[0], of_y[1]),
        *(() if of_bias is None else [(*of_bias[0], of_bias[1])]),
    )
    extents, strides = walk.extents, list(walk.strides)
    if not extents or strides[1][-1] != 0:  # the last dimension numbers products
        extents, strides = (*extents, 1), [(*own, 0) for own in strides]

    def side(array: Array, own: tuple[int, ...], column: int) -> Side:
        return Side(array.dtype, array.origin, own[:-1], own[-1], column)

    step = b.strides[-2] if len(b.shape) > 1 else b.strides[0]
    right = Side(b.dtype, b.origin, strides[1][:-1], step, b.strides[-1] if len(b.shape) > 1 else 0)
    return Problem(
        extents[-1],
        columns,
        terms,
        extents[:-1],
        side(a, strides[0], a.strides[-1]),
        right,
        side(y, strides[2], of_y[2]),
        None if bias is None or of_bias is None else side(bias, strides[3], of_bias[2]),
    )
