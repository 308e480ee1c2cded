"""This machine's processor, as Linux tells it: what it executes, and which known machine it is most like."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

__all__ = ["has_avx512", "has_vnni", "machine"]

_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}  # those of the runtime's kernels (simd/select.c)
_KNOWN = {("AuthenticAMD", "26"): "zen5-server"}  # by vendor and family, others by what they execute,
_AVX2 = {"AuthenticAMD": "zen3-server"}  # and those without AVX-512 by vendor


def has_avx512() -> bool:
    """Whether it runs the runtime's kernels for AVX-512."""
    return set(_told("flags").split()) >= _AVX512


def has_vnni() -> bool:
    """Whether those multiply bytes, too."""
    return has_avx512() and "avx512_vnni" in _told("flags").split()


def machine() -> str:
    """The name of the known machine whose figures stand for it until it is calibrated."""
    if platform.machine() == "aarch64":
        return "cortex-a72"
    known = _KNOWN.get((_told("vendor_id"), _told("cpu family")))
    if known or has_avx512():
        return known or "zen4-server"
    return _AVX2.get(_told("vendor_id"), "xeon-e5-2666v3")


def _told(key: str) -> str:
    found = re.search(rf"^{key}\s*:(.*)$", _processor(), re.MULTILINE)
    return found[1].strip() if found else ""


@cache
def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
