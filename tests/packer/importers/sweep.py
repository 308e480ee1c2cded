"""Imports every node test of the onnx package and evaluates it by the IR's reference; run it for a report.

python tests/packer/importers/sweep.py [--verbose] [operator ...]
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from packer.errors import ModelError
from packer.importers import import_onnx
from packer.ir.evaluate import evaluate

NATIVE = {onnx.TensorProto.DataType.Value(name) for name in (
    "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "UINT32", "UINT64", "BOOL",
)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one test: "equal", "different" or "refused", with the reason."""

    name: str
    operator: str
    result: str
    reason: str = ""


def cases(operators: Sequence[str] = ()) -> Iterator[Any]:
    """The node tests whose inputs and outputs are tensors of float32, integers or bool, in order of name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    for test in sorted(tests, key=lambda test: test.name):
        infos = [*test.model.graph.input, *test.model.graph.output]
        native = all(
            i.type.WhichOneof("value") == "tensor_type" and i.type.tensor_type.elem_type in NATIVE for i in infos
        )
        if native and test.data_sets and (not operators or operator_of(test) in operators):
            yield test


def operator_of(test: Any) -> str:
    """The operator a test is about: that of its only node, else the first word of its name."""
    nodes = test.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else test.name.removeprefix("test_").split("_")[0] + " (expanded)"


def attempt(test: Any) -> Outcome:
    """Import a test, with inputs that determine shapes pinned to their values, and compare all of its data sets."""
    for inputs, expected in test.data_sets:
        named = dict(zip((i.name for i in test.model.graph.input), map(np.asarray, inputs), strict=True))
        try:
            graph = imported(test.model, named)
        except ModelError as error:
            return Outcome(test.name, operator_of(test), "refused", str(error).replace("\n", " "))
        results = evaluate(graph, {name: named[name] for name in graph.inputs})
        for name, want in zip(graph.outputs, expected, strict=True):
            got = results[name]
            for extent in graph.extents:
                if extent.value == name:
                    count = int(np.reshape(evaluate_count(graph, named, extent.count), -1)[0])
                    got = np.take(got, np.arange(count), extent.axis)
            if np.asarray(want).dtype == object:  # a result that the onnx package does not have
                continue
            want = np.asarray(want)
            if got.shape != want.shape or got.dtype != want.dtype:
                return Outcome(
                    test.name, operator_of(test), "different", f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
                )
            if not is_close(got, want, test.rtol or 1e-3, test.atol or 1e-7):
                return Outcome(
                    test.name,
                    operator_of(test),
                    "different",
                    f"by {np.abs(got.astype(float) - want.astype(float)).max()}",
                )
    return Outcome(test.name, operator_of(test), "equal")


def is_close(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> bool:
    """As the onnx package compares, except that float32 sums may cancel to rounding errors of their terms."""
    finite = np.abs(want[np.isfinite(want)]) if want.dtype.kind == "f" else np.zeros(0)
    return np.allclose(got, want, rtol, max(atol, 1e-6 * float(finite.max(initial=0))), equal_nan=True)


def evaluate_count(graph: Any, inputs: dict[str, np.ndarray], count: str) -> np.ndarray:
    """The value of a count that is no output of the graph."""
    return evaluate(replace(graph, outputs=(count,)), {name: inputs[name] for name in graph.inputs})[count]


def imported(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> Any:
    """The graph, with inputs pinned one by one as the importer asks for them."""
    pins: dict[str, np.ndarray] = {}
    while True:
        try:
            return import_onnx(model, constants=pins)
        except ModelError as error:
            if error.input_name is None or error.input_name in pins:
                raise
            pins[error.input_name] = values[error.input_name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="only tests of these operators")
    parser.add_argument("--verbose", action="store_true", help="name each test that is not equal")
    options = parser.parse_args()
    outcomes = []
    for test in cases(options.operators):
        outcomes.append(attempt(test))
        if options.verbose and outcomes[-1].result != "equal":
            print(f"{outcomes[-1].result:9} {outcomes[-1].name}: {outcomes[-1].reason}")
    totals, equal = Counter(o.operator for o in outcomes), Counter(o.operator for o in outcomes if o.result == "equal")
    for operator in sorted(totals):
        if totals[operator] != equal[operator]:
            print(f"{operator:40} {equal[operator]:4} of {totals[operator]}")
    print(
        ", ".join(f"{count} {result}" for result, count in Counter(o.result for o in outcomes).items()),
        "of",
        len(outcomes),
    )


if __name__ == "__main__":
    main()
