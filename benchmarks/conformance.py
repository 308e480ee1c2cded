"""ONNX's backend conformance suite through edgert.backend and through onnxruntime, by operator.

Counted are the node tests all of whose inputs and outputs are float32, integers (8 to 64 bits) or booleans.
"""

from __future__ import annotations

import unittest
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from benchmarks.report import save, table

__all__ = ["counted_tests", "passed_tests", "run"]

TYPES = {
    getattr(TensorProto, name)
    for name in ("FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "UINT32", "UINT64", "BOOL")
}


def counted_tests() -> dict[str, str]:
    """Name of each counted test with its operator (the first node's)."""
    found = {}
    for case in load_model_tests(kind="node"):
        model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
        values = [*model.graph.input, *model.graph.output]
        if all(v.type.HasField("tensor_type") and v.type.tensor_type.elem_type in TYPES for v in values):
            name = str(case.name)
            plain = name.removesuffix("_expanded").split("_expanded_ver")[0]
            found[name] = model.graph.node[0].op_type if plain == name else "(expanded functions)"
    return found


def passed_tests(backend: ModuleType | type[Backend], names: set[str] | None = None) -> dict[str, bool]:
    """Whether each node test passes on the CPU; skipped counts as not passed."""
    cases = BackendTest(backend, __name__).test_cases["OnnxBackendNodeModelTest"]
    methods = [m for m in dir(cases) if m.startswith("test_") and m.endswith("_cpu")]
    passed = {}
    for method in methods:
        name = method.removesuffix("_cpu")
        if names is None or name in names:
            result = unittest.TestResult()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cases(method).run(result)
            passed[name] = result.wasSuccessful() and not result.skipped
    return passed


class _Onnxruntime(Backend):  # type: ignore[misc]
    """onnxruntime at its best: models whose format version alone it refuses are stamped with the last one it reads, and
    scalars are handed over as arrays."""

    IR_VERSION = 13

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Any:
        import onnxruntime

        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        copy.ir_version = min(model.ir_version, cls.IR_VERSION)
        session = onnxruntime.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"])

        class Prepared(BackendRep):  # type: ignore[misc]
            def run(self, inputs: Any, **kwargs: Any) -> Any:
                names = [value.name for value in session.get_inputs()]
                arrays = [value if isinstance(value, list) or value is None else np.asarray(value) for value in inputs]
                return session.run(None, dict(zip(names, arrays, strict=False)))

        return Prepared()

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def run(quick: bool = False) -> None:
    """Print the table by operator and save results/conformance.json."""
    import onnxruntime

    import edgert.backend

    onnxruntime.set_default_logger_severity(4)
    operators = counted_tests()
    names = set(operators)
    ours, theirs = passed_tests(edgert.backend, names), passed_tests(_Onnxruntime, names)
    rows: dict[str, Counter[str]] = {}
    for name, operator in operators.items():
        row = rows.setdefault(operator, Counter())
        row.update({"tests": 1, "edgert": int(ours.get(name, False)), "onnxruntime": int(theirs.get(name, False))})
        row["both"] += int(ours.get(name, False) and theirs.get(name, False))
    shown: list[list[Any]] = [[k, r["tests"], r["edgert"], r["onnxruntime"]] for k, r in sorted(rows.items())]
    table("conformance: node tests passed, by operator", ["operator", "tests", "edgert", "onnxruntime"], shown)
    total: Counter[str] = sum(rows.values(), Counter())
    missing = sorted(name for name in operators if theirs.get(name) and not ours.get(name))
    share = total["both"] / total["onnxruntime"]
    counts = ", ".join(f"{who} {total[who]}" for who in ("edgert", "onnxruntime"))
    print(f"passed: {counts} of {total['tests']}; {share:.1%} of what onnxruntime passes")
    print("passed by onnxruntime only: " + ", ".join(missing))
    save("conformance", {"by_operator": rows, "total": total, "share_of_onnxruntime": share, "missing": missing})


if __name__ == "__main__":
    run()
