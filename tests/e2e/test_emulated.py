"""Networks on a Jetson's GPU, emulated: random ones, and the real models with the vectors that they came with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgert
from edgert.decisions import read_plan
from edgert.errors import NoProgramError
from edgert.samples import random_inputs
from edgert.selftest import selftest
from packer.api import pack
from packer.ir.ops import Conv
from targets.cuda.toolchain import missing
from tests.e2e.conftest import relative_error, tensor
from tests.e2e.emulated import emulated
from tests.e2e.random_networks import random_network
from tests.e2e.test_random_networks import SEEDS, expect_close, poison
from tests.e2e.test_real_models import MODELS

FAST = ("lenet5_dense", "lenet5_dns_sparse")
# Outputs of theirs are off float64 by 3.6e-5 and 6.1e-5 in the vectors themselves, ours by 1.3e-5 and 6.1e-6
ILL_CONDITIONED = ("mp_selfie_segmentation", "yunet_n_320_320")


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.slow] if s % 4 else []) for s in range(SEEDS)])
def test_random_networks(seed: int, tmp_path: Path) -> None:
    network = random_network(seed)
    with emulated(network.model, tmp_path / "model.edge", weight_rounding="off") as session:
        first = session.run(network.inputs)
        expect_close(first, network.outputs, "emulated")
        session.run(poison(network.inputs))
        for name, again in session.run(network.inputs).items():
            assert again.tobytes() == first[name].tobytes(), f"{name} depends on what ran before"


@pytest.mark.parametrize(("rounding", "tolerance"), [("auto", 1e-3), ("off", 1e-5)])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in MODELS])
def test_vectors(models: Path, tmp_path: Path, name: str, rounding: str, tolerance: float) -> None:
    if rounding == "off" and name in ILL_CONDITIONED:
        tolerance = 1e-4
    folder = min(path for path in (models / "vectors" / name).iterdir() if path.is_dir())
    with emulated(models / "onnx" / f"{name}.onnx", tmp_path / "model.edge", weight_rounding=rounding) as session:
        assert session.describe().device
        outputs = session.run({info.name: tensor(folder / f"input_{i}.pb") for i, info in enumerate(session.inputs)})
        for i, info in enumerate(session.outputs):
            assert relative_error(outputs[info.name], tensor(folder / f"output_{i}.pb")) < tolerance, info.name


@pytest.mark.parametrize("seed", [pytest.param(s, marks=[pytest.mark.slow] if s % 12 else []) for s in range(SEEDS)])
def test_random_networks_stored_as_halves(seed: int, tmp_path: Path) -> None:
    """Integers may jump where what they are made of is rounded; they are not compared."""
    network = random_network(seed)
    with emulated(network.model, tmp_path / "model.edge", weight_rounding="off", activations="f16") as session:
        found = session.run(network.inputs)
    for name, want in network.outputs.items():
        assert (found[name].dtype, found[name].shape) == (want.dtype, want.shape), name
        if want.dtype.kind == "f":
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(found[name], want, rtol=0, atol=1e-2 * scale, err_msg=name)


def test_half_precision_in_memory(models: Path, tmp_path: Path) -> None:
    name = "lenet5_dense"
    folder = models / "vectors" / name / "test_data_set_0"
    x, want = tensor(folder / "input_0.pb"), tensor(folder / "output_0.pb")
    with emulated(models / "onnx" / f"{name}.onnx", tmp_path / "f16.edge", activations="f16") as session:
        (got,) = session.run({session.inputs[0].name: x}).values()
    assert 0 < relative_error(got, want) < 1e-2
    assert np.argmax(got) == np.argmax(want)


@pytest.mark.skipif(bool(missing(assembler=False)), reason=missing(assembler=False))
@pytest.mark.parametrize("name", ["lenet5_dns_sparse", pytest.param("squeezenet_dc", marks=pytest.mark.slow)])
def test_both_routes_to_code_give_the_same_bits(models: Path, tmp_path: Path, name: str) -> None:
    found, texts = [], []
    for route in ("direct", "template"):
        path = tmp_path / f"{route}.edge"
        with emulated(models / "onnx" / f"{name}.onnx", path, cuda_route=route) as session:
            found.append([array.tobytes() for array in session.run(random_inputs(session.inputs)).values()])
        bundle = edgert.read(path)
        plan = read_plan(bundle, bundle.programs[0])
        assert any(decision.algorithm.startswith("t1") for decision in plan.decisions)
        texts.append([module.ptx_bytes for module in bundle.programs[0].modules])
    assert found[0] == found[1]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(("storage", "tolerance"), [("f32", 1e-5), ("f16", 1e-2)])
@pytest.mark.parametrize("tier", ["t1", "t1c", "t2", "t3"])
def test_tiers(models: Path, tmp_path: Path, tier: str, storage: str, tolerance: float) -> None:
    name = "lenet5_dns_sparse"
    folder, options = models / "vectors" / name / "test_data_set_0", {"activations": storage, "implementation": tier}
    x, want = tensor(folder / "input_0.pb"), tensor(folder / "output_0.pb")
    path = tmp_path / "model.edge"
    with emulated(models / "onnx" / f"{name}.onnx", path, weight_rounding="off", **options) as session:
        (got,) = session.run({session.inputs[0].name: x}).values()
    bundle = edgert.read(path)
    assert tier in {decision.algorithm for decision in read_plan(bundle, bundle.programs[0]).decisions}
    assert relative_error(got, want) < tolerance


@pytest.mark.parametrize("name", ["lenet5_dense", "lenet5_dns_sparse", "mnist-8"])
def test_pools_are_in_the_kernels_before_them(models: Path, tmp_path: Path, name: str) -> None:
    folder, path = models / "vectors" / name / "test_data_set_0", tmp_path / "model.edge"
    x, want = tensor(folder / "input_0.pb"), tensor(folder / "output_0.pb")
    with emulated(models / "onnx" / f"{name}.onnx", path, weight_rounding="off") as session:
        (got,) = session.run({session.inputs[0].name: x}).values()
    bundle = edgert.read(path)
    algorithms = [decision.algorithm for decision in read_plan(bundle, bundle.programs[0]).decisions]
    inside = 1 if name == "mnist-8" else 2  # its other one is of 3 x 3
    assert sum(algorithm.endswith(" + max pool") for algorithm in algorithms) == algorithms.count("fused") == inside
    assert relative_error(got, want) < 1e-5


def test_streamed_weights(tmp_path: Path) -> None:
    """A convolution of much code for few pixels, and a fully connected layer, both of many zeros."""
    rng = np.random.default_rng(0)
    shapes = {"conv": (320, 320, 3, 3), "full": (10, 320 * 49)}
    weights = {
        name: (rng.standard_normal(shape) * (rng.random(shape) < 0.1)).astype(np.float32)
        for name, shape in shapes.items()
    }
    x = rng.standard_normal((1, 320, 7, 7)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "conv"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Flatten", ["c"], ["f"]),
            helper.make_node("Gemm", ["f", "full"], ["y"], transB=1),
        ],
        "streamed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "model.edge"
    with emulated(model, path) as session:
        found = session.run({"x": x})["y"]
    entries = [a.text for step in edgert.read(path).programs[0].steps for a in step.attributes if a.name == "entries"]
    assert {"stream_conv", "stream_vector"} <= set(entries)
    (c,) = Conv((1, 1), (1, 1, 1, 1), (1, 1)).reference(x.astype(np.float64), weights["conv"].astype(np.float64))
    assert relative_error(found, c.reshape(1, -1) @ weights["full"].T) < 1e-5


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_values_that_the_device_makes_part_of_others(tmp_path: Path, axis: int) -> None:
    """What the processor joins has parts that are copied from the device in one piece each, wherever they lie in it."""
    x, beside = np.linspace(-1, 1, 120, dtype=np.float32).reshape(3, 5, 8), np.ones((3, 5, 8), np.float32)
    nothing = np.zeros([0 if i == axis else extent for i, extent in enumerate(x.shape)], np.float32)
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("Concat", ["e", "beside", "nothing"], ["y"], axis=axis),  # the device takes nothing empty
    ]
    inputs = {"x": x, "nothing": nothing}
    graph = helper.make_graph(
        nodes,
        "joined",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(beside, "beside")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with emulated(model, tmp_path / "model.edge") as session:
        found = session.run(inputs)["y"]
    np.testing.assert_allclose(found, np.concatenate([np.exp(x), beside], axis), rtol=1e-5)


@pytest.mark.parametrize("options", [{"weight_rounding": "20bit"}, {"activations": "f16"}], ids=str)
def test_the_sample_is_met_within_its_tolerance(models: Path, tmp_path: Path, options: dict[str, str]) -> None:
    path, model = tmp_path / "model.edge", models / "onnx" / "lenet5_dns_sparse.onnx"
    pack(model, path, targets=["jetson"], placement="device", device_code="ptx", **options)  # type: ignore[arg-type]
    assert selftest(path, target="jetson", emulate=True, runs=1).passed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mp_face_detection_full_range_sparse", "squeezenet_dc"])
def test_products_of_halves(models: Path, tmp_path: Path, name: str) -> None:
    """What rounding to halves does is foreseen: the tolerance of the sample allows it."""
    folder = models / "vectors" / name / "test_data_set_0"
    model = models / "onnx" / f"{name}.onnx"
    with emulated(model, tmp_path / "halves.edge", golden=True, precision="f16") as session:
        outputs = session.run({info.name: tensor(folder / f"input_{i}.pb") for i, info in enumerate(session.inputs)})
        (golden,) = edgert.read(tmp_path / "halves.edge").goldens
        for i, info in enumerate(session.outputs):
            assert 1e-4 < relative_error(outputs[info.name], tensor(folder / f"output_{i}.pb")) < golden.rtol


def test_nothing_to_emulate_says_why(tmp_path: Path) -> None:
    network = random_network(0)
    pack(network.model, tmp_path / "model.edge", golden=False)
    with pytest.raises(NoProgramError, match=r"edgert pack model\.onnx --target jetson --placement device$"):
        edgert.load(tmp_path / "model.edge", emulate=True)


def test_small_networks_run_where_they_cost_least(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.edge"
    pack(models / "onnx" / "lenet5_dns_sparse.onnx", path, targets=["jetson"], golden=False, device_code="ptx")
    with pytest.raises(NoProgramError, match="--placement device"):
        edgert.load(path, target="jetson", emulate=True)
