"""CUDA targets: sparse convolution as straight-line code whose weights are immediates (docs/architecture.md)."""
