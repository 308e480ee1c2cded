"""Our verifier of the metadata against Google's: what ours accepts, Google's does too."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.edgert.edge_files import HEADER
from tests.runtime_c.test_readers_agree import a_file, c_status, damaged

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "packer" / "bundle" / "edgert.fbs"

pytestmark = pytest.mark.skipif(not shutil.which("flatc") or not shutil.which("c++"), reason="needs flatc and c++")


@pytest.fixture(scope="module")
def google_accepts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], bool]:
    """Whether Google's verifier accepts the metadata of a file."""
    folder = tmp_path_factory.mktemp("google")
    subprocess.run(["flatc", "--cpp", "-o", folder, SCHEMA], check=True)
    library = folder / "google.so"
    source = HERE / "google_verifier.cpp"
    subprocess.run(["c++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{folder}", "-o", library, source], check=True)
    function = ctypes.CDLL(str(library)).google_accepts
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

    def accepts(file: bytes) -> bool:
        metadata = file[HEADER : HEADER + int.from_bytes(file[32:40], "little")]
        words = (ctypes.c_uint64 * (len(metadata) // 8 + 1))()  # 8-byte aligned
        ctypes.memmove(words, metadata, len(metadata))
        return bool(function(words, len(metadata)))

    return accepts


@pytest.mark.parametrize("name", ["session", "description", "split_description"])
def test_ours_is_stricter(google_accepts: Callable[[bytes], bool], name: str) -> None:
    file = a_file(name)
    assert google_accepts(file)
    accepted = refused = 0
    for changed, what in damaged(file, 8, 3000):
        google = google_accepts(changed)
        if c_status(changed, 1) == 0:
            assert google, what
            accepted += 1
        refused += not google
    assert accepted > 100
    assert refused > 100
