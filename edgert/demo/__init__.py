"""`edgert demo`: a small pruned network from ONNX to answers about real handwritten digits."""

from __future__ import annotations

import os

__all__ = ["main"]


def main(output_dir: str | os.PathLike[str] = "edgert-demo") -> int:
    """Run the demo, leaving its files in `output_dir`; returns 0, or 1 if the bundle does not do what the model does.

    Needs `edgert[demo]`: onnx, flatbuffers, Pillow and scikit-learn.
    """
    from edgert.demo.run import run

    return run(output_dir)
