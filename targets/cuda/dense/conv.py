"""Convolution as a product: rows are output channels, columns the pixels of all images, terms the weights of a channel.

Pixels that are pooled are columns beside each other. Input is gathered from halo-padded planes, so there is no matrix
of columns in memory and no test of edges. The idea is that of Chetlur et al., "cuDNN: efficient primitives for deep
learning", 2014.
"""

from __future__ import annotations

import numpy as np

from packer.ir import DType
from targets.cuda.dense.epilogue import Matrix, finish, own_column
from targets.cuda.dense.operands import Gathered, Packed
from targets.cuda.dense.pack import Terms, packed, terms_of
from targets.cuda.dense.product import Place, product, shared_bytes
from targets.cuda.dense.tile import Tile, choose
from targets.cuda.emit.address import divide, pixel
from targets.cuda.emit.pool import pixel_in
from targets.cuda.emit.ptx import Builder, module
from targets.cuda.generic.access import address
from targets.cuda.geometry import RESIDUAL
from targets.cuda.kernel import Code, Kernel
from targets.cuda.layer import ConvLayer, Planes

__all__ = ["conv", "tile_of"]


def tile_of(layer: ConvLayer) -> Tile:
    """What is likely good for the layer."""
    filters, terms = layer.weights.shape[0], int(layer.weights.any(axis=0).sum())
    return choose(filters // layer.group, layer.pixels, terms, layer.group)


def conv(layer: ConvLayer, tile: Tile | None = None) -> Code:
    """The layer in one kernel, all weights multiplied but those of terms that no channel uses. Operands are x, weights,
    perhaps offsets of terms, perhaps the bias, perhaps the residual."""
    tile = tile or tile_of(layer)
    filters = layer.weights.shape[0]
    each = filters // layer.group
    terms = terms_of(layer, tile.depth)
    weights = packed(layer.weights.reshape(layer.group, each, -1), terms.order, tile)
    operands: dict[str, int | np.ndarray] = {"x": 0}
    if len(terms.order):
        operands["weights"] = weights
    if terms.table is not None:
        operands["offsets"] = terms.table
    if layer.bias is not None:
        operands["bias"] = layer.bias.astype(np.float32)
    if layer.added is not None:
        operands["residual"] = RESIDUAL
    b = Builder()
    shared = _body(b, layer, tile, terms)
    grid = (-(-layer.pixels // tile.columns), weights.shape[1], layer.group)
    text = b.entry("dense_conv", (*operands, "y"), tile.threads, shared, tile.registers)
    kernel = Kernel("dense_conv", module(text), grid, tile.threads)
    return Code((kernel,), tuple(operands.values()))


def _body(b: Builder, layer: ConvLayer, tile: Tile, terms: Terms) -> int:
    """Emits the kernel; the bytes of shared memory that it needs."""
    each, depth, pixels = layer.weights.shape[0] // layer.group, layer.weights.shape[1], layer.pixels
    height, width = layer.extent
    place = Place(b, tile)
    column, part = own_column(b, tile, place.thread)
    index = b.new("r", "mad.lo.u32", b.new("r", "mov.u32", "%ctaid.x"), tile.columns, column)
    inside = None
    if pixels % tile.columns:
        inside = b.new("p", "setp.lt.u32", index, pixels)
        index = b.new("r", "min.u32", index, pixels - 1)
    image, within = divide(b, index, height * width, pixels)
    y, x = (pixel_in if layer.pool else divide)(b, within, width, height * width)
    group = b.new("r", "mov.u32", "%ctaid.z")
    block = b.new("r", "mov.u32", "%ctaid.y")

    begin = layer.source.origin - layer.pads[0] * layer.source.pitch - layer.pads[1] + terms.begin
    first = b.new(
        "r", "mad.lo.u32", group, depth * layer.source.plane, pixel(b, layer.source, image, y, x, layer.strides)
    )
    at = address(b, "x", b.new("r", "add.u32", first, begin), layer.source.dtype)
    size = layer.source.dtype.bytes
    stride, step = (None if n is None else n * size for n in (terms.stride, terms.step))
    table = address(b, "offsets", b.new("r", "mov.u32", 0), DType.U32) if terms.table is not None else ""
    columns = Gathered(b, tile, place.thread, part, at, layer.source.dtype, stride, step, table)

    weights = ""
    if len(terms.order):
        blocks = -(-each // tile.rows)
        number = b.new("r", "mad.lo.u32", group, blocks, block)
        start = b.new("r", "mul.lo.u32", number, len(terms.order) * tile.rows)
        weights = address(b, "weights", start, DType.F32)
    rows = Packed(b, tile, place.thread, weights)
    sums = product(b, tile, place, rows, columns, len(terms.order) // tile.depth)

    row = b.new("r", "mad.lo.u32", part, 4, b.new("r", "mul.lo.u32", block, tile.rows))
    limit = None
    if each % tile.rows:
        limit = b.new("r", "sub.u32", each, b.new("r", "min.u32", row, each))
    channel = b.new("r", "mad.lo.u32", group, each, row)

    def matrix(name: str, planes: Planes, shift: int = 0) -> Matrix:
        row, column = (b.new("r", "shr.u32", at, shift) if shift else at for at in (y, x))
        place = b.new("r", "mad.lo.u32", channel, planes.plane, pixel(b, planes, image, row, column))
        at = address(b, name, b.new("r", "add.u32", place, planes.origin), planes.dtype)
        return Matrix(at, planes.plane, planes.dtype)

    bias = None if layer.bias is None else Matrix(address(b, "bias", channel, DType.F32), 1)
    residual = None if layer.added is None else matrix("residual", layer.added)
    target = matrix("y", layer.target, 1 if layer.pool else 0)
    finish(b, tile, place, sums, target, bias, residual, layer.activation, limit, inside, layer.pool)
    b.emit("ret")
    return shared_bytes(tile, rows, columns)
