"""The node tests of the onnx package: how many import and give the expected result, never fewer than before."""

from __future__ import annotations

from collections import Counter

from tests.packer.importers.sweep import attempt, cases

FLOOR = 1480

# Operators of float32, integer and boolean tensors that are not packed; every other one passes all of its tests.
MISSING = {
    "Adagrad", "Adam", "ArrayFeatureExtractor", "Bernoulli", "Binarizer", "BitCast", "DeformConv",
    "Det", "Dropout", "ImageDecoder", "Momentum", "Scan", "TensorScatter", "TfIdfVectorizer",
    "TreeEnsemble", "Unique", "bernoulli (expanded)",
}  # fmt: skip


def test_floor() -> None:
    outcomes = [attempt(test) for test in cases()]
    results = Counter(outcome.result for outcome in outcomes)
    assert not [outcome for outcome in outcomes if outcome.result == "different"]
    assert {outcome.operator for outcome in outcomes if outcome.result != "equal"} <= MISSING
    assert results["equal"] >= FLOOR
