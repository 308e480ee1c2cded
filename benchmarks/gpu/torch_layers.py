"""What others make of a convolution: cuDNN, cuBLAS and cuSPARSE on a matrix of columns, 2:4 sparsity, through PyTorch.

All compute the convolution and its bias but no activation. Without a GPU the same runs on the CPU, to be tried.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.gpu.placed import checked
from targets.cuda.layer import ConvLayer

__all__ = ["Peer", "TorchLayers", "capture", "precision", "release"]

_WARM = 3  # calls before the capture, in which algorithms are chosen
_MULTIPLE = 64  # of rows and columns of 2:4 matrices
# relative errors beyond which something is wrong
_F32, _TF32, _F16 = 1e-4, 3e-3, 1e-2


@dataclass(frozen=True, slots=True)
class Peer:
    """`work` gives one call to the current stream and returns the output [N, K, H, W]. `sparsity` is that of the
    weights used; where they are others, `limit` of the error is None."""

    sparsity: float
    work: Callable[[], torch.Tensor]
    tf32: bool = False
    limit: float | None = _F32


@dataclass(slots=True)
class TorchLayers:
    """Peers of one layer with dense weights and with those of `sparse`, over an input x [N, C, H, W]."""

    layer: ConvLayer
    sparse: Mapping[float, ConvLayer]
    x: np.ndarray
    stream: ctypes.c_void_p
    emulated: bool
    _pool: Any = field(init=False, default=None)
    _inputs: dict[torch.dtype, torch.Tensor] = field(init=False, default_factory=dict)

    def peers(self) -> Iterator[tuple[str, Callable[[], Peer]]]:
        """Each by its name, made when it is asked for, which may fail for lack of memory or support."""
        for precision in ("f32", "tf32", "fp16"):
            for last in (False, True):
                name = f"cuDNN {precision}{' channels_last' if last else ''}"
                yield name, partial(self._cudnn, precision, last, slice(None), slice(None))
        half_filters, half_depth = slice(self.layer.weights.shape[0] // 2), slice(self.layer.weights.shape[1] // 2)
        yield "cuDNN f32 half the filters", partial(self._cudnn, "f32", False, half_filters, slice(None))
        if half_depth.stop:
            yield "cuDNN f32 half the channels", partial(self._cudnn, "f32", False, slice(None), half_depth)
        for precision in ("f32", "tf32"):
            yield f"cuBLAS {precision} on columns", partial(self._product, precision)
        for sparsity in self.sparse:
            yield f"cuSPARSE f32 on columns {sparsity}", partial(self._csr, sparsity)
        if not self.emulated:
            yield "2:4 fp16 on columns", self._two_of_four

    def launcher(self, peer: Peer, calls: int) -> Callable[[], None]:
        """Gives so many calls to the stream, as a graph."""
        if self.emulated:
            return partial(_some, peer.work, calls)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.ExternalStream(self.stream.value)
        with precision(peer.tf32), torch.no_grad():
            replay = capture(peer.work, calls, stream, self._pool)

        def launch() -> None:
            with torch.cuda.stream(stream):
                replay()

        return launch

    def checked(self, peer: Peer) -> np.ndarray:
        """The images of the output that are compared, after ReLU."""
        with precision(peer.tf32), torch.no_grad():
            found = peer.work()[checked(self.layer)].float().clamp_min(0).cpu().numpy()
        return np.asarray(found)

    def _cudnn(self, kind: str, last: bool, filters: slice, depth: slice) -> Peer:
        dtype = torch.float16 if kind == "fp16" else torch.float32
        order = torch.channels_last if last else torch.contiguous_format
        x = self._input(dtype)[:, depth].contiguous(memory_format=order)
        w = self._put(self.layer.weights[filters, depth], dtype).contiguous(memory_format=order)
        bias = None if self.layer.bias is None else self._put(self.layer.bias[filters], dtype)
        pads, strides = self._pads(), list(self.layer.strides)

        def work() -> torch.Tensor:
            return F.conv2d(x, w, bias, strides, pads)

        whole = filters == slice(None) == depth
        limit = {"f32": _F32, "tf32": _TF32, "fp16": _F16}[kind]
        return Peer(0.0, work, kind == "tf32", limit if whole else None)

    def _product(self, kind: str) -> Peer:
        w, x, bias = self._matrix(self.layer.weights), self._input(), self._bias()
        limit = _TF32 if kind == "tf32" else _F32
        return Peer(0.0, lambda: self._image(w @ self._columns(x), bias), kind == "tf32", limit)

    def _csr(self, sparsity: float) -> Peer:
        w, x, bias = self._matrix(self.sparse[sparsity].weights).to_sparse_csr(), self._input(), self._bias()
        return Peer(sparsity, lambda: self._image(w @ self._columns(x), bias))

    def _two_of_four(self) -> Peer:
        """The two largest of each four weights; both matrices are filled up with zeros to the sizes that it takes."""
        filters = len(self.layer.weights)
        w = self._matrix(self.layer.weights)
        w = F.pad(w, (0, -w.shape[1] % _MULTIPLE, 0, -filters % _MULTIPLE)).half()
        fours = w.reshape(-1, 4)
        kept = torch.zeros_like(fours).scatter_(1, fours.abs().topk(2, 1).indices, 1)
        packed = torch.sparse.to_sparse_semi_structured((fours * kept).reshape(w.shape))
        x, bias = self._input(torch.float16), self._bias(torch.float16)
        fill = -x.shape[1] * self.layer.kernel[0] * self.layer.kernel[1] % _MULTIPLE

        def work() -> torch.Tensor:
            columns = self._columns(x)
            found: torch.Tensor = packed @ F.pad(columns, (0, -columns.shape[1] % 8, 0, fill))
            return self._image(found[:filters, : columns.shape[1]], bias)

        return Peer(0.5, work, limit=None)

    def _put(self, array: np.ndarray, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        found = torch.from_numpy(np.ascontiguousarray(array))
        return found.to("cpu" if self.emulated else "cuda", dtype)

    def _matrix(self, weights: np.ndarray) -> torch.Tensor:
        return self._put(weights.reshape(len(weights), -1))

    def _pads(self) -> list[int]:
        """Of rows and columns; the operators have as much on both sides."""
        assert self.layer.pads[:2] == self.layer.pads[2:]
        return list(self.layer.pads[:2])

    def _columns(self, x: torch.Tensor) -> torch.Tensor:
        """[C R S, N H W]: the window of each pixel of the output is a column."""
        (rows, columns), (down, across), (top, left) = self.layer.kernel, self.layer.strides, self._pads()
        windows = F.pad(x, (left, left, top, top)).unfold(2, rows, down).unfold(3, columns, across)
        return windows.permute(1, 4, 5, 0, 2, 3).reshape(x.shape[1] * rows * columns, -1)

    def _image(self, product: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """[K, N H W] with the bias as [N, K, H, W], in the order in which it is."""
        target = self.layer.target
        return (product + bias).reshape(-1, self.layer.images, target.height, target.width).transpose(0, 1)

    def _bias(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        bias = np.zeros(len(self.layer.weights), np.float32) if self.layer.bias is None else self.layer.bias
        return self._put(bias, dtype)[:, None]

    def _input(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """x on the device, once for each type."""
        if torch.float32 not in self._inputs:
            self._inputs[torch.float32] = self._put(self.x)
        if dtype not in self._inputs:
            self._inputs[dtype] = self._inputs[torch.float32].to(dtype)
        return self._inputs[dtype]


def _some(work: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        work()


def capture(work: Callable[[], object], calls: int, stream: Any, pool: Any = None) -> Callable[[], None]:
    """Replays a graph of so many calls. Before that it is called some times, so that algorithms are chosen and memory
    is there; other threads may use the driver meanwhile."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()  # operands may come from another stream
    with torch.cuda.stream(stream):
        _some(work, _WARM)
        stream.synchronize()
        graph.capture_begin(pool, capture_error_mode="relaxed")
        try:
            _some(work, calls)
        finally:
            graph.capture_end()

    def replay(kept: Callable[[], object] = work) -> None:  # a graph does not keep the memory that it reads
        graph.replay()

    return replay


def release() -> None:
    """Gives the memory that PyTorch holds back to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def precision(tf32: bool) -> Iterator[None]:
    """Meanwhile products of float32 may be TF32's, or may not; algorithms are chosen by trying them."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32, convolutions.benchmark
    convolutions.allow_tf32 = products.allow_tf32 = tf32
    convolutions.benchmark = True
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32, convolutions.benchmark = before
