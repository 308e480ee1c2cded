"""Optional values; one that is there is its tensor."""

from __future__ import annotations

import numpy as np

from packer.importers.onnx.builder import Tensor
from packer.importers.onnx.call import Call
from packer.importers.onnx.registry import handler


@handler("OptionalHasElement")
def has_element(call: Call) -> Tensor:
    return call.literal(np.array(call.has(0)))


@handler("Optional", "OptionalGetElement")
def element(call: Call) -> Tensor:
    return call.tensor(0)
