"""Sizes that depend on data: followed through operators that keep entries apart, refused elsewhere."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from packer.errors import ModelError
from packer.importers import import_onnx
from tests.packer.importers.models import check, info, model, single

F32, I64 = np.float32, np.int64
RNG = np.random.default_rng(5)
CORNERS = RNG.random((1, 12, 2)).astype(F32)
BOXES = np.concatenate([CORNERS, CORNERS + F32(0.2)], axis=2)
SCORES = RNG.random((1, 3, 12)).astype(F32)
FEEDS = {"boxes": BOXES, "scores": SCORES}


def node(op_type: str, inputs: list[str], outputs: list[str], **more: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **more)


def detector(tail: list[onnx.NodeProto], *outputs: tuple[str, object], opset: int = 17) -> onnx.ModelProto:
    """NonMaxSuppression giving `kept` [count,3], and what follows."""
    constants = {
        "most": np.array([4]), "iou": np.array([0.5], F32), "least": np.array([0.3], F32), "zero": np.array(0),
        "one": np.array([1]), "two": np.array([2]), "flat": np.array([-1]),
    }  # fmt: skip
    return model(
        [node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["kept"], name="nms"), *tail],
        [info("boxes", F32, BOXES.shape), info("scores", F32, SCORES.shape)],
        [info(name, dtype, None) for name, dtype in outputs],
        opset,
        constants,
    )


def test_the_result_itself() -> None:
    graph = check(detector([], ("kept", I64)), FEEDS)
    assert [(e.value, e.axis) for e in graph.extents] == [("kept", 0)]


POSTPROCESSING = [
    ([node("Gather", ["kept", "zero"], ["y"], axis=1)], I64),
    ([node("Gather", ["kept", "two"], ["i"], axis=1), node("Squeeze", ["i", "one"], ["y"])], I64),
    ([node("Gather", ["kept", "two"], ["i"], axis=1), node("Reshape", ["i", "flat"], ["y"])], I64),
    ([node("Cast", ["kept"], ["f"], to=1), node("Mul", ["f", "iou"], ["y"])], F32),
    ([node("Cast", ["kept"], ["f"], to=1), node("Add", ["f", "f"], ["g"]), node("Softmax", ["g"], ["y"], axis=1)], F32),
    ([node("Slice", ["kept", "one", "two", "one"], ["y"])], I64),
    ([node("Transpose", ["kept"], ["y"], perm=[1, 0])], I64),
    ([node("Concat", ["kept", "kept"], ["y"], axis=1)], I64),
    ([node("Split", ["kept"], ["a", "b", "y"], axis=1)], I64),
    ([node("Slice", ["kept", "two", "most", "one"], ["i"]), node("Reshape", ["i", "flat"], ["r"]),
      node("Squeeze", ["boxes", "z1"], ["b"]), node("Gather", ["b", "r"], ["y"])], F32),
    ([node("Cast", ["kept"], ["f"], to=1), node("ReduceMax", ["f"], ["y"], axes=[1], keepdims=0)], F32),
    ([node("Cast", ["kept"], ["f"], to=1), node("ArgMax", ["f"], ["y"], axis=1, keepdims=1)], I64),
    ([node("Unsqueeze", ["kept", "z1"], ["y"])], I64),
    ([node("GatherND", ["scores", "kept3"], ["y"])], F32),
]  # fmt: skip


@pytest.mark.parametrize(("tail", "dtype"), POSTPROCESSING)
def test_postprocessing(tail: list[onnx.NodeProto], dtype: object) -> None:
    built = detector(tail, ("y", dtype))
    built.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "z1"))
    built.graph.node.insert(1, node("Identity", ["kept"], ["kept3"]))
    built.graph.node[1].CopyFrom(node("Cast", ["kept"], ["kept3"], to=7))
    graph = check(built, FEEDS)
    (extent,) = (e for e in graph.extents if e.value == "y")
    assert graph.type(extent.count).elements == 1


@pytest.mark.parametrize(
    "tail",
    [
        [node("Cast", ["kept"], ["f"], to=1), node("ReduceSum", ["f"], ["y"])],
        [node("Concat", ["kept", "kept"], ["y"], axis=0)],
        [node("Shape", ["kept"], ["y"])],
        [node("Size", ["kept"], ["y"])],
        [node("Slice", ["kept", "one", "two"], ["y"])],
        [node("Reshape", ["kept", "flat"], ["y"])],
        [
            node("Cast", ["kept"], ["f"], to=1),
            node("Transpose", ["f"], ["t"], perm=[1, 0]),
            node("MatMul", ["t", "f"], ["y"]),
        ],
        [node("Cast", ["kept"], ["f"], to=1), node("CumSum", ["f", "zero"], ["y"])],
        [node("Cast", ["kept"], ["f"], to=1), node("Softmax", ["f"], ["y"], axis=0)],
        [node("NonZero", ["kept"], ["n"]), node("Transpose", ["n"], ["y"])],
    ],
)
def test_what_would_mix_real_and_padded_entries(tail: list[onnx.NodeProto]) -> None:
    with pytest.raises(ModelError, match="depends on data") as caught:
        import_onnx(detector(tail, ("y", F32)))
    assert "node '" in caught.value.where
    assert caught.value.hint


def test_two_different_counts_do_not_meet() -> None:
    tail = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["other"]),
        node("Add", ["kept", "other"], ["y"]),
    ]
    with pytest.raises(ModelError, match="depends on data"):
        import_onnx(detector(tail, ("y", I64)))


def test_non_zero_and_compress() -> None:
    x = np.array([[0, 1.5, 0], [2, 0, 3]], F32)
    built, feeds = single("NonZero", [x], 13, [I64])
    assert check(built, feeds).extents[0].axis == 1
    built, feeds = single("Compress", [x, np.array([False, True])], 11, axis=0)
    assert check(built, feeds).extents[0].axis == 0
    built, feeds = single("Compress", [x, np.array([False, True, True, False, True])], 11)
    check(built, feeds)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress_by_a_constant_is_a_gather(axis: int | None) -> None:
    x = np.arange(12, dtype=F32).reshape(3, 4)
    for condition in ([False, True, True], [True], [False, False]):
        own = {} if axis is None else {"axis": axis}
        built, feeds = single("Compress", [x, np.array(condition)], 11, constant=[1], **own)
        graph = check(built, feeds)
        assert not graph.extents
        assert [type(node.op).__name__ for node in graph.nodes].count("Compress") == 0


def test_constants_have_their_real_size() -> None:
    built, feeds = single("NonZero", [np.array([0, 3, 0, 4], F32)], 13, [I64], [0])
    graph = check(built, feeds)
    assert graph.type("y0").shape == (1, 2)
    assert not graph.extents
