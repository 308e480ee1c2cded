"""Networks in the formats that engines load, converted from ONNX and kept under benchmarks/.cache."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.environments import CACHE, PeerError, end_of, python_of
from packer.api import pack

__all__ = ["converted", "parts"]

ROOT = Path(__file__).resolve().parent
SOURCES = ("packer", "targets", "edgert")  # what a bundle depends on
CORES = (1, 2, 4, 8, 16)


def converted(form: str, model: Path) -> Path:
    """The model in that form, "onnx" or a key of _CONVERSIONS; made again if the model is newer. Raises PeerError."""
    if form == "onnx":
        return model
    suffix, convert = _CONVERSIONS[form]
    path = CACHE / "converted" / form / model.parent.name / f"{model.stem}{suffix}"
    if not path.exists() or path.stat().st_mtime < _changed(form, model):
        path.parent.mkdir(parents=True, exist_ok=True)
        convert(model, path)
    return path


def _changed(form: str, model: Path) -> float:
    """When the model changed, or for bundles also what makes them."""
    sources = [path for folder in SOURCES for path in (ROOT.parent / folder).rglob("*.py")] if form == "edge" else []
    return max(path.stat().st_mtime for path in (model, *sources))


def parts(path: Path) -> list[Path]:
    """All files of a network."""
    return [path, path.with_suffix(".bin")] if path.suffix == ".param" else [path]


def _pack(model: Path, path: Path) -> None:
    usable = len(os.sched_getaffinity(0))
    pack(model, path, cores=tuple(n for n in CORES if n <= usable), golden=False)


def _convert_ncnn(model: Path, path: Path) -> None:
    """pnnx writes beside its input, among other files, those that ncnn loads."""
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        folder = Path(name)
        _with_shuffled_blocks(model, folder / "model.onnx")
        _convert("ncnn", [python_of("ncnn").with_name("pnnx"), "model.onnx", "fp16=0"], folder, "model.ncnn.param")
        for part in parts(folder / "model.ncnn.param"):
            part.rename(path.with_suffix(part.suffix))


def _with_shuffled_blocks(model: Path, path: Path) -> None:
    """The model with a shuffle behind each SpaceToDepth: pnnx takes that for one which puts the positions of a block
    innermost among the channels, where ONNX has them outermost."""
    loaded = onnx.load(model)
    found = [node for node in loaded.graph.node if node.op_type == "SpaceToDepth"]
    if not found:
        path.symlink_to(model.resolve())
        return
    inferred = onnx.shape_inference.infer_shapes(loaded).graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in inferred.value_info}
    nodes = []
    for node in loaded.graph.node:
        nodes.append(node)
        if node in found:
            y = node.output[0]
            batch, channels, *extents = shapes[y]
            block = next(attribute.i for attribute in node.attribute if attribute.name == "blocksize")
            inner = [batch, channels // block**2, block**2, *extents]
            for name, shape in ((f"{y}.inner", inner), (f"{y}.outer", [batch, channels, *extents])):
                loaded.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))
            node.output[0] = f"{y}.blocks"
            nodes.append(helper.make_node("Reshape", [f"{y}.blocks", f"{y}.inner"], [f"{y}.apart"]))
            nodes.append(helper.make_node("Transpose", [f"{y}.apart"], [f"{y}.turned"], perm=[0, 2, 1, 3, 4]))
            nodes.append(helper.make_node("Reshape", [f"{y}.turned", f"{y}.outer"], [y]))
    del loaded.graph.node[:]
    loaded.graph.node.extend(nodes)
    del loaded.graph.value_info[:]
    onnx.save(loaded, path)


def _convert_mnn(model: Path, path: Path, *options: str) -> None:
    """By the converter's C entry point: the package's command-line wrappers install other packages when they are
    run."""
    code = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        files = ["--modelFile", str(model.resolve()), "--MNNModel", "model.mnn"]
        command = ["-c", code, "-f", "ONNX", *files, "--bizCode", "benchmark", *options]
        _convert("mnn", command, Path(name), "model.mnn")
        (Path(name) / "model.mnn").rename(path)


def _convert_tflite(model: Path, path: Path) -> None:
    """onnx2tf broadcasts constants wrongly that onnxsim folds, and tries its result on pictures that it fetches unless
    they are there."""
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        folder = Path(name)
        pictures = np.random.default_rng(0).random((20, 128, 128, 3), np.float32)
        np.save(folder / "calibration_image_sample_data_20x128x128x3_float32.npy", pictures)
        (folder / "model.onnx").symlink_to(model.resolve())
        program = python_of("onnx2tf").with_name("onnx2tf")
        _convert("onnx2tf", ["-m", "onnxsim", "model.onnx", "simple.onnx"], folder, "simple.onnx")
        options = ["-i", "simple.onnx", "-o", ".", "-n", "-v", "error"]
        _convert("onnx2tf", [program, *options], folder, "simple_float32.tflite")
        (folder / "simple_float32.tflite").rename(path)


_CONVERSIONS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "edge": (".edge", _pack),
    "ncnn": (".param", _convert_ncnn),
    "mnn": (".mnn", _convert_mnn),
    "mnn-sparse": (".mnn", lambda model, path: _convert_mnn(model, path, "--detectSparseSpeedUp")),
    "tflite": (".tflite", _convert_tflite),
}


def _convert(environment: str, command: Sequence[str | Path], folder: Path, result: str) -> None:
    """Run a converter in a folder where it has to leave `result`."""
    done = subprocess.run([python_of(environment), *command], cwd=folder, capture_output=True, text=True)
    if done.returncode or not (folder / result).exists():
        raise PeerError(f"the converter ended with code {done.returncode}: {end_of(done.stderr or done.stdout)}")
