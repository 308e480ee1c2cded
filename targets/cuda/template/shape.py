"""The operator template of a layer's shape: its macros, and its PTX from the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packer.ir import DType
from packer.ir.ops import Activation
from targets.base import TargetError
from targets.cuda.cache import Cache
from targets.cuda.emit.pool import is_number
from targets.cuda.layer import ConvLayer
from targets.cuda.tiling import Tile, choose, tile_of
from targets.cuda.toolchain import Compiled, compile

__all__ = ["MOST_WEIGHTS", "Shape", "knows", "shape_of"]

_SOURCE = Path(__file__).with_name("conv.cu")
MOST_WEIGHTS = 4096  # of a template: compiling takes longer than in proportion, and of more not all loops are unrolled

# kind -> CUDA C++ of f(v) with the parameters {a} and {b}
_ACTIVATIONS = {
    "identity": "(v)",
    "relu": "fmaxf(v, 0.0f)",
    "clip": "fminf(fmaxf(v, {a}), {b})",
    "leaky_relu": "((v) < 0.0f ? {a} * (v) : (v))",
    "hard_sigmoid": "fmaxf(fminf(fmaf(v, {a}, {b}), 1.0f), 0.0f)",
    "hard_swish": "((v) * fmaxf(fminf(fmaf(v, {a}, {b}), 1.0f), 0.0f))",
    "sigmoid": "__fdividef(1.0f, 1.0f + __expf(-(v)))",
    "silu": "__fdividef(v, 1.0f + __expf(-{a} * (v)))",
}
# CUDA C++ of two joined values, and of what is kept of a window
_POOLS = {
    "max": {"JOIN(a,b)": "((a) != (a) || (b) != (b) ? __int_as_float(0x7FC00000) : fmaxf(a, b))", "POOLED(v)": "(v)"},
    "numbers": {"JOIN(a,b)": "fmaxf(a, b)", "POOLED(v)": "(v)"},
    "average": {"JOIN(a,b)": "__fadd_rn(a, b)", "POOLED(v)": "((v) * 0.25f)"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A layer's shape, of which a template is made for `filters` output channels a thread; weights play no part."""

    layer: ConvLayer
    tile: Tile
    filters: int

    def macros(self) -> dict[str, int | str]:
        """What the source's macros stand for."""
        layer, tile = self.layer, self.tile
        source, target = layer.source, layer.target
        found: dict[str, int | str] = {
            "FILTERS": self.filters,
            "CHUNK": tile.chunk,
            "KERNEL_H": layer.kernel[0],
            "KERNEL_W": layer.kernel[1],
            "STRIDE_H": layer.strides[0],
            "STRIDE_W": layer.strides[1],
            "DILATION_H": layer.dilations[0],
            "DILATION_W": layer.dilations[1],
            "THREADS": tile.threads,
            "TILE_H": tile.rows,
            "TILE_W": tile.columns,
            "TILES_ACROSS": tile.grid(layer)[1],
            "LINE": tile.line,
            "STEP": tile.step,
            "PASSES": tile.passes,
            "PITCH": tile.pitch,
            "PHASE": tile.phase,
            "CHANNEL": tile.channel,
            "X_BEGIN": source.origin - layer.pads[0] * source.pitch - layer.pads[1],
            "X_CHANNELS": source.channels,
            "X_PLANE": source.plane,
            "X_PITCH": source.pitch,
            "Y_BEGIN": target.origin,
            "Y_CHANNELS": target.channels,
            "Y_PLANE": target.plane,
            "Y_PITCH": target.pitch,
            "Y_HEIGHT": layer.extent[0],
            "Y_WIDTH": layer.extent[1],
            "ACTIVATE(v)": _activation(layer.activation),
        }
        if layer.pool:
            found |= _POOLS["numbers" if layer.pool == "max" and is_number(layer.activation) else layer.pool]
        if layer.added is not None:
            found |= {
                "RESIDUAL": 1,
                "A_BEGIN": layer.added.origin,
                "A_PLANE": layer.added.plane,
                "A_PITCH": layer.added.pitch,
            }
        return found

    def compile(self, cache: Cache | None = None) -> Compiled:
        """The template's PTX; the cache finds it by its text, so one serves all weights of the shape."""
        defines = [f"--define-macro={name}={value}" for name, value in self.macros().items()]
        return compile(_SOURCE.read_text(encoding="ascii"), _SOURCE.name, defines, cache)


def knows(activation: Activation | None) -> bool:
    """Whether templates can have this activation."""
    return activation is None or activation.kind in _ACTIVATIONS


def shape_of(layer: ConvLayer, filters: int) -> Shape:
    """The shape with as many input channels at a time as a template of moderate size allows, a divisor of all."""
    for planes in (layer.source, layer.target, layer.added):
        if planes is not None and planes.dtype is not DType.F32:
            raise TargetError(f"the template has activations of f32, got {planes.dtype.name.lower()}")
    depth = layer.weights.shape[1]
    tile = choose(layer.geometry, filters)
    most = max(1, min(tile.chunk, MOST_WEIGHTS // (filters * layer.kernel[0] * layer.kernel[1])))
    chunk = max(c for c in range(1, most + 1) if depth % c == 0)
    found = tile_of(layer.geometry, tile.rows, tile.columns, chunk)
    assert found is not None, "fewer channels at a time need less shared memory"
    return Shape(layer, found, filters)


def _activation(activation: Activation | None) -> str:
    if activation is None:
        return "(v)"
    if activation.kind not in _ACTIVATIONS:
        raise TargetError(f"activation: expected {', '.join(_ACTIVATIONS)}, got '{activation.kind}'")
    alpha, beta = (f"({min(max(p, -3e38), 3e38)!r}f)" for p in (float(activation.alpha), float(activation.beta)))
    return _ACTIVATIONS[activation.kind].format(a=alpha, b=beta)
