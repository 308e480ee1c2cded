"""`edgert verify`: programs for devices, and references that refuse or fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgert.cli._reference import open_reference
from edgert.errors import InvalidArgumentError
from tests.edgert.command import fail, invoke, succeed
from tests.edgert.networks import packed, two_inputs
from tests.targets.cuda.driver import library


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(two_inputs(), tmp_path_factory.mktemp("verify"))


def test_programs_for_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGERT_CUDA_LIBRARY", library()._name)
    path = packed(two_inputs(), tmp_path, targets=("jetson",), placement="device", device_code="ptx")
    result = invoke("verify", path, tmp_path / "model.onnx", "--emulate", "--samples", 1)
    assert result.exit_code == 0, result.output
    assert "PASS" in result.stdout


@pytest.mark.parametrize("reference", ["onnxruntime", "onnx"])
def test_models_of_other_inputs(sums: Path, tmp_path: Path, reference: str) -> None:
    """b has four elements in the model and three in the bundle: no sum of them exists."""
    model = two_inputs()
    for value, extents in zip((*model.graph.input, *model.graph.output), ((2, 4), (4,), (2, 4), (2, 4)), strict=True):
        for dimension, extent in zip(value.type.tensor_type.shape.dim, extents, strict=True):
            dimension.dim_value = extent
    constant = helper.make_node("Constant", [], ["four"], value_floats=[1.0] * 4)
    model.graph.node[0].input[1] = "four"
    model.graph.node.insert(0, constant)
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", sums, tmp_path / "other.onnx", "--reference", reference)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"that {reference}" in result.stderr
    assert "internal" not in result.stderr
    if reference == "onnxruntime":  # its text goes on in a second line
        assert "Got: 3 Expected: 4" in result.stderr


def test_models_of_other_types(sums: Path, tmp_path: Path) -> None:
    model = two_inputs()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT64
    model.graph.node[1].op_type = "Abs"
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", sums, tmp_path / "other.onnx", "--reference", "onnxruntime")
    assert result.exit_code == 2
    assert "Unexpected input data type" in result.stderr
    assert "internal" not in result.stderr


def test_references_that_fail(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("of the operator\n  on two lines")

    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", broken)
    reference = open_reference(sums.with_suffix(".onnx"), "onnx")
    with pytest.raises(InvalidArgumentError, match=r"got: of the operator on two lines$"):
        reference.run({"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)})


def test_onnxruntime_is_enough(sums: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    reference = open_reference(sums.with_suffix(".onnx"), "onnxruntime")
    found = reference.run({"a": np.zeros((2, 3), np.float32), "b": np.ones(3, np.float32)})
    assert np.array_equal(found["sum"], np.ones((2, 3)))


def test_verify_prepares_pictures_as_run_does(bundle: Path, folder: Path, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((10, 8, 3), 200, np.uint8)).save(tmp_path / "x.png")
    options = (bundle, folder / "model.onnx", "--input", tmp_path / "x.png")
    assert "PASS" in succeed("verify", *options, "--mean", "10,20,30", "--std", "50", "--layout", "nchw", "--bgr")
    assert "other than 0" in fail("verify", *options, "--std", "0")


@pytest.mark.parametrize("reference", ["auto", "onnx"])
def test_verify(folder: Path, bundle: Path, reference: str) -> None:
    options = ("--reference", reference)
    assert "PASS against onnx" in succeed("verify", bundle, folder / "model.onnx", *options)
    two = folder / "two"
    assert "PASS" in succeed("verify", two / "model.edge", two / "model.onnx", *options)
    found = json.loads(succeed("verify", two / "model.edge", two / "model.onnx", *options, "--samples", 2, "--json"))
    assert found["passed"]
    assert [output["name"] for output in found["outputs"]] == ["sum", "positive"] * 2


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_verify_allows_for_rounded_weights(folder: Path, tmp_path: Path, precision: str) -> None:
    model, out = folder / "model.onnx", tmp_path / "rounded.edge"
    succeed("pack", model, "-o", out, "--shape", "image=1x3x10x8", "--precision", precision)
    assert "PASS" in succeed("verify", out, model)
    assert invoke("verify", out, model, "--atol", 0, "--rtol", 1e-9).exit_code == 1


def test_verify_with_a_model_of_halves(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float16)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT16, [3, k]) for n, k in (("x", 5), ("y", 6)))
    graph = helper.make_graph([node], "halves", [x], [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    succeed("pack", tmp_path / "m.onnx")
    for reference in ("onnxruntime", "onnx"):
        assert "PASS" in succeed("verify", tmp_path / "m.edge", tmp_path / "m.onnx", "--reference", reference)


def test_verify_refuses_other_models(folder: Path, bundle: Path, tmp_path: Path) -> None:
    two = folder / "two"
    assert "expected outputs of the bundle's names" in fail("verify", bundle, two / "model.onnx")
    model = onnx.load(folder / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 7
    onnx.save(model, tmp_path / "other.onnx")
    text = fail("verify", bundle, tmp_path / "other.onnx")
    assert "internal" not in text
    assert "can run" in text


def test_verify_refuses_what_is_no_model(bundle: Path) -> None:
    for reference in ("onnxruntime", "onnx"):
        text = fail("verify", bundle, bundle, "--reference", reference)
        assert f"{bundle}: expected an ONNX model" in text


def test_verify_finds_differences(folder: Path, bundle: Path, tmp_path: Path) -> None:
    model = onnx.load(folder / "model.onnx")
    weights = numpy_helper.to_array(model.graph.initializer[0]) * 1.01
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "other.onnx")
    result = invoke("verify", bundle, tmp_path / "other.onnx")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "no such file" in fail("verify", bundle, tmp_path / "absent.onnx")
    assert "expected auto" in fail("verify", bundle, tmp_path / "other.onnx", "--reference", "tea leaves")
