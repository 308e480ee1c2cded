"""The self-test: which program it tested, on every instruction set, and what it says where nothing can be compared."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from edgert import _native
from edgert.errors import InvalidArgumentError
from edgert.selftest import selftest
from packer.bundle.writer import write_bundle
from tests.edgert.command import fail, invoke, succeed
from tests.edgert.networks import packed, two_inputs
from tests.runtime_c.bundles import session_bundle


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(two_inputs(), tmp_path_factory.mktemp("selftest"))


def test_every_instruction_set(sums: Path) -> None:
    found = selftest(sums, isa="all", runs=1)
    assert found.passed
    assert [(output.isa, output.name) for output in found.outputs] == [
        (isa, name) for isa in _native.isas() for name in ("sum", "positive")
    ]
    assert found.session is not None
    assert found.session.isa == _native.isas()[0]  # the best one is timed
    text = invoke("selftest", sums, "--isa", "all", "--runs", 1).stdout
    assert all(f"golden output 'sum' on {isa}: ok" in text for isa in _native.isas())


def test_one_instruction_set(sums: Path) -> None:
    found = json.loads(invoke("selftest", sums, "--isa", "scalar", "--runs", 1, "--json").stdout)
    assert [output["isa"] for output in found["outputs"]] == ["scalar"] * 2
    assert found["session"]["isa"] == "scalar"
    with pytest.raises(InvalidArgumentError, match=r"isa: expected one of .*got 'every'"):
        selftest(sums, isa="every")


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


def test_verbs_say_which_program_they_ran(sums: Path) -> None:
    used = selftest(sums, threads=1, isa="scalar", runs=1).session
    assert used is not None
    told = f"{sums}: {used.target}, cores {used.cores}, scalar, threads 1, {used.steps} steps"
    for words in (("selftest", sums, "--runs", 1), ("bench", sums, "--runs", 1), ("run", sums, "--random")):
        assert invoke(*words, "--threads", 1, "--isa", "scalar").stdout.splitlines()[0] == told
    found = json.loads(invoke("run", sums, "--random", "--threads", 1, "--isa", "scalar", "--json").stdout)
    assert found["session"] == asdict(used)


def test_selftest(bundle: Path, folder: Path, tmp_path: Path) -> None:
    assert succeed("selftest", bundle, "--runs", 5).rstrip().endswith("PASS")
    found = json.loads(succeed("selftest", bundle, "--runs", 5, "--deadline-ms", 10000, "--json"))
    assert found["passed"]
    assert found["on_time"]
    assert [output["name"] for output in found["outputs"]] == ["scores"]
    assert "cpu, cores 1, " in succeed("selftest", bundle, "--runs", 5, "--threads", 1)
    succeed("pack", folder / "two" / "model.onnx", "-o", tmp_path / "bare.edge", "--no-golden")
    assert "PASS, but no output was compared" in succeed("selftest", tmp_path / "bare.edge", "--runs", 1)

    late = invoke("selftest", bundle, "--runs", 5, "--deadline-ms", 0)
    assert late.exit_code == 1
    assert late.stdout.rstrip().endswith("FAIL")

    broken = bytearray(bundle.read_bytes())
    broken[-1] ^= 1
    (tmp_path / "broken.edge").write_bytes(broken)
    damaged = invoke("selftest", tmp_path / "broken.edge", "--json")
    assert damaged.exit_code == 1
    assert "checksum" in json.loads(damaged.stdout)["integrity"]

    model, shape = folder / "model.onnx", "image=1x3x10x8"
    succeed("pack", model, "-o", tmp_path / "strict.edge", "--shape", shape, "--atol", 0, "--rtol", 0)
    strict = invoke("selftest", tmp_path / "strict.edge", "--runs", 1)
    assert ("FAIL" in strict.stdout) == (strict.exit_code == 1)
    assert "no such file" in fail("selftest", tmp_path / "absent.edge").lower()
