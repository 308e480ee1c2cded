"""The table of kernels: sorted, since it is searched by halves, and complete."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "runtime_c" / "src"


def test_sorted_and_complete() -> None:
    listed = re.findall(r"\bX\((\w+)\)", (SOURCES / "kernels" / "registry.c").read_text(encoding="utf-8"))
    assert listed == sorted(set(listed))
    files = sorted([*(SOURCES / "kernels").glob("*.c"), *(SOURCES / "backends").rglob("*.c")])
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files)
    defined = re.findall(r'^const ert_kernel ert_kernel_(\w+) = \{\s*(?:\.name = )?"(\w+)"', sources, re.MULTILINE)
    assert all(identifier == name for identifier, name in defined)
    assert sorted(name for name, _ in defined) == listed
