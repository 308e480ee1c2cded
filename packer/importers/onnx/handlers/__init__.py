"""One function an ONNX operator, in files by family; importing this package registers them all."""

from packer.importers.onnx.handlers import (
    constants,
    contributed,
    control,
    convolution,
    einsum,
    elementwise,
    fused,
    index,
    integer,
    matmul,
    movement,
    normalize,
    optional,
    pool,
    quantize,
    recurrent,
    reduce,
    sample,
    signal,
)

__all__ = [
    "constants", "contributed", "control", "convolution", "einsum", "elementwise", "fused", "index", "integer",
    "matmul", "movement", "normalize", "optional", "pool", "quantize", "recurrent", "reduce", "sample", "signal",
]  # fmt: skip
