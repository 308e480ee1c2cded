"""Operators whose inputs, attributes or meaning changed between opsets: each version against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packer.importers import import_onnx
from packer.importers.onnx import registry
from packer.passes.fold_constants import fold_constants
from tests.packer.importers.models import check, noise, run, single

X = noise(2, 3, 4, 5)
I64 = np.int64


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


CASES: list[tuple[str, int, list[Any], dict[str, Any]]] = [
    ("Clip", 7, [X], {"min": -0.5, "max": 0.25}),
    ("Clip", 7, [X], {"max": 0.25}),
    ("Clip", 11, [X, np.float32(-0.5), np.float32(0.25)], {}),
    ("Clip", 13, [X, None, np.float32(0.25)], {}),
    ("Clip", 13, [(X * 9).astype(np.int32), np.int32(-3), np.int32(4)], {}),
    ("Squeeze", 7, [noise(1, 3, 1)], {"axes": [0]}),
    ("Squeeze", 11, [noise(1, 3, 1)], {"axes": [-1]}),
    ("Squeeze", 13, [noise(1, 3, 1), ints(-1, 0)], {}),
    ("Squeeze", 13, [noise(1, 3, 1)], {}),
    ("Unsqueeze", 7, [X], {"axes": [0, 3]}),
    ("Unsqueeze", 13, [X, ints(-1, 1)], {}),
    ("ReduceSum", 7, [X], {"axes": [1, 2], "keepdims": 0}),
    ("ReduceSum", 11, [X], {"axes": [-1]}),
    ("ReduceSum", 13, [X, ints(1, -1)], {}),
    ("ReduceSum", 13, [X], {"noop_with_empty_axes": 1}),
    ("ReduceSum", 13, [X], {}),
    ("ReduceMax", 12, [X], {"axes": [0]}),
    ("ReduceMax", 18, [X, ints(0)], {}),
    ("ReduceMean", 13, [X], {"axes": [2]}),
    ("ReduceMean", 18, [X, ints(2)], {"keepdims": 0}),
    ("ReduceL1", 18, [X], {"noop_with_empty_axes": 1}),
    ("ReduceSumSquare", 18, [X], {"noop_with_empty_axes": 1}),
    ("Slice", 9, [X], {"starts": [1, -3], "ends": [9, -1], "axes": [2, 3]}),
    ("Slice", 9, [X], {"starts": [1, 1], "ends": [2, 3]}),
    ("Slice", 10, [X, ints(-1, 0), ints(-100, 3), ints(2, 3), ints(-2, 2)], {}),
    ("Slice", 13, [X, ints(3), ints(1), ints(1)], {}),
    ("Slice", 13, [X, ints(-1), ints(np.iinfo(I64).min), ints(-1), ints(-1)], {}),
    ("Pad", 7, [X], {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 1.5}),
    ("Pad", 10, [X], {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}),
    ("Pad", 11, [X, ints(0, 0, 1, -2, 0, 1, 0, 1), np.float32(2)], {}),
    ("Pad", 13, [X, ints(0, 0, 1, 2, 0, 1, 0, 1)], {"mode": "edge"}),
    ("Pad", 18, [X, ints(1, 2, 0, 1), np.float32(3), ints(-1, 1)], {}),
    ("Pad", 19, [X, ints(1, 2, 0, 1), None, ints(2, 3)], {"mode": "wrap"}),
    ("Softmax", 11, [X], {}),
    ("Softmax", 11, [X], {"axis": 2}),
    ("Softmax", 11, [X], {"axis": -2}),
    ("Softmax", 13, [X], {}),
    ("Softmax", 13, [X], {"axis": 1}),
    ("LogSoftmax", 7, [X], {"axis": 0}),
    ("LogSoftmax", 13, [X], {"axis": 0}),
    ("Hardmax", 11, [X], {"axis": 2}),
    ("Hardmax", 13, [X], {"axis": 2}),
    ("TopK", 13, [X, ints(2)], {"axis": 1, "largest": 0}),
    ("Resize", 10, [X, np.array([1, 1, 2, 1.5], np.float32)], {"mode": "nearest"}),
    ("Resize", 10, [X, np.array([1, 1, 2, 1.5], np.float32)], {"mode": "linear"}),
    ("Resize", 11, [X, np.zeros(0, np.float32), np.array([1, 1, 2, 0.6], np.float32)], {"mode": "linear"}),
    ("Resize", 13, [X, None, None, ints(2, 3, 7, 3)], {"mode": "cubic"}),
    ("Resize", 18, [X, None, None, ints(9, 2)], {"mode": "nearest", "axes": [3, 2]}),
    ("Resize", 18, [X, None, None, ints(9, 11)], {
        "mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger",
    }),
    ("Resize", 13, [X, np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 1.2], np.float32), None, ints(2, 3, 7, 3)], {
        "mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0,
    }),
    ("Upsample", 7, [X], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    ("Upsample", 9, [X, np.array([1, 1, 2, 3], np.float32)], {"mode": "linear"}),
    ("BatchNormalization", 7, [X, *(noise(3, seed=s) ** 2 for s in range(4))], {"epsilon": 1e-2}),
    ("BatchNormalization", 15, [X, *(noise(3, seed=s) ** 2 for s in range(4))], {}),
    ("Dropout", 7, [X], {}),
    ("Dropout", 12, [X, np.float32(0.5)], {}),
    ("Dropout", 13, [X, np.float32(0.5), np.array(False)], {}),
    ("Gemm", 7, [noise(4, 3), noise(5, 4), noise(5)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", 13, [noise(3, 4), noise(4, 5)], {"alpha": 3.0}),
    ("Pow", 7, [abs(X), np.float32(1.5)], {}),
    ("Pow", 13, [abs(X), np.int64(2)], {}),
    ("Pow", 13, [(X * 3).astype(np.int32), np.float32(2)], {}),
    ("Mod", 10, [(X * 9).astype(np.int32), np.int32(4)], {}),
    ("Mod", 13, [X, np.float32(0.3)], {"fmod": 1}),
    ("MaxPool", 7, [X], {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 1]}),
    ("MaxPool", 12, [X], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "dilations": [1, 2]}),
    ("AveragePool", 7, [X], {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", 19, [X], {"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 0, 1, 1]}),
    ("AveragePool", 11, [X], {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("LpPool", 11, [X], {"kernel_shape": [2, 2], "p": 1}),
    ("GlobalLpPool", 7, [X], {"p": 3}),
    ("Conv", 7, [X, noise(4, 3, 3, 3)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("Conv", 11, [X, noise(6, 1, 3, 3), noise(6)], {"group": 3, "pads": [1, 2, 0, 1], "dilations": [1, 2]}),
    ("ConvTranspose", 11, [X, noise(3, 2, 3, 3), noise(2)], {"strides": [2, 2], "output_padding": [1, 0]}),
    ("ConvTranspose", 11, [X, noise(3, 2, 3, 3)], {"strides": [2, 2], "output_shape": [8, 10]}),
    ("ConvTranspose", 11, [X, noise(3, 2, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("Split", 18, [X], {"num_outputs": 1, "axis": 3}),
    ("Flatten", 9, [X], {"axis": 2}),
    ("Flatten", 13, [X], {"axis": -3}),
    ("Reshape", 7, [X, ints(0, -1, 5)], {}),
    ("Reshape", 14, [np.zeros((0, 3), np.float32), ints(3, 0)], {"allowzero": 1}),
    ("OneHot", 11, [ints(1, -1, 7), ints(4), np.array([0.5, 2], np.float32)], {"axis": 0}),
    ("CumSum", 14, [X, np.array(-2, np.int32)], {"exclusive": 1, "reverse": 1}),
    ("GroupNormalization", 18, [noise(2, 4, 3), noise(2), noise(2)], {"num_groups": 2}),
    ("GroupNormalization", 21, [noise(2, 4, 3), noise(4), noise(4)], {"num_groups": 2}),
    ("DepthToSpace", 11, [noise(2, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ("DepthToSpace", 7, [noise(2, 8, 2, 3)], {"blocksize": 2}),
    ("SpaceToDepth", 7, [noise(2, 3, 4, 6)], {"blocksize": 2}),
    ("Tile", 7, [X, ints(1, 2, 1, 3)], {}),
    ("Expand", 8, [noise(3, 1), ints(2, 1, 4)], {}),
    ("QuantizeLinear", 13, [X, np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3], np.int8)], {"axis": 1}),
    ("DequantizeLinear", 10, [(X * 9).astype(np.int8), np.float32(0.1), np.int8(3)], {}),
    ("Sum", 8, [X, X[:, :1], X[:1]], {}),
    ("Mean", 8, [X, X[:, :1], X[:1]], {}),
    ("Max", 8, [X, X[:, :1], X[:1]], {}),
    ("PRelu", 9, [X, noise(3, 1, 1)], {}),
    ("Gelu", 20, [X], {"approximate": "tanh"}),
    ("LayerNormalization", 17, [X, noise(4, 5), noise(4, 5)], {"axis": 2}),
    ("MeanVarianceNormalization", 13, [X], {"axes": [1, 3]}),
    ("MatMulInteger", 10, [
        np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.array(7, np.uint8), np.array([1, 2, 3, 4], np.uint8),
    ], {}),
]  # fmt: skip

# Operands that the rules demand to be constant, which are not shapes of the first one.
FIXED = {"BatchNormalization": (), "Clip": (), "Conv": (1, 2), "ConvTranspose": (1,), "Gemm": (1, 2)}


def output_type(op_type: str, inputs: list[Any]) -> object:
    return {
        "MatMulInteger": np.int32, "DequantizeLinear": np.float32, "OneHot": np.float32, "QuantizeLinear": np.int8,
    }.get(op_type, np.asarray(inputs[0]).dtype)  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset", "inputs", "attributes"), CASES)
def test_version(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
    shaping = FIXED.get(op_type, [i for i, x in enumerate(inputs) if i and x is not None and np.ndim(x) < 2])
    outputs = [output_type(op_type, inputs)] + ([I64] if op_type == "TopK" else [])
    built, feeds = single(op_type, inputs, opset, outputs, shaping, **attributes)
    check(built, feeds, tolerance=3e-5)


@pytest.mark.parametrize(("op_type", "opset", "inputs", "attributes"), CASES)
def test_version_folds(op_type: str, opset: int, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """With every operand constant the result is a constant, and the same."""
    outputs = [output_type(op_type, inputs)] + ([I64] if op_type == "TopK" else [])
    runtime = FIXED.get(op_type, [i for i, x in enumerate(inputs) if i and x is not None and np.ndim(x) < 2])
    built, feeds = single(op_type, inputs, opset, outputs, runtime, **attributes)
    expected = run(import_onnx(built), feeds)
    folded, _ = single(op_type, inputs, opset, outputs, range(len(inputs)), **attributes)
    graph = fold_constants(import_onnx(folded))
    assert not graph.nodes
    for got, want in zip(run(graph, {}), expected, strict=True):
        np.testing.assert_allclose(got, want, 3e-5, 3e-5)


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_split(opset: int) -> None:
    split = {"split": [2, 1, 2]} if opset < 13 else {}
    inputs = [X] if opset < 13 else [X, ints(2, 1, 2)]
    built, feeds = single("Split", inputs, opset, [np.float32] * 3, [1] if opset >= 13 else [], axis=-1, **split)
    check(built, feeds)


def test_split_uneven() -> None:
    built, feeds = single("Split", [X], 18, [np.float32] * 3, num_outputs=3, axis=3)
    assert [graph_output.shape for graph_output in run(check(built, feeds), feeds)] == [(2, 3, 4, n) for n in (2, 2, 1)]


@pytest.mark.parametrize("opset", [7, 10, 11])
def test_top_k_before_k_could_be_sorted_otherwise(opset: int) -> None:
    inputs, attributes = ([X], {"k": 2}) if opset < 10 else ([X, ints(2)], {})
    built, feeds = single("TopK", inputs, opset, [np.float32, I64], [1] if opset >= 10 else [], axis=2, **attributes)
    check(built, feeds)


def test_max_pool_indices() -> None:
    for order in (0, 1):
        built, feeds = single(
            "MaxPool", [X], 12, [np.float32, I64], kernel_shape=[2, 2], pads=[1, 0, 1, 0], storage_order=order
        )
        check(built, feeds)


def test_batch_normalization_in_training_mode() -> None:
    inputs = [X, *(noise(3, seed=s) ** 2 for s in range(4))]
    built, feeds = single("BatchNormalization", inputs, 15, [np.float32] * 3, training_mode=1, momentum=0.8)
    check(built, feeds, "reference")


def test_layer_normalization_statistics() -> None:
    built, feeds = single("LayerNormalization", [X, noise(5), noise(5)], 17, [np.float32] * 3, axis=-1)
    check(built, feeds)


def test_broadcast_attributes_before_opset_7() -> None:
    built, feeds = single("Add", [X, noise(3)], 6, axis=1, broadcast=1)
    (got,) = run(import_onnx(built), feeds)
    np.testing.assert_array_equal(got, X + feeds["x1"].reshape(3, 1, 1))


def test_cast_to_a_named_type_before_opset_6() -> None:
    built, feeds = single("Cast", [X * 9], 5, [np.int32], to="INT32")
    (got,) = run(import_onnx(built), feeds)
    np.testing.assert_array_equal(got, feeds["x0"].astype(np.int32))


def test_handlers_start_at_versions_that_exist() -> None:
    assert len(registry.known()) >= 150
    for op_type, versions in registry.known().items():
        for version in versions:
            assert registry.find(op_type, version) is not None
            assert version == 1 or registry.find(op_type, version) is not registry.find(op_type, version - 1)
