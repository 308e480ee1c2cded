"""Whole networks in PyTorch: eager, as a CUDA graph, compiled; in two memory layouts and three precisions.

Without a GPU they run on the CPU, to be tried.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.networks import Engines
from benchmarks.gpu.packed import Entrant
from benchmarks.gpu.torch_graph import module_of
from benchmarks.gpu.torch_layers import capture, precision
from packer.ir import Graph

__all__ = ["compiled", "engines"]

_WARM = 3
_LIMITS = {"f32": 1e-4, "tf32": 1e-2, "fp16": 2e-2}  # of the relative error


def engines(graph: Graph, inputs: Mapping[str, np.ndarray], stream: ctypes.c_void_p, emulated: bool) -> Engines:
    """Those that are quickly made."""
    module = module_of(graph)
    for kind in _LIMITS:
        for last in (False, True):
            for how in ("",) if emulated else ("", "graph"):
                name = " ".join(filter(None, ("PyTorch", kind, "channels_last" if last else "", how)))
                yield name, partial(_made, module, inputs, kind, last, how, stream, emulated)


def compiled(graph: Graph, inputs: Mapping[str, np.ndarray], stream: ctypes.c_void_p) -> Engines:
    """Those that take long to make."""
    module = module_of(graph)
    for kind in ("f32", "tf32"):
        yield f"PyTorch {kind} compiled", partial(_made, module, inputs, kind, False, "compiled", stream, False)


def _made(
    module: Any,
    inputs: Mapping[str, np.ndarray],
    kind: str,
    last: bool,
    how: str,
    stream: ctypes.c_void_p,
    emulated: bool,
) -> Entrant:
    """Eager, as a "graph", or "compiled". Inputs are copied to the device from pinned memory and outputs back, as a
    careful program does it."""
    dtype, device = torch.float16 if kind == "fp16" else torch.float32, "cpu" if emulated else "cuda"
    order = torch.channels_last if last else torch.contiguous_format
    own = copy.deepcopy(module).to(device, dtype).to(memory_format=order)
    own = torch.compile(own, mode="reduce-overhead") if how == "compiled" else own
    given = [torch.from_numpy(x) for x in inputs.values()]
    placed = [x.to(device, dtype) for x in given]
    placed = [x.contiguous(memory_format=order) if x.dim() == 4 else x for x in placed]
    given = given if emulated else [x.pin_memory() for x in given]
    made: list[tuple[torch.Tensor, ...]] = []

    def call() -> None:
        with precision(kind == "tf32"), torch.no_grad():
            made[:] = [own(*placed)]

    if emulated:
        call()
        return Entrant(call, lambda: [y.float().numpy() for y in made[0]], _LIMITS[kind])
    other = torch.cuda.ExternalStream(stream.value)
    torch.cuda.synchronize()  # what was copied and converted was on another stream
    with torch.cuda.stream(other):
        for _ in range(_WARM):
            call()
    other.synchronize()
    work = capture(call, 1, other) if how == "graph" else call
    results = [torch.empty(y.shape, dtype=y.dtype).pin_memory() for y in made[0]]

    def launch() -> None:
        with torch.cuda.stream(other):
            work()

    def run() -> None:
        with torch.cuda.stream(other):
            for x, source in zip(placed, given, strict=True):
                x.copy_(source, non_blocking=True)
            work()
            for y, source in zip(results, made[0], strict=True):
                y.copy_(source, non_blocking=True)
        other.synchronize()

    return Entrant(run, lambda: [y.float().numpy() for y in results], _LIMITS[kind], launch)
