"""ONNX's backend node tests on a Jetson's GPU, emulated: exactly those fail that fail on the processor."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from benchmarks.conformance import passed_tests
from edgert.backend import EdgertBackend, EdgertRep
from tests.conformance.test_node_tests import PARTS, expected_to_fail, names
from tests.e2e.emulated import make


class OnDevice(EdgertBackend):
    """Operators run on the device wherever it has kernels."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> EdgertRep:
        return EdgertRep(model, make)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_exactly_the_expected_tests_fail(part: int) -> None:
    chosen = names()[part::PARTS]
    passed = passed_tests(OnDevice, set(chosen))
    assert sorted(passed) == chosen, "a test did not run"
    assert [name for name in chosen if passed[name] == expected_to_fail(name)] == []
