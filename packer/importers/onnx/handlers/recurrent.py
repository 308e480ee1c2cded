"""Recurrent layers."""

from __future__ import annotations

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call, Unsupported
from packer.importers.onnx.registry import handler
from packer.ir.ops import Recurrent

# ONNX name -> (kind of Unary, default alpha and beta; None where it takes none)
_ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "relu": ("relu", None, None),
    "tanh": ("tanh", None, None),
    "sigmoid": ("sigmoid", None, None),
    "leakyrelu": ("leaky_relu", 0.01, None),
    "thresholdedrelu": ("thresholded_relu", 1.0, None),
    "hardsigmoid": ("hard_sigmoid", 0.2, 0.5),
    "elu": ("elu", 1.0, None),
    "softsign": ("softsign", None, None),
    "softplus": ("softplus", None, None),
}
_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


@handler("RNN", "GRU", "LSTM")
def recurrent(call: Call) -> tuple[Tensor, ...]:
    kind = _kind(call)
    direction = call.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise call.error("direction not known", expected="forward, reverse or bidirectional", got=direction)
    activations, alphas, betas = _activations(call, 2 if direction == "bidirectional" else 1)
    op = Recurrent(
        kind.lower(), direction, call.integer("hidden_size", call.tensor(2).shape[-1]), activations, alphas, betas,
        clip=call.number("clip", 0.0),
        linear_before_reset=bool(call.integer("linear_before_reset", 0)),
        input_forget=bool(call.integer("input_forget", 0)),
        batch_major=bool(call.integer("layout", 0)),
    )  # fmt: skip
    inputs = list(call.inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return call.emit_many(op, *inputs, outputs=3 if kind == "LSTM" else 2)


def _kind(call: Call) -> str:
    return str(call.node.op_type).removeprefix("DynamicQuantize")


def _activations(call: Call, directions: int) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    """Kinds, alphas and betas, one entry a gate and direction; parameters go in order to the kinds that take them."""
    default = _DEFAULTS[_kind(call)]
    names = call.texts("activations") or default * directions
    if len(names) != len(default) * directions:
        raise call.error("activations do not fit", expected=str(len(default) * directions), got=str(len(names)))
    given_alphas, given_betas = (
        iter(call.numbers("activation_alpha") or ()),
        iter(call.numbers("activation_beta") or ()),
    )
    kinds, alphas, betas = [], [], []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise Unsupported(f"activation {name}")
        kind, alpha, beta = _ACTIVATIONS[name.lower()]
        kinds.append(kind)
        alphas.append(0.0 if alpha is None else next(given_alphas, alpha))
        betas.append(0.0 if beta is None else next(given_betas, beta))
    return tuple(kinds), tuple(alphas), tuple(betas)
