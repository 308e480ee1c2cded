"""Kernels launched once each, for a profiler around the process: `python -m benchmarks.gpu.launched WORKS LIBRARY`.

The number of its work and the name are told of each, as a line of JSON on standard output.
"""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu import driver
from benchmarks.gpu.device import find
from benchmarks.gpu.driver import Buffer, primary, synchronize
from benchmarks.gpu.modules import Modules
from benchmarks.gpu.placed import Data, Placed
from targets.cuda.kernel import Code
from targets.cuda.layer import ConvLayer

__all__ = ["Work"]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Code over the input and output of a layer, or without one over its own operands; `facts` tell of what it is."""

    facts: dict[str, Any]
    code: Code
    layer: ConvLayer | None = None


def main() -> None:
    path, library = sys.argv[1:]
    works: list[Work] = pickle.loads(Path(path).read_bytes())
    driver.use(library)
    modules = Modules(primary(), find().arch, driver.emulated())
    loading = [[modules.load(kernel.ptx) for kernel in work.code.kernels] for work in works]
    layer, (x, y) = None, (Buffer(256), Buffer(256))
    for number, (work, loaded) in enumerate(zip(works, loading, strict=True)):
        if work.layer is not layer and work.layer is not None:
            layer, data = work.layer, Data(work.layer)
            x, y = data.x, data.y
        placed = Placed.of(work.code, loaded, x, y)
        placed.launch(None)
        synchronize()
        for kernel in work.code.kernels:
            print(json.dumps({"work": number, "kernel": kernel.name}), flush=True)
        placed.free()
        for module in loaded:
            module.unload()
    modules.close()


if __name__ == "__main__":
    main()
