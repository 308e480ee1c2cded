"""Sparse convolution emitted directly: straight-line PTX of the multiply-adds whose weight is not zero.

One thread computes up to 64 output channels of one pixel, so each value that is loaded is used by many multiply-adds
and positions of weights live in the instructions only. The idea is that of Dong, Liu, Li, Feng, "Performance
optimisation of sparse CNNs on GPUs", Journal of Software 31(9), 2020, without their detour over a compiled template
(targets/cuda/template).
"""

from targets.cuda.emit.conv import CHUNK, Settings, emit, settings_of

__all__ = ["CHUNK", "Settings", "emit", "settings_of"]
