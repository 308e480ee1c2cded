"""Sparse layers whose weights are data: pairs of value and offset that a block streams through shared memory."""

from targets.cuda.stream.conv import conv
from targets.cuda.stream.tile import Settings, ranked, settings_of
from targets.cuda.stream.vector import vector

__all__ = ["Settings", "conv", "ranked", "settings_of", "vector"]
