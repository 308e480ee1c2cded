"""The files generated from the schema and from the table of errors are fresh."""

import pytest

from packer.bundle.generate import ROOT, generate, main


@pytest.mark.parametrize("name", sorted(generate()))
def test_fresh(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == generate()[name], "run: python -m packer.bundle.generate"


def test_every_error_row_is_found() -> None:
    text = (ROOT / "runtime_c/include/edgert/errors.def").read_text(encoding="utf-8")
    assert generate()["edgert/_errors.py"].count("    Error(") == text.count("\nX(")


def test_check_passes_on_fresh_files() -> None:
    assert main(["--check"]) == 0
