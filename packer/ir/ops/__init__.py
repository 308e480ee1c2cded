"""The operators of the IR, one family a file. Importers translate ONNX into these; targets compile these."""

from packer.ir.ops.attention import Attention
from packer.ir.ops.base import Activation, Dependence, Op, Part, ShapeError
from packer.ir.ops.bytes import Lookup, QuantizedBinary
from packer.ir.ops.conv import Conv, ConvTranspose
from packer.ir.ops.elementwise import Binary, Cast, DequantizeLinear, QuantizeLinear, ScaleShift, Unary, Where
from packer.ir.ops.index import (
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
)
from packer.ir.ops.integer import DynamicLevels, IntegerConv, IntegerMatMul
from packer.ir.ops.matmul import MatMul
from packer.ir.ops.movement import Concat, Expand, Pad, Reshape, Slice, Tile, Transpose
from packer.ir.ops.normalize import LpNormalize, Lrn, Normalize
from packer.ir.ops.pool import MaxUnpool, Pool
from packer.ir.ops.quantized import QuantizedConv, QuantizedMatMul
from packer.ir.ops.recurrent import Recurrent
from packer.ir.ops.reduce import ArgReduce, CumSum, Reduce, Softmax
from packer.ir.ops.resize import Resize
from packer.ir.ops.sample import GridSample, RoiAlign
from packer.ir.ops.selection import Compress, NonMaxSuppression, NonZero, TopK, Trilu

__all__ = [
    "Activation",
    "ArgReduce",
    "Attention",
    "Binary",
    "Cast",
    "Compress",
    "Concat",
    "Conv",
    "ConvTranspose",
    "CumSum",
    "Dependence",
    "DequantizeLinear",
    "DynamicLevels",
    "Expand",
    "Gather",
    "GatherElements",
    "GatherND",
    "GridSample",
    "IntegerConv",
    "IntegerMatMul",
    "Lookup",
    "LpNormalize",
    "Lrn",
    "MatMul",
    "MaxUnpool",
    "NonMaxSuppression",
    "NonZero",
    "Normalize",
    "OneHot",
    "Op",
    "Pad",
    "Part",
    "Pool",
    "QuantizeLinear",
    "QuantizedBinary",
    "QuantizedConv",
    "QuantizedMatMul",
    "Recurrent",
    "Reduce",
    "Reshape",
    "Resize",
    "ReverseSequence",
    "RoiAlign",
    "ScaleShift",
    "ScatterElements",
    "ScatterND",
    "ShapeError",
    "Slice",
    "Softmax",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unary",
    "Where",
]
