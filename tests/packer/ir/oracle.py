"""Single-node ONNX models run by ONNX's reference or by onnxruntime, and the comparison of an operator with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.helper
import onnx.reference
import onnxruntime

from packer.ir import DType, TensorType
from packer.ir.ops import Op

OPSET = 21


def onnx_run(
    name: str,
    inputs: Sequence[np.ndarray | None],
    outputs: int = 1,
    engine: str = "reference",
    opset: int = OPSET,
    types: Sequence[type] = (),
    **attributes: object,
) -> list[np.ndarray]:
    """The outputs of ONNX operator `name`; `types` are those of the outputs (onnxruntime only; default: of input 0)."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(name, names, results, **attributes)
    feeds = {n: x for n, x in zip(names, inputs, strict=True) if x is not None}

    def info(label: str, dtype: np.dtype, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
        return onnx.helper.make_tensor_value_info(label, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    kinds = list(types) or [inputs[0].dtype] * outputs
    graph = onnx.helper.make_graph(
        [node],
        "single",
        [info(n, x.dtype, x.shape) for n, x in feeds.items()],
        [info(n, k, None) for n, k in zip(results, kinds, strict=True)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    if engine == "reference":
        return [np.asarray(y) for y in onnx.reference.ReferenceEvaluator(model).run(None, feeds)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(y) for y in session.run(None, feeds)]


def type_of(x: np.ndarray | None) -> TensorType | None:
    return None if x is None else TensorType(DType.of(x.dtype), x.shape)


def run(op: Op, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """The operator's reference, after proving that its outputs are what `infer` says, in float32 and in float64."""
    types = op.infer([type_of(x) for x in inputs])
    kept = [None if x is None else x.copy() for x in inputs]
    results = op.reference(*inputs)
    assert all(isinstance(y, np.ndarray) for y in results)
    assert [type_of(y) for y in results] == list(types), op
    for x, before in zip(inputs, kept, strict=True):
        np.testing.assert_array_equal(x, before, "an input was changed")
    wide = op.reference(*(x.astype(np.float64) if x is not None and x.dtype == np.float32 else x for x in inputs))
    for y, type in zip(wide, types, strict=True):
        assert y.shape == type.shape
        assert y.dtype == type.dtype.numpy or (type.dtype is DType.F32 and y.dtype == np.float64), op
    return results


def check(
    op: Op,
    inputs: Sequence[np.ndarray | None],
    expected: Sequence[np.ndarray],
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Compare the reference with the expected outputs: shapes and dtypes exactly, floats within the tolerance."""
    results = run(op, *inputs)
    for y, want in zip(results, expected, strict=False):
        assert y.shape == want.shape, (op, y.shape, want.shape)
        assert y.dtype == want.dtype, (op, y.dtype, want.dtype)
        if y.dtype.kind == "f":
            np.testing.assert_allclose(y, want, rtol, atol, err_msg=str(op))
        else:
            np.testing.assert_array_equal(y, want, str(op))
