"""The known machine that stands for this one, by what Linux tells of the processor."""

from __future__ import annotations

import pytest

from targets.base import resolve
from targets.cpu import host
from targets.machine import Machine

AVX512 = "avx2 avx512f avx512bw avx512dq avx512vl"


def told(vendor: str, family: int, flags: str) -> str:
    return (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 1\nflags\t\t: fpu {flags}\n\n" * 2
    )


@pytest.mark.parametrize(
    ("processor", "arch", "machine", "avx512"),
    [
        (told("AuthenticAMD", 26, AVX512), "x86_64", "zen5-server", True),
        (told("AuthenticAMD", 25, AVX512), "x86_64", "zen4-server", True),
        (told("AuthenticAMD", 25, "avx2"), "x86_64", "zen3-server", False),
        (told("AuthenticAMD", 23, "avx2"), "x86_64", "zen3-server", False),
        (told("GenuineIntel", 6, "avx2"), "x86_64", "xeon-e5-2666v3", False),
        (told("GenuineIntel", 6, AVX512), "x86_64", "zen4-server", True),
        (told("GenuineIntel", 6, AVX512 + " avx512_vnni"), "x86_64", "zen4-server", True),
        (told("GenuineIntel", 6, "avx2 avx512f avx512_vnni"), "x86_64", "xeon-e5-2666v3", False),
        (told("GenuineIntel", 26, AVX512 + " amx_tile"), "x86_64", "zen4-server", True),
        (told("GenuineIntel", 6, "avx2 avx512f"), "x86_64", "xeon-e5-2666v3", False),
        ("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd08\n", "aarch64", "cortex-a72", False),
        ("", "x86_64", "xeon-e5-2666v3", False),
    ],
)
def test_processors(processor: str, arch: str, machine: str, avx512: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_processor", lambda: processor)
    monkeypatch.setattr("platform.machine", lambda: arch)
    assert (host.machine(), host.has_avx512()) == (machine, avx512)
    assert host.has_vnni() == (avx512 and "vnni" in processor)
    target = resolve("cpu")
    assert target.machine.name == Machine.load(machine).name
    assert target.arch == arch
    assert resolve("cpu-x86_64-avx512").machine.name == "zen4-server", "other targets are the same everywhere"
