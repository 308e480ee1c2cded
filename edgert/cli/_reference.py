"""The ONNX model run by somebody else: onnxruntime, or ONNX's own reference."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from edgert.dtypes import Array

__all__ = ["Reference", "open_reference"]

_ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # relative errors of values


@dataclass(frozen=True, slots=True)
class Reference:
    """An ONNX model ready to run elsewhere."""

    name: str
    inputs: Mapping[str, str]  # the element type of each, as ONNX calls it: "float16", "double"
    outputs: tuple[str, ...]
    evaluate: Callable[[dict[str, Array]], Sequence[Any]]

    @property
    def rounding(self) -> float:
        """The relative error that the model makes of each value, as its inputs are halves; 0 if they are not."""
        return max((_ROUNDING.get(type, 0.0) for type in self.inputs.values()), default=0.0)

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name; floats come and go in float32, as in bundles, whatever the model's are. Raises
        InvalidArgumentError if an input has no array, or if the model does not run."""
        import numpy as np

        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise InvalidArgumentError(
                f"the model's input '{missing[0]}' is no input of the bundle\n"
                f"If packing made it a constant, give its value again: --pin {missing[0]}=FILE"
            )
        with _explained("expected a model, and inputs for it,", self.name):
            results = self.evaluate({name: _given(arrays[name], type) for name, type in self.inputs.items()})
        return {name: _single(np.asarray(result)) for name, result in zip(self.outputs, results, strict=True)}


def open_reference(model: Path, which: str) -> Reference:
    """`which`: "onnxruntime", "onnx", or "auto" for the first of them that is installed."""
    if which not in ("auto", "onnxruntime", "onnx"):
        raise InvalidArgumentError(f"--reference: expected auto, onnxruntime or onnx, got '{which}'")
    if not model.is_file():
        raise InvalidArgumentError(f"{model}: expected an ONNX model, got no such file")
    if which == "auto":
        which = "onnx" if importlib.util.find_spec("onnxruntime") is None else "onnxruntime"
    with _explained(f"{model}: expected an ONNX model", which):
        return _onnx(model) if which == "onnx" else _onnxruntime(model)


@contextmanager
def _explained(expected: str, engine: str) -> Iterator[None]:
    """Whatever an engine raises becomes an error that says what it says."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:  # of whatever classes theirs are
        reason = textwrap.shorten(str(error), 300, placeholder=" ...") or type(error).__name__
        raise InvalidArgumentError(f"{expected} that {engine} can run\ngot: {reason}") from error


def _given(array: Array, type: str) -> Array:
    """An array in the model's element type, if that is another one of floats."""
    names = {"double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}
    if type not in names:
        return array
    import onnx

    return array.astype(onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(names[type])))


def _single(array: Array) -> Array:
    """Floats of another type in float32."""
    import numpy as np

    return array if array.dtype.kind in "biu" else array.astype(np.float32, copy=False)


def _onnxruntime(model: Path) -> Reference:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = {value.name: value.type.removeprefix("tensor(").removesuffix(")") for value in session.get_inputs()}
    outputs = tuple(value.name for value in session.get_outputs())
    name = f"onnxruntime {onnxruntime.__version__}"
    return Reference(name, inputs, outputs, lambda arrays: session.run(list(outputs), arrays))


def _onnx(model: Path) -> Reference:
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load(str(model))
    initialised = {tensor.name for tensor in proto.graph.initializer}
    inputs = {
        value.name: onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
        for value in proto.graph.input
        if value.name not in initialised
    }
    outputs = tuple(value.name for value in proto.graph.output)
    evaluator = ReferenceEvaluator(proto)
    return Reference(f"onnx {onnx.__version__}", inputs, outputs, lambda arrays: evaluator.run(list(outputs), arrays))
