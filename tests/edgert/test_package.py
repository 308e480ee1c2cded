"""The package as a whole: what importing it costs, its names, its errors, finding the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import edgert
from edgert import _errors, errors

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, **environment: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_public_name_exists() -> None:
    for name in edgert.__all__:
        assert getattr(edgert, name) is not None
    assert set(edgert.__all__) <= set(dir(edgert))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        edgert.nope  # noqa: B018


def test_imports_numpy_only() -> None:
    code = """
import sys
import numpy
before = set(sys.modules)
import edgert
edgert.load, edgert.read, edgert.EdgertError
top = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in top if name not in sys.stdlib_module_names))
"""
    assert python(code).strip() == "['edgert']"


def test_import_time_beyond_numpy() -> None:
    """The promise is 30 ms where numpy takes 80; in units of numpy's own import, so that a slow machine does not count.

    Processor time, best of five; `python -m benchmarks overhead` gives the milliseconds.
    """
    code = """
import time
started = time.process_time()
import numpy
middle = time.process_time()
import edgert
edgert.load
print((time.process_time() - middle) / (middle - started))
"""
    assert min(float(python(code)) for _ in range(5)) < 0.375


def test_bench_needs_no_more_modules_once_it_runs() -> None:
    """Their memory would count as the bundle's."""
    assert python("import sys, edgert.bench\nprint('numpy.random' in sys.modules)").strip() == "True"


def test_help_is_instant() -> None:
    code = """
import sys
from edgert.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
assert "numpy" not in sys.modules and "rich" not in sys.modules and "onnx" not in sys.modules
"""
    assert "Usage" in python(code)


def test_a_class_for_every_error_of_the_table() -> None:
    for row in _errors.ERRORS:
        cls = errors.class_of(row.number)
        assert cls is not errors.EdgertError
        assert (cls.status, cls.id) == (row.number, row.id)
        assert cls.__name__ in edgert.__all__
        error = cls.of("here")
        assert str(error) == f"{row.sentence}: here\n{row.hint}"
    assert errors.class_of(9999) is errors.EdgertError


def test_library_is_looked_for_where_it_may_be(tmp_path: Path) -> None:
    code = "import edgert, edgert._native as n\ntry: n.library()\nexcept edgert.LibraryError as e: print(e)"
    (tmp_path / "not.so").write_text("no library")
    for path in (tmp_path / "not.so", tmp_path / "absent.so"):
        text = python(code, EDGERT_LIBRARY=str(path))
        assert f"{path} could not be loaded" in text
        assert len(text.splitlines()) <= 4
    # Beside a copy of the package elsewhere on the path, as editable installs have it.
    place = tmp_path / "edgert" / "_lib"
    place.mkdir(parents=True)
    (place / "libedgert.so").write_text("no library")
    search = (
        f"import sys; sys.path.insert(1, {str(tmp_path)!r})\n"
        "import edgert, edgert._native as n; edgert.__path__ = []; print(n._find())"
    )
    assert python(search, EDGERT_LIBRARY="").strip() == str(place / "libedgert.so")


def test_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgert import _native

    _native.library.cache_clear()
    monkeypatch.setattr(edgert, "__version__", "7.0.0")
    with pytest.raises(edgert.LibraryError, match=r"expected 7\.0\.0"):
        _native.library()
    monkeypatch.undo()
    _native.library()
