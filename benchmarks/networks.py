"""The benchmark networks: generated once by the shared tool into benchmarks/.cache, packed beside the ONNX file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from packer.api import pack

__all__ = ["NAMES", "QUICK", "Network", "networks"]

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".cache"
TOOL = ROOT.parent.parent / "shared" / "tools" / "make_models.py"

NAMES = (
    "alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "mobilenet_v1",
    "mobilenet_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "yolov2_like",
    "zfnet512",
)
QUICK = ("mobilenet_v2", "resnet50", "squeezenet")


@dataclass(frozen=True, slots=True)
class Network:
    """An ONNX file, its bundle, and one input with the output onnxruntime gave for it."""

    name: str
    onnx: Path
    edge: Path
    input_name: str
    output_name: str
    x: np.ndarray
    y: np.ndarray


def networks(names: tuple[str, ...], variant: str = "dense") -> list[Network]:
    """The named networks, generated and packed if they are not there yet; exits with a message where the tool is
    absent."""
    folder = CACHE / variant
    missing = [name for name in names if not (folder / f"{name}.y.f32").exists()]
    if missing:
        if not TOOL.exists():
            sys.exit(f"the benchmark networks need {TOOL.name}; expected at {TOOL}")
        CACHE.mkdir(exist_ok=True)
        subprocess.run([sys.executable, TOOL, "--out", CACHE, "--variants", variant, "--models", *missing], check=True)
    return [_network(folder, name) for name in names]


def _network(folder: Path, name: str) -> Network:
    info = json.loads((folder / f"{name}.io.json").read_text())
    path, edge = folder / f"{name}.onnx", folder / f"{name}.edge"
    pack(path, edge, golden=False)
    x = np.fromfile(folder / f"{name}.x.f32", np.float32).reshape(info["shape"])
    y = np.fromfile(folder / f"{name}.y.f32", np.float32).reshape(info["oshape"])
    return Network(name, path, edge, info["in"], info["out"], x, y)
