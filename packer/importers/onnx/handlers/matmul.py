"""Matrix products of floats."""

from __future__ import annotations

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler
from packer.ir.ops import MatMul


@handler("MatMul")
def matmul(call: Call) -> Tensor:
    return call.emit(MatMul(), call.tensor(0), call.tensor(1))


@handler("Gemm")
def gemm(call: Call) -> Tensor:
    """`alpha A' B' + beta C`; alpha goes into the constant operand where there is one, beta into C."""
    a, b, c = call.tensor(0), call.tensor(1), call.optional(2)
    if a.rank != 2 or b.rank != 2:
        raise call.error("Gemm takes matrices", expected="rank 2", got=f"{a.type} and {b.type}")
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    if call.integer("transA", 0):
        a = call.transpose(a, (1, 0))
    if call.integer("transB", 0):
        b = call.transpose(b, (1, 0))
    if b.data is not None:
        b = call.scale(b, alpha)
    else:
        a = call.scale(a, alpha)
    if c is None or beta == 0.0:
        return call.emit(MatMul(), a, b)
    return call.emit(MatMul(), a, b, call.scale(c, beta))
