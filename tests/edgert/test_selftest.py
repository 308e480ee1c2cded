"""The self-test: which program it tested, on every instruction set, and what it says where nothing can be compared."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from edgert import _native
from edgert.cli import app
from edgert.errors import InvalidArgumentError
from edgert.selftest import selftest
from packer.bundle.writer import write_bundle
from tests.edgert.networks import packed, two_inputs
from tests.runtime_c.bundles import session_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(two_inputs(), tmp_path_factory.mktemp("selftest"))


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_instruction_set(bundle: Path) -> None:
    found = selftest(bundle, isa="all", runs=1)
    assert found.passed
    assert [(output.isa, output.name) for output in found.outputs] == [
        (isa, name) for isa in _native.isas() for name in ("sum", "positive")
    ]
    assert found.session is not None
    assert found.session.isa == _native.isas()[0]  # the best one is timed
    text = invoke("selftest", bundle, "--isa", "all", "--runs", 1).stdout
    assert all(f"golden output 'sum' on {isa}: ok" in text for isa in _native.isas())


def test_one_instruction_set(bundle: Path) -> None:
    found = json.loads(invoke("selftest", bundle, "--isa", "scalar", "--runs", 1, "--json").stdout)
    assert [output["isa"] for output in found["outputs"]] == ["scalar"] * 2
    assert found["session"]["isa"] == "scalar"
    with pytest.raises(InvalidArgumentError, match=r"isa: expected one of .*got 'every'"):
        selftest(bundle, isa="every")


def test_one_that_is_wrong_fails_all(tmp_path: Path) -> None:
    wrong = session_bundle()
    wrong.goldens[0].outputs["y"][3, 5] += 1
    write_bundle(wrong, tmp_path / "wrong.edge")
    found = selftest(tmp_path / "wrong.edge", isa="all", runs=1)
    assert not found.passed
    assert [output.passed for output in found.outputs if output.name == "y"] == [False] * len(_native.isas())


def test_nothing_to_compare(tmp_path: Path) -> None:
    write_bundle(replace(session_bundle(), goldens=()), tmp_path / "bare.edge")
    result = invoke("selftest", tmp_path / "bare.edge", "--runs", 1)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("PASS, but no output was compared")
    late = invoke("selftest", tmp_path / "bare.edge", "--runs", 1, "--deadline-ms", 0)
    assert (late.exit_code, late.stdout.splitlines()[-1]) == (1, "FAIL")
    assert json.loads(invoke("selftest", tmp_path / "bare.edge", "--runs", 1, "--json").stdout)["outputs"] == []


def test_verbs_say_which_program_they_ran(bundle: Path) -> None:
    used = selftest(bundle, threads=1, isa="scalar", runs=1).session
    assert used is not None
    told = f"{bundle}: {used.target}, cores {used.cores}, scalar, threads 1, {used.steps} steps"
    for words in (("selftest", bundle, "--runs", 1), ("bench", bundle, "--runs", 1), ("run", bundle, "--random")):
        assert invoke(*words, "--threads", 1, "--isa", "scalar").stdout.splitlines()[0] == told
    found = json.loads(invoke("run", bundle, "--random", "--threads", 1, "--isa", "scalar", "--json").stdout)
    assert found["session"] == asdict(used)
