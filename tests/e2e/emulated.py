"""Models packed for the GPU of a Jetson, wherever it has kernels, as PTX alone; and run through the emulator."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import edgert
from packer.api import pack
from tests.targets.cuda.driver import library

__all__ = ["emulated", "make"]

OF_GPUS = ("weight_rounding", "activations", "cuda_route")  # settings that no processor takes


def emulated(model: onnx.ModelProto | Path, path: Path, **options: Any) -> edgert.Session:
    """The session of a model packed to `path`; that of this machine's processor if no operator has kernels."""
    pack(model, path, targets=["jetson"], placement="device", device_code="ptx", **{"golden": False, **options})
    if edgert.read(path).programs[0].device:
        return edgert.load(path, target="jetson", emulate=True, cuda_library=library()._name)
    without = {name: value for name, value in options.items() if name not in OF_GPUS}
    pack(model, path, **{"golden": False, **without})
    return edgert.load(path)


def make(
    model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], constants: dict[str, np.ndarray]
) -> edgert.Session:
    """The same for the ONNX backend interface."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.edge"
        return emulated(model, path, shapes=shapes, constants=constants, weight_rounding="off")
