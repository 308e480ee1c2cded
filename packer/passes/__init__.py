"""Graph passes, one a file: each takes a graph and gives a graph that computes the same with less."""

from __future__ import annotations

from collections.abc import Callable

from packer.ir import Graph
from packer.passes.activate_before_pool import activate_before_pool
from packer.passes.fold_constant_channels import fold_constant_channels
from packer.passes.fold_constants import fold_constants
from packer.passes.fold_scale import fold_scale
from packer.passes.fuse_activation import fuse_activation
from packer.passes.fuse_bias import fuse_bias
from packer.passes.fuse_pad import fuse_pad
from packer.passes.fuse_residual import fuse_residual
from packer.passes.make_dot_products import make_dot_products
from packer.passes.make_lookups import make_lookups
from packer.passes.make_patches import make_patches
from packer.passes.make_pointwise import make_pointwise
from packer.passes.make_products import make_products
from packer.passes.make_scale_shift import make_scale_shift
from packer.passes.make_subpixel import make_subpixel
from packer.passes.merge_clips import merge_clips
from packer.passes.merge_duplicates import merge_duplicates
from packer.passes.merge_parallel import merge_parallel
from packer.passes.merge_reductions import merge_reductions
from packer.passes.merge_transposes import merge_transposes
from packer.passes.multiply_powers import multiply_powers
from packer.passes.nest_concats import nest_concats
from packer.passes.recognise_gelu import recognise_gelu
from packer.passes.recognise_leaky import recognise_leaky
from packer.passes.recognise_normalize import recognise_normalize
from packer.passes.recognise_quantized import recognise_quantized
from packer.passes.recognise_swish import recognise_swish
from packer.passes.remove_dead import remove_dead
from packer.passes.remove_outside_taps import remove_outside_taps
from packer.passes.remove_unread_channels import remove_unread_channels
from packer.passes.scale_integer import scale_integer
from packer.passes.scale_normalized import scale_normalized
from packer.passes.simplify_movement import simplify_movement
from packer.passes.sink_transposes import sink_transposes
from packer.passes.slice_gathers import slice_gathers

__all__ = ["PASSES", "optimize"]

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    sink_transposes,
    simplify_movement,  # before quantized products are looked for between transposes
    recognise_quantized,  # before constant weights become floats
    make_lookups,  # of what is left
    scale_integer,  # before biases become something else
    remove_dead,
    fold_constants,
    merge_duplicates,
    slice_gathers,
    recognise_gelu,  # before its pieces are merged with others
    recognise_leaky,
    recognise_normalize,
    multiply_powers,  # when those that are part of something else are gone
    scale_normalized,
    merge_clips,
    merge_reductions,
    nest_concats,
    fuse_pad,
    remove_outside_taps,
    make_scale_shift,
    fold_scale,
    fuse_bias,
    merge_parallel,
    recognise_swish,
    activate_before_pool,
    fuse_activation,
    fuse_residual,
    fold_constant_channels,
    remove_unread_channels,
    make_products,  # when convolutions have theirs
    make_pointwise,  # when products have their biases and activations
    make_dot_products,
    make_subpixel,
    make_patches,
    merge_transposes,  # when it is known which products are convolutions
)


def optimize(graph: Graph) -> Graph:
    """Run all passes in order, again and again until none changes anything; the result is validated."""
    while True:
        before = graph
        for run in PASSES:
            graph = run(graph)
        if graph is before:
            break
    graph.validate()
    return graph
