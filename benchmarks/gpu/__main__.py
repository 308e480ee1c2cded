"""Measures a GPU and what runs on it: its ceilings, our kernels against float64 and against peers, whole networks.

One JSON file and some pictures come out: results/gpu_NAME.json and results/gpu_NAME_*.svg, or in $OUT if that is set.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.gpu import driver
from benchmarks.gpu.build import ROOT, BuildError, build
from benchmarks.gpu.device import clocks, find
from benchmarks.gpu.modules import translator
from benchmarks.gpu.plan import run_all
from benchmarks.gpu.session import Session

__all__ = ["SECTIONS"]

# in their order, each a module here with a function of its name: shares of the time
SECTIONS = {
    "ceilings": 30.0,
    "launches": 5.0,
    "operators": 190.0,
    "supply": 40.0,
    "stalls": 60.0,
    "correctness": 90.0,
    "networks": 150.0,
    "planned": 150.0,
    "pictures": 0.0,
}
_LOADING = ("correctness", "networks", "planned")  # sections that need the runtime, which a compiler takes a minute for
_BUILDS = ROOT / "build" / "gpu-session"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="NAME")
    parser.add_argument("--seconds", type=float, default=540, help="for everything together (540)")
    parser.add_argument("--emulate", action="store_true", help="try it all, tiny, on the emulator; times say nothing")
    parser.add_argument("--output", type=Path, help="folder for results (results, or $OUT)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # ends the section's processes, too
    began = time.monotonic()
    building = threading.Thread(target=_build_runtime, daemon=True)
    if not set(_LOADING).isdisjoint(options.sections):
        building.start()
    library = _library(options.emulate)
    try:
        driver.use(library)
        found = find()
    except (OSError, driver.CudaError) as error:
        sys.exit(f"no NVIDIA GPU can be used: {error}. --emulate tries the programs without one")
    emulated = driver.emulated()
    name = "emulated" if emulated else re.sub(r"\W+", "_", found.name.lower().removeprefix("nvidia ")).strip("_")
    folder = options.output or (Path(tempfile.mkdtemp()) if emulated else _results())
    output = folder.resolve() / f"gpu_{name}.json"
    output.unlink(missing_ok=True)
    session, how = Session(output, emulated), translator(found.arch, emulated)
    session.result |= {"device": dataclasses.asdict(found), "translated_by": how, "clocks": clocks()}
    session.save()
    print(f"{found.name}: {found.arch}, {found.multiprocessors} multiprocessors, {found.memory >> 20} MiB")
    print(f"PTX is translated by {how}", flush=True)

    def command(name: str, seconds: float) -> list[str]:
        if name in _LOADING:
            building.join()
        return [sys.executable, "-m", "benchmarks.gpu.section", name, str(output), str(seconds), library]

    sections = {name: SECTIONS[name] for name in SECTIONS if name in options.sections}
    run_all(output, sections, options.seconds - (time.monotonic() - began), command, ROOT)
    print(f"results: {output}")


def _results() -> Path:
    return Path(os.environ.get("OUT") or ROOT / "benchmarks" / "results")


def _build_runtime() -> None:
    """What loads bundles, unless there is one."""
    if "EDGERT_LIBRARY" in os.environ:
        return
    settings = ("-DCMAKE_BUILD_TYPE=Release", "-DEDGERT_BUILD_TESTS=OFF", "-DEDGERT_BUILD_TOOLS=OFF")
    try:
        os.environ["EDGERT_LIBRARY"] = str(build("runtime_c", _BUILDS / "runtime", *settings, library="libedgert.so"))
    except BuildError as error:
        print(f"the runtime cannot be built, so whole networks will fail: {error}", flush=True)


def _library(emulate: bool) -> str:
    """The driver, that of EDGERT_CUDA_LIBRARY, or the emulator, which is built."""
    if emulate and "EDGERT_CUDA_LIBRARY" not in os.environ:
        try:
            emulator = build("targets/cuda/emulator", _BUILDS / "emulator", library="libcuda-emulator.so")
        except BuildError as error:
            sys.exit(f"the emulator cannot be built: {error}")
        os.environ["EDGERT_CUDA_LIBRARY"] = str(emulator)
    if emulate:
        os.environ.setdefault("EDGERT_EMULATOR_DRIVER", "12090")
    return os.environ.get("EDGERT_CUDA_LIBRARY", driver.INSTALLED)


if __name__ == "__main__":
    main()
