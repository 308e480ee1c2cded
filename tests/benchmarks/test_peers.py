"""Engines in processes of their own: the protocol, conversion, failures; with this program as the engine."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks import conversions
from benchmarks.conversions import converted
from benchmarks.environments import CACHE, PeerError, end_of
from benchmarks.machine import Traffic, peak_gflops
from benchmarks.networks import nonzero_flops
from benchmarks.peer_worker import planar
from benchmarks.peers import Peer

X = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
WEIGHTS = np.array([[1, 0], [0, 0], [2, 3]], np.float32).reshape(3, 2, 1, 1)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A convolution, with a cache of its own for what is made of it."""
    monkeypatch.setattr(conversions, "CACHE", tmp_path / "cache")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 4])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    path = tmp_path / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_peer_tells_outputs_start_and_times(model: Path) -> None:
    with Peer("edgert", model, X, [(1, 3, 4, 4)], threads=1) as peer:
        expected = np.einsum("kc,nchw->nkhw", WEIGHTS[:, :, 0, 0], X)
        np.testing.assert_allclose(peer.outputs[0], expected, atol=1e-6)
        assert peer.start.keys() == {"open_ms", "first_ms", "page_in_ms", "peak_mb"}
        assert peer.start["peak_mb"] > 1
        for _ in range(2):
            times = peer.turn(0.001)
            assert len(times) >= 2
            assert min(times) > 0
        assert peer.bytes() == peer.model.stat().st_size


def test_a_peer_that_ends_says_why(model: Path) -> None:
    with pytest.raises(PeerError, match=r"edgert ended with code 1: .*cannot reshape"):
        Peer("edgert", model, X, [(1, 3, 4, 5)], threads=1)


def test_conversions_are_kept_until_the_model_changes(model: Path) -> None:
    made = converted("edge", model)
    later = made.stat().st_mtime_ns + 10**11  # than the model, and than the converter
    os.utime(made, ns=(later, later))
    assert converted("edge", model).stat().st_mtime_ns == later
    os.utime(model, ns=(2 * later, 2 * later))
    assert converted("edge", model).stat().st_mtime_ns != later
    assert converted("onnx", model) == model


@pytest.mark.parametrize(
    ("node", "shape", "becomes"),
    [
        (helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[7, 7], pads=[0, 0, 1, 1]), (6, 6), "Global"),
        (helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[6, 6]), (6, 6), "Global"),
        (helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[6, 6], strides=[6, 6]), (6, 12), "AveragePool"),
        (
            helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[7, 7], pads=[0, 0, 1, 1], count_include_pad=1),
            (6, 6),
            "AveragePool",
        ),
        (helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2), (3, 5), "DepthToSpace"),
        (helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD"), (3, 5), "DepthToSpace"),
    ],
)
def test_what_converters_read_wrongly_is_written_in_other_words(
    tmp_path: Path, node: NodeProto, shape: tuple[int, int], becomes: str
) -> None:
    given, made = tmp_path / "given.onnx", tmp_path / "made.onnx"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, *shape))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    constant = helper.make_node("Constant", [], ["no one's"], value_float=1.0)  # it has no inputs
    graph = onnx.GraphProto(node=[constant, node], name="one", input=[x], output=[y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), given)
    conversions._readable(given, made, shuffled=True)
    assert any(node.op_type.startswith(becomes) for node in onnx.load(made).graph.node)
    onnx.checker.check_model(str(made))
    values = np.random.default_rng(1).standard_normal((1, 8, *shape)).astype(np.float32)
    (want,), (got,) = (ReferenceEvaluator(str(path)).run(None, {"x": values}) for path in (given, made))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_converter_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="code 3: no such operator"):
        conversions._convert(
            "", ["-c", "import sys; print('no such operator', file=sys.stderr); sys.exit(3)"], tmp_path, "y"
        )
    with pytest.raises(PeerError, match="code 0"):
        conversions._convert("", ["-c", "pass"], tmp_path, "y")


def test_outputs_come_in_the_order_of_the_model() -> None:
    y = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    shape = [1, 2, 3, 4]
    assert np.array_equal(planar(np.moveaxis(y, 1, -1), shape), y), "channels last"
    assert np.array_equal(planar(y[0], shape), y), "without the batch"
    assert np.array_equal(planar(y, shape), y)


def test_operations_on_zeros_do_not_count(model: Path) -> None:
    assert nonzero_flops(model) == 2 * 3 * 16


def test_the_machine_is_measured() -> None:
    assert 0.1 < peak_gflops() < 10_000
    traffic = Traffic()
    if len(traffic.cpus) == 2:
        assert 1 < traffic.least_ns < 1e6
    traffic.least_ns = 1e-3
    assert traffic.slow() == (len(traffic.cpus) == 2)


def test_reasons_of_failures_name_no_place_of_this_machine() -> None:
    printed = f"""Traceback (most recent call last):
  File "{CACHE.parent / "peer_worker.py"}", line 83, in start
    raise ValueError("no")
ValueError: {CACHE}/a.param cannot be loaded

"""
    head, reason = end_of(printed).split(" | ")
    assert head == "Traceback (most recent call last):"
    assert reason == "ValueError: benchmarks/.cache/a.param cannot be loaded"
    assert end_of("") == ""
