"""ONNX models into the IR: `import_onnx`."""

from packer.importers.onnx.model import import_onnx

__all__ = ["import_onnx"]
