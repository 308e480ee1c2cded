"""ONNX's backend node tests: which pass is known exactly, so that nothing is lost and no gain goes unnoticed.

Counted are the tests over float32, integers and booleans. They run in parts, which may go to several processes.
"""

from __future__ import annotations

import functools
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import edgert.backend
from benchmarks.conformance import counted_tests, passed_tests

PARTS = 8
EXPECTED = Path(__file__).with_name("expected_failures.txt")


def patterns() -> list[str]:
    lines = EXPECTED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@functools.cache
def names() -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx overflows on purpose while it makes the tests
        return sorted(counted_tests())


def expected_to_fail(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns())


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, PARTS))])
def test_exactly_the_expected_tests_fail(part: int) -> None:
    chosen = names()[part::PARTS]
    passed = passed_tests(edgert.backend, set(chosen))
    assert sorted(passed) == chosen, "a test did not run"
    lost = [name for name in chosen if not passed[name] and not expected_to_fail(name)]
    gained = [name for name in chosen if passed[name] and expected_to_fail(name)]
    assert not lost, f"fail, but are not in {EXPECTED.name}"
    assert not gained, f"pass: take them out of {EXPECTED.name}"


def test_the_floor() -> None:
    assert len(names()) > 1400
    failing = [name for name in names() if expected_to_fail(name)]
    assert len(failing) < 0.04 * len(names())
    unused = [p for p in patterns() if not any(fnmatchcase(name, p) for name in names())]
    assert not unused, "patterns without a test"
