"""Networks at the edges: outputs that nothing computes, parameters known only at run time, tensors without elements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from packer.api import pack
from tests.e2e.test_random_networks import run_everywhere

Arrays = dict[str, np.ndarray]
N = helper.make_node
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


X = normal(2, 6, 6, 6)
# name -> nodes, inputs, constants, outputs; all outputs f32 but those whose name starts with i (i64)
CASES: dict[str, tuple[list[NodeProto], Arrays, Arrays, str]] = {
    "outputs that are inputs, constants, equal, or views of each other": (
        [N("Identity", ["x"], ["a"]), N("Relu", ["x"], ["b"]), N("Identity", ["b"], ["c"]),
         N("Reshape", ["b", "s"], ["d"]),
         N("Exp", ["d"], ["e"]), N("Identity", ["k"], ["f"]), N("Reshape", ["x", "s"], ["g"]),
         N("Identity", ["z"], ["h"])],
        {"x": normal(2, 3, 4)}, {"s": ints(-1), "k": normal(2, 2), "z": normal(0, 3)}, "a b c d e f g h",
    ),
    "scalars": ([N("Relu", ["x"], ["y"]), N("Add", ["y", "y"], ["z"])], {"x": normal()}, {}, "y z"),
    "an output read again under another shape": (
        [N("Conv", ["x", "w"], ["a"]), N("Reshape", ["a", "s"], ["y"]), N("Relu", ["a"], ["z"]),
         N("Exp", ["y"], ["q"])],
        {"x": normal(1, 17, 3, 3)}, {"w": normal(17, 17, 1, 1), "s": ints(17, 9)}, "y z q",
    ),
    "weights, groups and bias at run time": (
        [N("Relu", ["v"], ["w"]), N("Conv", ["x", "w", "b"], ["y"], group=2), N("Relu", ["b"], ["z"]),
         N("Conv", ["r", "w"], ["q"])],
        {"x": X, "v": normal(20, 3, 2, 2), "b": normal(20), "r": normal(1, 3, 4, 4)}, {}, "y z q",
    ),
    "depthwise weights at run time": (
        [N("Conv", ["x", "w", "b"], ["y"], group=6)], {"x": X, "w": normal(6, 1, 3, 3), "b": normal(6)}, {}, "y",
    ),
    "depthwise with a bias at run time": (
        [N("Conv", ["x", "w", "b"], ["y"], group=19)], {"x": normal(2, 19, 5, 5), "b": normal(19)},
        {"w": normal(19, 1, 3, 3)}, "y",
    ),
    "scale and shift at run time": (
        [N("Conv", ["x", "w"], ["a"]), N("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"]),
         N("Conv", ["n", "w2"], ["y"])],
        {"x": X, "s": normal(20), "b": normal(20)},
        {"w": normal(20, 6, 1, 1), "w2": normal(20, 20, 3, 3), "m": normal(20), "v": normal(20) ** 2 + 1}, "y",
    ),
    "a convolution over no channels": (
        [N("Conv", ["x", "w", "b"], ["y"])], {"x": normal(1, 0, 5, 5)}, {"w": normal(3, 0, 3, 3), "b": normal(3)}, "y",
    ),
    "concatenation of nothing": (
        [N("Concat", ["x", "z"], ["y"], axis=2)], {"x": normal(2, 0, 1), "z": normal(2, 0, 4)}, {}, "y",
    ),
    "channels at odd places in blocks": (
        [N("Conv", ["x", "w"], ["a"]), N("Concat", ["a", "x", "e", "a"], ["b"], axis=1), N("Conv", ["b", "w2"], ["y"])],
        {"x": X}, {"w": normal(17, 6, 1, 1), "e": normal(2, 0, 6, 6), "w2": normal(3, 40, 3, 3)}, "y",
    ),
    "sums of convolutions, shared and repeated": (
        [N("Conv", ["x", "w"], ["a"]), N("Conv", ["x", "d"], ["b"], group=6), N("Add", ["a", "b"], ["c"]),
         N("Add", ["c", "x"], ["e"]), N("Add", ["e", "c"], ["f"]), N("Conv", ["f", "w"], ["g"]),
         N("Add", ["g", "g"], ["y"])],
        {"x": X}, {"w": normal(6, 6, 1, 1), "d": normal(6, 1, 1, 1)}, "y",
    ),
    "padding larger than the image": (
        [N("Pad", ["x", "p"], ["a"]), N("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1])],
        {"x": X}, {"w": normal(17, 6, 3, 3), "p": ints(0, 0, 7, 8, 0, 0, 9, 4)}, "y",
    ),
    "indices of a constant, and of one value twice": (
        [N("NonZero", ["k"], ["i"]), N("NonZero", ["x"], ["i2"]), N("NonZero", ["x"], ["n"]),
         N("Transpose", ["n"], ["i3"])],
        {"x": np.array([[0, 1, 2], [3, 0, 0]], np.float32)}, {"k": np.array([0, 1, 1], np.float32)}, "i i2 i3",
    ),
    **{
        f"an image that no cache holds, then {node.op_type}": (
            [N("Conv", ["x", "w"], ["c"]), node], {"x": normal(1, 16, 160, 160)},
            {"w": normal(64, 16, 1, 1), **constants}, "y",
        )
        for node, constants in (
            (N("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]), {}),
            (N("Expand", ["c", "s"], ["y"]), {"s": ints(2, 64, 160, 160)}),
            (N("Tile", ["c", "s"], ["y"]), {"s": ints(1, 1, 2, 1)}),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_edge(case: str, tmp_path: Path) -> None:
    nodes, inputs, constants, names = CASES[case]
    outputs = names.split()
    types = {name: TensorProto.INT64 if name.startswith("i") else TensorProto.FLOAT for name in outputs}

    def model(ranks: dict[str, int]) -> object:
        graph = helper.make_graph(
            nodes,
            "edge",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
            [helper.make_tensor_value_info(n, types[n], [None] * ranks[n] if n in ranks else None) for n in outputs],
            [numpy_helper.from_array(a, n) for n, a in constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    wanted = dict(zip(outputs, map(np.asarray, ReferenceEvaluator(model({})).run(None, inputs)), strict=True))
    pack(model({n: a.ndim for n, a in wanted.items()}), tmp_path / "model.edge")
    run_everywhere(tmp_path / "model.edge", inputs, wanted)
