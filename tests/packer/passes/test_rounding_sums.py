"""Numbers rounded by adding 1.5 * 2**23 and subtracting it again stay rounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgert
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from packer.passes import optimize

LARGE = np.float32(1.5 * 2**23)
SHAPE = (1, 6, 5, 8)
RANDOM = np.random.default_rng(0)
PLANES = RANDOM.integers(-4, 5, (7, 6, 3, 3)).astype(np.float32)
COLUMNS = RANDOM.integers(-4, 5, (8, 9)).astype(np.float32)
CHANNELS = RANDOM.integers(-4, 5, (1, 6, 1, 1)).astype(np.float32)
MAKERS = {
    "input": [],
    "convolution": [helper.make_node("Conv", ["x", "planes"], ["m"], pads=[1, 1, 1, 1])],
    "product": [helper.make_node("MatMul", ["x", "columns"], ["m"])],
    "scale": [helper.make_node("Mul", ["x", "channels"], ["m"])],
}


@pytest.mark.parametrize("subtracted", [True, False])
@pytest.mark.parametrize("maker", list(MAKERS))
def test_rounded(maker: str, subtracted: bool, tmp_path: Path) -> None:
    last = (
        helper.make_node("Sub", ["s", "large"], ["y"]) if subtracted else helper.make_node("Add", ["s", "less"], ["y"])
    )
    nodes = [*MAKERS[maker], helper.make_node("Add", ["m" if MAKERS[maker] else "x", "large"], ["s"]), last]
    constants = {"planes": PLANES, "columns": COLUMNS, "channels": CHANNELS, "large": LARGE, "less": -LARGE}
    graph = helper.make_graph(
        nodes,
        "rounds",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    imported = import_onnx(model)
    x = (RANDOM.integers(-99, 99, SHAPE) / 8).astype(np.float32)  # sums of products are exact
    (want,) = evaluate(imported, {"x": x}).values()
    assert (want == np.rint(want)).all()
    (after,) = evaluate(optimize(imported), {"x": x}).values()
    np.testing.assert_array_equal(after, want)
    pack(model, tmp_path / "model.edge", golden=False)
    for isa in this_machine().isas:
        with edgert.load(tmp_path / "model.edge", isa=isa) as session:
            np.testing.assert_array_equal(session.run(x)["y"], want)
