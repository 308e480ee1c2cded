"""The C library by itself: its own tests, an installation of it, and the example that embeds it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from packer.bundle.model import Bundle
from packer.bundle.writer import write_bundle
from tests.runtime_c.bundles import CORES, GOLDEN, cores_bundle, session_bundle
from tests.runtime_c.native import BUILD, PATH, ROOT, build, run

needs_tools = pytest.mark.skipif(
    not all(shutil.which(tool, path=PATH) for tool in ("cmake", "ctest", "ninja", "cc")),
    reason="needs cmake, ninja and cc",
)


@pytest.fixture(scope="module")
def built() -> Path:
    """The build folder of the library and its tests."""
    return build(BUILD)


@pytest.mark.parametrize(("bundle", "path"), [(session_bundle(), GOLDEN), (cores_bundle(), CORES)], ids=["one", "many"])
def test_golden_bundles_are_fresh(bundle: Bundle, path: Path, tmp_path: Path) -> None:
    write_bundle(bundle, tmp_path / "made.edge")
    same = (tmp_path / "made.edge").read_bytes() == path.read_bytes()
    assert same, "run: python -m tests.runtime_c.bundles"


@needs_tools
@pytest.mark.slow
def test_c_tests(built: Path) -> None:
    run("ctest", "--test-dir", built, "--output-on-failure")


@needs_tools
@pytest.mark.slow
def test_threads_share_nothing_unguarded() -> None:
    """Barriers, and programs of several cores on 1 to 4 threads, under the thread sanitizer."""
    names = ("test_pool", "test_session")
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DEDGERT_SANITIZE=thread", "-DEDGERT_WERROR=OFF")
    folder = build(ROOT / "build" / "pytest-threads", *options, targets=names)
    for name in names:
        run(folder / "tests" / name, GOLDEN.parent)


@needs_tools
@pytest.mark.slow
def test_example_by_cmake_and_by_pkg_config(built: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    run("cmake", "--install", built, "--prefix", prefix)
    run("cmake", "-S", "examples/c_embed", "-B", tmp_path / "example", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "example")
    programs = [tmp_path / "example" / "c_embed"]
    if shutil.which("pkg-config") and shutil.which("make"):
        shutil.copytree(ROOT / "examples" / "c_embed", tmp_path / "make")
        folder = next(prefix.glob("lib*/**/pkgconfig"))
        run("make", "-C", tmp_path / "make", PKG_CONFIG_PATH=str(folder))
        programs.append(tmp_path / "make" / "c_embed")
    for program in programs:
        library = str(next(prefix.glob("lib*/**/libedgert.so")).parent)
        printed = run(program, GOLDEN, "50", "1000", LD_LIBRARY_PATH=library)
        assert "50 frames: p50" in printed
        assert "deadline of 1000.000 ms missed by 0" in printed


def cross_build(target: str, *targets: str) -> Path:
    """The build folder for aarch64, compiled by zig for one of its targets."""
    toolchain = ROOT / "runtime_c" / "cmake" / "aarch64-zig.cmake"
    options = (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DEDGERT_ZIG_TARGET={target}")
    return build(ROOT / "build" / f"pytest-{target}", *options, targets=targets)


needs_zig = pytest.mark.skipif(not shutil.which("python-zig", path=PATH), reason="needs the package ziglang")


needs_qemu = pytest.mark.skipif(not shutil.which("qemu-aarch64-static", path=PATH), reason="needs qemu-user-static")


@needs_tools
@needs_zig
@needs_qemu
@pytest.mark.slow
def test_c_tests_on_aarch64() -> None:
    run("ctest", "--test-dir", cross_build("aarch64-linux-musl"), "--output-on-failure")


@needs_tools
@needs_zig
@needs_qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("processor", "isas"),
    [
        ("max", ["neoni8mm", "neondotprod", "neon", "scalar"]),
        ("neoverse-n1", ["neondotprod", "neon", "scalar"]),
        ("cortex-a57", ["neon", "scalar"]),
    ],
)
def test_products_of_bytes_on_processors_of_aarch64(processor: str, isas: list[str]) -> None:
    """What a processor has is found, and all of it gives the bits of the scalar loops."""
    program = cross_build("aarch64-linux-musl", "test_bytes") / "tests" / "test_bytes"
    assert run("qemu-aarch64-static", "-cpu", processor, program).split() == isas


@needs_tools
@needs_zig
@pytest.mark.slow
def test_library_needs_no_newer_glibc_than_2_27() -> None:
    library = cross_build("aarch64-linux-gnu.2.27", "edgert_shared") / "libedgert.so"
    versions = re.findall(rb"GLIBC_2\.(\d+)", library.read_bytes())
    assert versions
    assert max(map(int, versions)) <= 27
