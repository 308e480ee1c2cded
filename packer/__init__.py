"""Offline packer: an ONNX model goes in, one deterministic bundle comes out."""
