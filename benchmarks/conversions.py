"""Networks in the formats that engines load, converted from ONNX and kept under benchmarks/.cache."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper, numpy_helper

from benchmarks.environments import CACHE, PeerError, end_of, python_of
from packer.api import pack

__all__ = ["converted", "parts"]

ROOT = Path(__file__).resolve().parent
SOURCES = ("packer", "targets", "edgert")  # what a bundle depends on


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
    folders = [ROOT.parent / folder for folder in SOURCES] if form.startswith("edge") else []
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    return max(path.stat().st_mtime for path in (model, *sources))


def parts(path: Path) -> list[Path]:
    """All files of a network."""
    return [path, path.with_suffix(".bin")] if path.suffix == ".param" else [path]


def _pack(model: Path, path: Path, precision: str = "f32") -> None:
    pack(model, path, precision=precision, golden=False)


def _convert_ncnn(model: Path, path: Path) -> None:
    """pnnx writes beside its input, among other files, those that ncnn loads."""
    with TemporaryDirectory(prefix="benchmarks-", dir=path.parent) as name:
        folder = Path(name)
        _readable(model, folder / "model.onnx", shuffled=True)
        _convert("ncnn", [python_of("ncnn").with_name("pnnx"), "model.onnx", "fp16=0"], folder, "model.ncnn.param")
        for part in parts(folder / "model.ncnn.param"):
            part.rename(path.with_suffix(part.suffix))


def _readable(model: Path, path: Path, shuffled: bool = False) -> None:
    """The model without what converters read wrongly. An average over a whole image and padding that does not count
    becomes a global one. With `shuffled` there is a shuffle of channels behind each SpaceToDepth, and in front of each
    DepthToSpace: pnnx takes these for ones that have the positions of a block innermost among the channels, where ONNX
    has them outermost."""
    loaded = onnx.load(model)
    graph = onnx.shape_inference.infer_shapes(loaded).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values}
    nodes: list[NodeProto] = []
    for node in loaded.graph.node:
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        x, y = next(iter(node.input), ""), node.output[0]
        if node.op_type == "AveragePool" and _global(attributes, shapes[x], shapes[y]):
            nodes.append(helper.make_node("GlobalAveragePool", [x], [y], node.name))
        elif shuffled and node.op_type == "SpaceToDepth":
            node.output[0] = f"{y}.blocks"
            nodes += [node, *_shuffle(loaded.graph, f"{y}.blocks", y, shapes[y], attributes["blocksize"], inner=True)]
        elif shuffled and node.op_type == "DepthToSpace" and attributes.get("mode", b"DCR") == b"DCR":
            nodes += _shuffle(loaded.graph, x, f"{y}.blocks", shapes[x], attributes["blocksize"], inner=False)
            size = attributes["blocksize"]
            nodes.append(helper.make_node("DepthToSpace", [f"{y}.blocks"], [y], node.name, blocksize=size, mode="CRD"))
        else:
            nodes.append(node)
    del loaded.graph.node[:]
    loaded.graph.node.extend(nodes)
    del loaded.graph.value_info[:]
    onnx.save(loaded, path)


def _global(attributes: Mapping[str, Any], x: Sequence[int], y: Sequence[int]) -> bool:
    """Whether an AveragePool's only window has all of the image, and padding does not count."""
    rank = len(x) - 2
    pads = attributes.get("pads", [0] * 2 * rank)
    covered = all(k - begin >= size for k, begin, size in zip(attributes["kernel_shape"], pads, x[2:], strict=False))
    return covered and list(y[2:]) == [1] * rank and not attributes.get("count_include_pad", 0)


def _shuffle(graph: GraphProto, x: str, y: str, shape: Sequence[int], block: int, inner: bool) -> list[NodeProto]:
    """Moves the positions of a block among channels from innermost to outermost (`inner`), or back."""
    batch, channels, *extents = shape
    parts = [channels // block**2, block**2] if inner else [block**2, channels // block**2]
    for name, dims in ((f"{y}.apart", [batch, *parts, *extents]), (f"{y}.joined", list(shape))):
        graph.initializer.append(numpy_helper.from_array(np.array(dims, np.int64), name))
    perm = [0, 2, 1, *range(3, 3 + len(extents))]
    return [
        helper.make_node("Reshape", [x, f"{y}.apart"], [f"{y}.parts"]),
        helper.make_node("Transpose", [f"{y}.parts"], [f"{y}.turned"], perm=perm),
        helper.make_node("Reshape", [f"{y}.turned", f"{y}.joined"], [y]),
    ]


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
        _readable(model, folder / "model.onnx")
        program = python_of("onnx2tf").with_name("onnx2tf")
        _convert("onnx2tf", ["-m", "onnxsim", "model.onnx", "simple.onnx"], folder, "simple.onnx")
        options = ["-i", "simple.onnx", "-o", ".", "-n", "-v", "error"]
        _convert("onnx2tf", [program, *options], folder, "simple_float32.tflite")
        (folder / "simple_float32.tflite").rename(path)


_CONVERSIONS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "edge": (".edge", _pack),
    "edge-bf16": (".edge", lambda model, path: _pack(model, path, "bf16")),
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
