"""onnxruntime as what quantised networks are compared with."""

from __future__ import annotations

import onnxruntime

__all__ = ["precise"]


def precise() -> onnxruntime.SessionOptions:
    """Sums of products of bytes are not cut off at 16 bits, which they are by default on x86-64 without VNNI. Where
    weights are signed, that takes a change of the graph, one of the extended optimizations."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options
