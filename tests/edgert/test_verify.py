"""`edgert verify`: programs for devices, and references that refuse or fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from edgert.cli import app
from edgert.cli._reference import open_reference
from edgert.errors import InvalidArgumentError
from tests.edgert.networks import packed, two_inputs
from tests.targets.cuda.driver import library


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(two_inputs(), tmp_path_factory.mktemp("verify"))


def test_programs_for_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    path = packed(two_inputs(), tmp_path, targets=("jetson",), placement="device", device_code="ptx")
    result = invoke("verify", path, tmp_path / "model.onnx", "--emulate", "--samples", 1)
    assert result.exit_code == 0, result.output
    assert "PASS" in result.stdout


@pytest.mark.parametrize("reference", ["onnxruntime", "onnx"])
def test_models_of_other_inputs(bundle: Path, tmp_path: Path, reference: str) -> None:
    """b has four elements in the model and three in the bundle: no sum of them exists."""
    model = two_inputs()
    for value, extents in zip((*model.graph.input, *model.graph.output), ((2, 4), (4,), (2, 4), (2, 4)), strict=True):
        for dimension, extent in zip(value.type.tensor_type.shape.dim, extents, strict=True):
            dimension.dim_value = extent
    constant = helper.make_node("Constant", [], ["four"], value_floats=[1.0] * 4)
    model.graph.node[0].input[1] = "four"
    model.graph.node.insert(0, constant)
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", bundle, tmp_path / "other.onnx", "--reference", reference)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"that {reference}" in result.stderr
    assert "internal" not in result.stderr
    if reference == "onnxruntime":  # its text goes on in a second line
        assert "Got: 3 Expected: 4" in result.stderr


def test_models_of_other_types(bundle: Path, tmp_path: Path) -> None:
    model = two_inputs()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT64
    model.graph.node[1].op_type = "Abs"
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", bundle, tmp_path / "other.onnx", "--reference", "onnxruntime")
    assert result.exit_code == 2
    assert "Unexpected input data type" in result.stderr
    assert "internal" not in result.stderr


def test_references_that_fail(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TypeError("of the operator\n  on two lines")

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", fail)
    reference = open_reference(bundle.with_suffix(".onnx"), "onnx")
    with pytest.raises(InvalidArgumentError, match=r"got: of the operator on two lines$"):
        reference.run({"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)})


def test_onnxruntime_is_enough(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    reference = open_reference(bundle.with_suffix(".onnx"), "onnxruntime")
    found = reference.run({"a": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)})
    assert np.array_equal(found["sum"], np.ones((2, 3)))
