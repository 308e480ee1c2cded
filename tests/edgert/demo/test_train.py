"""The training script: its gradients are right, pruning holds, and the committed model is what it claims to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgert.demo.train import _LAYERS, MODEL, Network, export, train

onnx = pytest.importorskip("onnx")


def batch(n: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    return random.rand(n, 1, 8, 8).astype(np.float32), random.randint(0, 10, n)


def test_gradients_equal_finite_differences() -> None:
    network = Network()
    for parameters in (network.weights, network.biases):
        for name in parameters:
            parameters[name] = parameters[name].astype(np.float64)
    images, labels = batch(3)
    images = images.astype(np.float64)
    _, found = network.gradients(images, labels)
    random, step = np.random.RandomState(6), 1e-6
    for (name, kind), gradient in found.items():
        parameter = (network.weights if kind == "weight" else network.biases)[name].reshape(-1)
        for index in random.randint(0, parameter.size, 8):
            kept = parameter[index]
            sides = []
            for moved in (kept + step, kept - step):
                parameter[index] = moved
                sides.append(network.gradients(images, labels)[0])
            parameter[index] = kept
            slope = (sides[0] - sides[1]) / (2 * step)
            assert gradient.reshape(-1)[index] == pytest.approx(slope, rel=1e-4, abs=1e-7), (name, kind, index)


def test_pruned_weights_stay_zero() -> None:
    network = Network()
    network.prune(1.0)
    network.step(*batch(8), rate=0.1)
    for name, shape, share in _LAYERS:
        zeros = np.prod(shape) - np.count_nonzero(network.weights[name])
        assert zeros == round(np.prod(shape) * share)
        assert not network.weights[name][network.masks[name] == 0].any()


def test_training_is_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_DENSE_EPOCHS", "_PRUNING_EPOCHS", "_FINAL_EPOCHS"):
        monkeypatch.setattr(f"edgert.demo.train.{name}", 1)
    first, second = (train(*batch(64)) for _ in range(2))
    for name in first.weights:
        np.testing.assert_array_equal(first.weights[name], second.weights[name])


def test_export_computes_the_same(tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    network = Network()
    network.biases["conv2"] += np.float32(0.1)
    export(network, tmp_path / "model.onnx")
    images, _ = batch(2)
    logits, _ = network.forward(images)
    want = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    evaluator = ReferenceEvaluator(str(tmp_path / "model.onnx"))
    for position in range(2):
        (got,) = evaluator.run(None, {"image": images[position : position + 1]})
        np.testing.assert_allclose(got[0], want[position], rtol=1e-5, atol=1e-6)


def test_committed_model_is_small_sparse_and_valid() -> None:
    assert MODEL.stat().st_size < 100_000
    model = onnx.load(MODEL)
    onnx.checker.check_model(model, full_check=True)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for name, shape, share in _LAYERS:
        weight = weights[f"{name}.weight"]
        assert weight.shape == shape
        assert np.count_nonzero(weight) == weight.size - round(weight.size * share)


def test_committed_model_reads_digits_it_never_saw() -> None:
    pytest.importorskip("sklearn")
    runtime = pytest.importorskip("onnxruntime")
    from edgert.demo.digits import load_digits

    digits = load_digits()
    assert (len(digits.train_labels), len(digits.test_labels)) == (1297, 500)
    session = runtime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    answers = [session.run(None, {"image": image[None]})[0].argmax() for image in digits.test_images]
    assert np.mean(np.array(answers) == digits.test_labels) >= 0.98
