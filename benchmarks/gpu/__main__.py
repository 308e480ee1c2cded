"""Measures a GPU and what runs on it: its ceilings, our kernels against float64 and against peers, whole networks.

One JSON file and some pictures come out: results/gpu_NAME.json and results/gpu_NAME_*.svg, or in $OUT if that is set.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.gpu.build import ROOT, BuildError, build

SECTIONS = {"ceilings": 30.0, "launches": 5.0, "supply": 45.0, "correctness": 110.0}  # shares of the time


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=540, help="for all sections together (540)")
    parser.add_argument(
        "--emulate", action="store_true", help="try everything, tiny, on the emulator; times say nothing"
    )
    parser.add_argument("--output", type=Path, help="folder for results (results, or $OUT)")
    options = parser.parse_args()
    began = time.monotonic()
    library = _libraries(options.emulate)
    from benchmarks.gpu import bench, device, driver, session  # now that what they load is there

    try:
        driver.use(library)
        found = device.find()
    except (OSError, driver.CudaError) as error:
        sys.exit(f"no NVIDIA GPU can be used: {error}. --emulate tries the programs without one")
    emulated = hasattr(driver.library(), "edgertEmulatorMessage")
    print(f"{found.name}: {found.arch}, {found.multiprocessors} multiprocessors, {found.memory >> 20} MiB", flush=True)
    name = "emulated" if emulated else re.sub(r"\W+", "_", found.name.lower().removeprefix("nvidia ")).strip("_")
    folder = options.output or Path(
        tempfile.mkdtemp() if emulated else os.environ.get("OUT") or ROOT / "benchmarks/results"
    )
    own = session.Session(folder / f"gpu_{name}.json", options.seconds - (time.monotonic() - began), emulated)
    measuring = bench.Bench.on(found, own, library)
    own.result |= {
        "device": dataclasses.asdict(found),
        "translated_by": measuring.modules.how,
        "clocks": device.clocks(),
    }
    print(f"PTX is translated by {measuring.modules.how}", flush=True)
    own.run({name: (SECTIONS[name], partial(_run, name, measuring)) for name in SECTIONS if name in options.sections})
    own.result["clocks_after"] = device.clocks()
    own.save()
    measuring.modules.close()
    print(f"results: {own.output}")


def _run(name: str, measuring: object, session: object) -> None:
    """One section; its module, and what that needs, is imported now, so that what is missing ends no other one."""
    import importlib

    module = importlib.import_module(f"benchmarks.gpu.{name}")
    work: Callable[[object], None] = getattr(module, name)
    work(measuring)


def _libraries(emulate: bool) -> str:
    """Builds the runtime, and the emulator where it is to be used. The library whose functions are called."""
    folder = ROOT / "build" / "gpu-session"
    settings = ("-DCMAKE_BUILD_TYPE=Release", "-DEDGERT_BUILD_TESTS=OFF", "-DEDGERT_BUILD_TOOLS=OFF")
    try:
        if "EDGERT_LIBRARY" not in os.environ:
            os.environ["EDGERT_LIBRARY"] = str(
                build("runtime_c", folder / "runtime", *settings, library="libedgert.so")
            )
    except BuildError as error:
        print(f"the runtime cannot be built, so whole networks are left out: {error}")
    chosen = os.environ.get("EDGERT_CUDA_LIBRARY")
    if emulate and chosen is None:
        chosen = str(build("targets/cuda/emulator", folder / "emulator", library="libcuda-emulator.so"))
        os.environ["EDGERT_CUDA_LIBRARY"] = chosen
    if emulate:
        os.environ.setdefault("EDGERT_EMULATOR_DRIVER", "12090")
    return chosen or "libcuda.so.1"


if __name__ == "__main__":
    main()
