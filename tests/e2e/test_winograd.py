"""Networks packed with Winograd's algorithms: right, with the same bits however cut, and chosen where allowed."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession
from typer.testing import CliRunner

import edgert
from edgert.cli import app
from edgert.devices import this_machine
from packer.api import pack
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate
from targets.base import TargetError
from targets.cpu.host import has_avx512

ERRORS = {"f32": 5e-5, "f16": 2e-3, "bf16": 2e-2}  # of the largest output


def model(channels: int, filters: int, group: int = 1) -> ModelProto:
    """Two convolutions of 3x3 and a residual, over 27 x 22 pixels."""
    random = np.random.default_rng(0)
    shapes = {"v": (filters, channels // group, 3, 3), "w": (filters, filters // group, 3, 3), "b": (filters,)}
    weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["c"], "first", group=group, pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "w", "b"], ["d"], "second", group=group, pads=[1] * 4),
        helper.make_node("Add", ["d", "r"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, 27, 22))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "winograd", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def kernels(path: Path) -> set[str]:
    return {step.kernel for step in edgert.read(path).programs[0].steps if step.kernel.startswith("conv")}


def stored(path: Path) -> set[int]:
    """The ranks of the weights: 5 as convolutions have them, 3 transformed."""
    program = edgert.read(path).programs[0]
    steps = [step for step in program.steps if step.kernel.startswith("conv_winograd")]
    return {len(program.tensors[step.inputs[1]].shape) for step in steps}


@pytest.mark.parametrize(
    ("form", "precision"),
    [
        *((f"winograd{tile}{suffix}", "f32") for tile in (2, 4, 6) for suffix in ("", "-lean")),
        ("winograd4-lean-f16", "f16"),
        ("winograd2-lean-bf16", "bf16"),
        ("winograd2-bf16", "bf16"),
    ],
)
@pytest.mark.parametrize(("channels", "filters", "group"), [(20, 40, 1), (32, 64, 2)])
def test_right_on_any_number_of_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    precision: str,
    channels: int,
    filters: int,
    group: int,
) -> None:
    monkeypatch.setattr("targets.cpu.winograd.LEAN", 0)
    network, path = model(channels, filters, group), tmp_path / "model.edge"
    x = np.random.default_rng(1).standard_normal((1, channels, 27, 22)).astype(np.float32)
    (want,) = ReferenceEvaluator(network).run(None, {"x": x})
    pack(network, path, winograd="fast", precision=precision, implementation=form, cores=(1, 2, 3), golden=False)
    assert kernels(path) == {"conv_winograd_bf16" if form == "winograd2-bf16" else "conv_winograd"}
    assert stored(path) == ({5} if "-lean" in form else {3})
    for isa in this_machine().isas:
        answers = []
        for threads in (1, 2, 3):
            with edgert.load(path, isa=isa, threads=threads) as session:
                answers.append(session.run({"x": x})["y"])
        assert len({answer.tobytes() for answer in answers}) == 1
        atol = ERRORS[precision] * float(np.abs(want).max())
        np.testing.assert_allclose(answers[0], want, rtol=0, atol=atol, err_msg=isa)


def test_settings_allow_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "model.edge"
    for precision, suffix, kernel, settings in (
        ("f32", "", "conv_winograd", {"off": (), "strict": (2, 4), "fast": (2, 4, 6)}),
        ("bf16", "-bf16", "conv_winograd_bf16", {"off": (), "strict": (2,), "fast": (2,)}),
    ):
        for setting, tile in itertools.product(settings, (2, 4, 6)):
            form = f"winograd{tile}{suffix}"
            how = {"winograd": setting, "precision": precision, "implementation": form, "golden": False}
            if tile in settings[setting]:
                pack(model(16, 16), path, **how)  # type: ignore[arg-type]
                assert kernels(path) == {kernel}
            else:
                with pytest.raises(TargetError, match=form):
                    pack(model(16, 16), path, **how)  # type: ignore[arg-type]
    with pytest.raises(TargetError, match="winograd: expected off, strict, fast, got 'exact'"):
        pack(model(16, 16), path, winograd="exact")


def test_verbs_that_plan_have_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model(64, 64), path)

    def algorithms(setting: str) -> set[str]:
        result = CliRunner().invoke(
            app, ["plan", str(path), "--cores", "1,2", "--explain", "--json", "--winograd", setting]
        )
        return {decision["algorithm"] for decision in json.loads(result.stdout)["decisions"]}

    assert any(name.startswith("winograd") for name in algorithms("strict"))
    assert not any(name.startswith("winograd") for name in algorithms("off"))
    for verb in ("pack", "plan", "tune"):
        result = CliRunner().invoke(app, [verb, str(path), "--winograd", "exact"])
        assert result.exit_code != 0
        assert "winograd: expected off, strict, fast, got 'exact'" in result.output


def test_chosen_where_it_is_faster_unless_off(tmp_path: Path) -> None:
    path = tmp_path / "model.edge"
    pack(model(64, 64), path, golden=False)
    assert kernels(path) == {"conv_winograd"}
    pack(model(64, 64), path, winograd="off", golden=False)
    assert "conv_winograd" not in kernels(path)
    for target, faster in (("cpu-x86_64", True), ("cpu-jetson-tx2", False)):  # with and without products of bf16
        pack(model(64, 64), path, precision="bf16", targets=[target], cores=(1,), golden=False)
        assert ("conv_winograd_bf16" in kernels(path)) == faster


def dense_block(layers: int) -> ModelProto:
    """Layers as in DenseNet: 1x1 to 128 channels, then 3x3 to 32 more."""
    random = np.random.default_rng(0)
    nodes, weights, last, channels = [], [], "x", 64
    for i in range(layers):
        for name, shape in (("v", (128, channels, 1, 1)), ("w", (32, 128, 3, 3))):
            values = random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
            weights.append(numpy_helper.from_array(values.astype(np.float32), f"{name}{i}"))
        made = "y" if i == layers - 1 else f"d{i}"
        nodes += [
            helper.make_node("Relu", [last], [f"r{i}"]),
            helper.make_node("Conv", [f"r{i}", f"v{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"b{i}"]),
            helper.make_node("Conv", [f"b{i}", f"w{i}"], [f"c{i}"], pads=[1] * 4),
            helper.make_node("Concat", [last, f"c{i}"], [made], axis=1),
        ]
        last, channels = made, channels + 32
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64, 14, 14))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "block", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("algorithm", "most"), [("packed", 1.1), ("winograd2", 1.2), ("winograd4", 2.2)])
def test_errors_in_multiples_of_those_of_onnxruntime(tmp_path: Path, algorithm: str, most: float) -> None:
    """Root mean square against float64, with every 3x3 layer by the algorithm; a whole network has others, too."""
    network, path = dense_block(8), tmp_path / "model.edge"
    session = InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    pack(network, path, implementation=algorithm, cores=(1,), golden=False)
    x = np.random.default_rng(1).standard_normal((1, 64, 14, 14)).astype(np.float32)
    want = evaluate(import_onnx(network), {"x": x}, np.float64)["y"]

    def error(got: np.ndarray) -> float:
        return float(np.sqrt(np.mean((got - want) ** 2)))

    # With AVX2 onnxruntime rounds less than with AVX-512; what has no fused products is not compared with that.
    isas = this_machine().isas
    unfused = {"sse2", "scalar"} if "avx2" in isas and not has_avx512() else set()
    for isa in set(isas) - unfused:
        with edgert.load(path, isa=isa) as loaded:
            assert error(loaded.run({"x": x})["y"]) < most * error(session.run(None, {"x": x})[0]), isa


@pytest.mark.parametrize(
    ("channels", "group", "attributes"),
    [(24, 3, {}), (16, 1, {"strides": [2, 2]}), (16, 1, {"dilations": [2, 2]}), (16, 1, {"kernel_shape": [1, 3]})],
)
def test_other_convolutions_have_none(
    tmp_path: Path, channels: int, group: int, attributes: dict[str, list[int]]
) -> None:
    kernel = attributes.get("kernel_shape", [3, 3])
    weights = np.ones((48, channels // group, *kernel), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, 20, 20))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph([node], "other", [x], [y], [numpy_helper.from_array(weights, "w")])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(TargetError, match="winograd2"):
        pack(network, tmp_path / "model.edge", implementation="winograd2", golden=False)
