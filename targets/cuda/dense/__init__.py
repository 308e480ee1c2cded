"""Dense convolutions and matrix products: blocks of sums in registers, operands staged in shared memory."""

from targets.cuda.dense.conv import conv, tile_of
from targets.cuda.dense.matmul import matmul
from targets.cuda.dense.tile import TILES, Tile

__all__ = ["TILES", "Tile", "conv", "matmul", "tile_of"]
