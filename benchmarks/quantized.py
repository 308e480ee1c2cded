"""The benchmark networks in bytes: quantised by onnxruntime (QDQ, unsigned activations, signed weights by channel)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.networks import CACHE, Network
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate

__all__ = ["quantized"]


class _Inputs(CalibrationDataReader):  # type: ignore[misc]
    """The input that comes with a network, paler and mirrored."""

    def __init__(self, name: str, x: np.ndarray) -> None:
        self._left: Iterator[np.ndarray] = iter((x, x * np.float32(0.7), np.ascontiguousarray(x[..., ::-1])))
        self._name = name

    def get_next(self) -> dict[str, np.ndarray] | None:
        x = next(self._left, None)
        return None if x is None else {self._name: x}


def quantized(net: Network) -> Network:
    """The network, quantised and evaluated in float64 if it was not yet; its operations are none of floats."""
    path = CACHE / "quantized" / ("real" if net.zeros is None else str(net.zeros)) / f"{net.name}.onnx"
    known = path.with_suffix(".npz")
    if not known.exists() or known.stat().st_mtime < net.onnx.stat().st_mtime:
        path.parent.mkdir(parents=True, exist_ok=True)
        _quantize(net, path)
        graph = import_onnx(path, shapes={}, constants={})
        found = evaluate(graph, {graph.inputs[0]: net.x}, np.float64)
        np.savez(known, *(found[output] for output in graph.outputs))
    with np.load(known) as stored:
        outputs = tuple(stored[f"arr_{i}"] for i in range(len(stored.files)))
    return Network(net.name, net.zeros, path, net.x, outputs, 0)


def _quantize(net: Network, path: Path) -> None:
    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(net.onnx, prepared, skip_symbolic_shape=True)
    graph = onnx.load(prepared, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    (name,) = (value.name for value in graph.input if value.name not in constants)
    quantize_static(
        prepared,
        path,
        _Inputs(name, net.x),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()
