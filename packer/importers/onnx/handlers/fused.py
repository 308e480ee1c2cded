"""Operators of onnxruntime's own domain that it fuses networks into when it saves them optimised, as what they were.

Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.handlers.contributed import DOMAIN
from packer.importers.onnx.handlers.convolution import conv
from packer.importers.onnx.handlers.matmul import gemm
from packer.importers.onnx.registry import handler
from packer.ir.ops import MatMul, Normalize

_ACTIVATIONS = {  # kinds of Unary, and what their parameters are by default
    "Relu": ("relu", ()), "Sigmoid": ("sigmoid", ()), "Tanh": ("tanh", ()), "LeakyRelu": ("leaky_relu", (0.01,)),
    "Clip": ("clip", (-3.402823e38, 3.402823e38)), "HardSigmoid": ("hard_sigmoid", (0.2, 0.5)),
    "Softplus": ("softplus", ()), "Softsign": ("softsign", ()), "Elu": ("elu", (1.0,)),
    "ThresholdedRelu": ("thresholded_relu", (1.0,)),
}  # fmt: skip


def _activated(call: Call, y: Tensor, parameters: Sequence[float | None]) -> Tensor:
    name = call.text("activation", "")
    if not name:
        return y
    if name not in _ACTIVATIONS:
        raise Unsupported(f"with the activation {name}")
    kind, usual = _ACTIVATIONS[name]
    given = (*parameters, *(None for _ in usual))
    return call.unary(kind, y, *(u if g is None else g for g, u in zip(given, usual, strict=False)))


@handler("FusedConv", domain=DOMAIN)
def fused_conv(call: Call) -> Tensor:
    """`activation(conv(x, w) + b + z)`."""
    y, added = conv(call), call.optional(3)
    if added is not None:
        y = call.binary("add", y, added)
    return _activated(call, y, call.numbers("activation_params") or ())


@handler("FusedGemm", domain=DOMAIN)
def fused_gemm(call: Call) -> Tensor:
    names = ("activation_alpha", "activation_beta")
    return _activated(call, gemm(call), [call.number(n) if n in call.attributes else None for n in names])


@handler("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(call: Call) -> Tensor:
    """`alpha A' B'`, either transposed in its last two dimensions, or with its batch moved behind all but the last."""
    operands = []
    for index, side in enumerate("AB"):
        x = call.tensor(index)
        axes = list(range(x.rank))
        if call.integer(f"transBatch{side}", 0):
            axes = [*axes[1:-1], 0, axes[-1]]
        if call.integer(f"trans{side}", 0) and x.rank > 1:
            axes[-2:] = axes[:-3:-1]
        operands.append(x if axes == sorted(axes) else call.transpose(x, axes))
    a, b = operands
    return call.emit(MatMul(), a, call.scale(b, call.number("alpha", 1.0)))


@handler("Gelu", "FastGelu", "BiasGelu", "QuickGelu", domain=DOMAIN)
def gelu(call: Call) -> Tensor:
    x, bias = call.tensor(0), call.optional(1)
    if bias is not None:
        x = call.binary("add", x, bias)
    if call.node.op_type == "QuickGelu":
        return call.binary("mul", x, call.unary("sigmoid", call.scale(x, call.number("alpha", 1.702))))
    return call.unary("gelu_tanh" if call.node.op_type == "FastGelu" else "gelu", x)


@handler("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(call: Call) -> tuple[Tensor, ...]:
    """The normalised sum of two operands and a bias; and the sum."""
    if call.wants(1) or call.wants(2):
        raise Unsupported("with mean and deviation as outputs")
    x, scale, shift, bias = call.binary("add", call.tensor(0), call.tensor(1)), *map(call.optional, (2, 3, 4))
    if bias is not None:
        x = call.binary("add", x, bias)
    y = call.emit(Normalize((x.rank - 1,), call.number("epsilon", 1e-12)), x)
    for kind, operand in (("mul", scale), ("add", shift)):
        if operand is not None:
            y = call.binary(kind, y, operand)
    return y, y, y, x
