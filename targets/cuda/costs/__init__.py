"""What kernels ask of a board, estimated from the shapes of their operators: for planning, in microseconds.

targets/cuda/model counts the same in the kernels themselves.
"""

from targets.cuda.costs.dense import dense
from targets.cuda.costs.generic import generic
from targets.cuda.costs.straight import straight
from targets.cuda.costs.streamed import streamed

__all__ = ["dense", "generic", "straight", "streamed"]
