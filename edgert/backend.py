"""The ONNX backend interface over the packer and the runtime, as onnx.backend.test expects it.

Programs are compiled ahead of time for static shapes, so a model is packed at its first run: inputs that determine
shapes (the target of a Reshape, the pads of a Pad) are pinned to the values given then, and the model is packed again
when they change.
https://onnx.ai/onnx/api/backend.html
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from edgert.session import Session, load
from packer.api import pack
from packer.errors import ModelError

__all__ = ["EdgertBackend", "EdgertRep", "is_compatible", "prepare", "run_model", "supports_device"]


# makes a session of a model, the shapes of its inputs, and the values of the others
Make = Callable[[onnx.ModelProto, dict[str, tuple[int, ...]], dict[str, np.ndarray]], Session]


class EdgertRep(BackendRep):  # type: ignore[misc]
    """A model ready to run; packed when its inputs are first seen."""

    def __init__(self, model: onnx.ModelProto, make: Make) -> None:
        self._model = model
        self._make = make
        initialised = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in initialised]
        self._pinned: dict[str, np.ndarray] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._session: Session | None = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for `inputs`: a sequence in the model's order, or arrays by name."""
        named = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(self._names, _sequence(inputs), strict=False))
        arrays = {name: np.asarray(value) for name, value in named.items()}
        session = self._prepared(arrays)
        results = session.run({name: array for name, array in arrays.items() if name not in self._pinned})
        return tuple(results[value.name] for value in self._model.graph.output)

    def _prepared(self, arrays: dict[str, np.ndarray]) -> Session:
        """The session for these shapes and pinned values."""
        shapes = {name: array.shape for name, array in arrays.items()}
        same = all(np.array_equal(value, arrays[name]) for name, value in self._pinned.items())
        if self._session is not None and same and shapes == self._shapes:
            return self._session
        self._shapes, self._pinned = shapes, {}
        while True:
            try:
                free = {name: shape for name, shape in shapes.items() if name not in self._pinned}
                self._session = self._make(self._model, free, self._pinned)
                return self._session
            except ModelError as error:
                missing = error.input_name
                if missing is None or missing in self._pinned or missing not in arrays:
                    raise
                self._pinned[missing] = arrays[missing]


def _pack_and_load(
    model: onnx.ModelProto,
    shapes: dict[str, tuple[int, ...]],
    constants: dict[str, np.ndarray],
    target: str = "cpu",
    isa: str | None = None,
) -> Session:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.edge"
        pack(model, path, targets=(target,), shapes=shapes, constants=constants, golden=False)
        return load(path, target=target, isa=isa)


def _sequence(inputs: Any) -> Sequence[Any]:
    return inputs if isinstance(inputs, Sequence) else [inputs]


class EdgertBackend(Backend):  # type: ignore[misc]
    """The stateless interface: `prepare` gives an EdgertRep."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> EdgertRep:
        """A representation of `model`; `target` and `isa` may be given as for `edgert.load`."""
        return EdgertRep(model, functools.partial(_pack_and_load, **kwargs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return bool(Device(device).type == DeviceType.CPU)


is_compatible = EdgertBackend.is_compatible
prepare = EdgertBackend.prepare
run_model = EdgertBackend.run_model
supports_device = EdgertBackend.supports_device
