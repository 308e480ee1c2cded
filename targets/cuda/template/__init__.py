"""Sparse convolution by deleting instructions from an operator template, as published.

CUDA C++ with distinct values as weights -> PTX, once for a shape -> without the multiply-adds whose weight is zero. It
is the baseline that direct emission (targets/cuda/emit) is measured against.
"""

from targets.cuda.template.conv import specialised
from targets.cuda.template.shape import knows

__all__ = ["knows", "specialised"]
