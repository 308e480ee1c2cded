"""Model formats into the IR; the only place that imports onnx."""

from packer.importers.onnx import import_onnx

__all__ = ["import_onnx"]
