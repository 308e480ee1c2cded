"""The ONNX model run by somebody else: onnxruntime, or ONNX's own reference."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from edgert.dtypes import Array

__all__ = ["Reference", "open_reference"]


@dataclass(frozen=True, slots=True)
class Reference:
    """An ONNX model ready to run elsewhere."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    evaluate: Callable[[dict[str, Array]], Sequence[Any]]

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises InvalidArgumentError if an input has no array."""
        import numpy as np

        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise InvalidArgumentError(
                f"the model's input '{missing[0]}' is no input of the bundle\n"
                f"If packing made it a constant, give its value again: --pin {missing[0]}=FILE"
            )
        results = self.evaluate({name: arrays[name] for name in self.inputs})
        return {name: np.asarray(result) for name, result in zip(self.outputs, results, strict=True)}


def open_reference(model: Path, which: str) -> Reference:
    """`which`: "onnxruntime", "onnx", or "auto" for the first of them that is installed."""
    if which not in ("auto", "onnxruntime", "onnx"):
        raise InvalidArgumentError(f"--reference: expected auto, onnxruntime or onnx, got '{which}'")
    if not model.is_file():
        raise InvalidArgumentError(f"{model}: expected an ONNX model, got no such file")
    if which == "auto":
        which = "onnx" if importlib.util.find_spec("onnxruntime") is None else "onnxruntime"
    try:
        return _onnx(model) if which == "onnx" else _onnxruntime(model)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # of whatever classes theirs are
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InvalidArgumentError(f"{model}: expected an ONNX model that {which} can run\ngot: {reason}") from error


def _onnxruntime(model: Path) -> Reference:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = tuple(value.name for value in session.get_inputs())
    outputs = tuple(value.name for value in session.get_outputs())
    name = f"onnxruntime {onnxruntime.__version__}"
    return Reference(name, inputs, outputs, lambda arrays: session.run(list(outputs), arrays))


def _onnx(model: Path) -> Reference:
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load(str(model))
    initialised = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(value.name for value in proto.graph.input if value.name not in initialised)
    outputs = tuple(value.name for value in proto.graph.output)
    evaluator = ReferenceEvaluator(proto)
    return Reference(f"onnx {onnx.__version__}", inputs, outputs, lambda arrays: evaluator.run(list(outputs), arrays))
