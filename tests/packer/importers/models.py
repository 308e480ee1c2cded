"""Small ONNX models for tests, and the comparison of an import with ONNX's reference or onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.importers import import_onnx
from packer.ir import Graph
from packer.ir.evaluate import evaluate
from tests.precise import precise


def info(name: str, dtype: object, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """A graph input or output; `dtype` is a numpy dtype or an ONNX element type."""
    element = dtype if isinstance(dtype, int) else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    opset: int = 21,
    initializers: Mapping[str, np.ndarray] | None = None,
    **more: object,
) -> onnx.ModelProto:
    """A model of one graph."""
    tensors = [numpy_helper.from_array(np.asarray(data), name) for name, data in (initializers or {}).items()]
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def single(
    op_type: str,
    inputs: Sequence[np.ndarray | None],
    opset: int = 21,
    outputs: Sequence[object] = (np.float32,),
    constant: Sequence[int] = (),
    **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and its inputs; those at the positions in `constant` are initialisers. Outputs by dtype."""
    names = ["" if data is None else f"x{index}" for index, data in enumerate(inputs)]
    results = [f"y{index}" for index in range(len(outputs))]
    node = helper.make_node(op_type, names, results, name="node", **attributes)
    fixed = {
        names[index]: np.asarray(inputs[index])
        for index in constant
        if index < len(inputs) and inputs[index] is not None
    }
    feeds = {n: np.asarray(x) for n, x in zip(names, inputs, strict=True) if x is not None and n not in fixed}
    built = model(
        [node],
        [info(name, data.dtype, data.shape) for name, data in feeds.items()],
        [info(name, dtype, None) for name, dtype in zip(results, outputs, strict=True)],
        opset,
        fixed,
    )
    return built, feeds


def run(graph: Graph, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph in order, trimmed to their real sizes."""
    counts = tuple(extent.count for extent in graph.extents if extent.value in graph.outputs)
    wanted = Graph(graph.name, graph.inputs, (*graph.outputs, *counts), graph.nodes, graph.values)
    results = evaluate(wanted, {name: feeds[name] for name in graph.inputs})
    for extent in graph.extents:
        if extent.value in graph.outputs:
            kept = np.arange(int(results[extent.count].reshape(-1)[0]))
            results[extent.value] = np.take(results[extent.value], kept, extent.axis)
    return [results[name] for name in graph.outputs]


def check(
    built: onnx.ModelProto,
    feeds: Mapping[str, np.ndarray],
    engine: str = "onnxruntime",
    tolerance: float = 1e-5,
    **options: object,
) -> Graph:
    """Import a model and compare its evaluation with that of "onnxruntime" or "reference"."""
    graph = import_onnx(built, **options)  # type: ignore[arg-type]
    graph.validate()
    if engine == "reference":
        expected = ReferenceEvaluator(built).run(None, dict(feeds))
    else:
        session = precise()
        session.log_severity_level = 4
        runner = onnxruntime.InferenceSession(built.SerializeToString(), session, providers=["CPUExecutionProvider"])
        expected = runner.run(None, dict(feeds))
    assert list(graph.outputs) == [output.name for output in built.graph.output]
    for name, got, want in zip(graph.outputs, run(graph, feeds), expected, strict=True):
        assert got.dtype == np.asarray(want).dtype, name
        assert got.shape == np.asarray(want).shape, name
        np.testing.assert_allclose(got, want, tolerance, tolerance, err_msg=name)
    return graph


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
