"""Real networks with real weights, packed and run: their vectors, and what they are there to recognise."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import edgert
from packer.api import pack
from tests.e2e.conftest import relative_error, tensor

MODELS = (
    "lenet5_dense",
    "lenet5_dns_sparse",
    "mlperf_ad_autoencoder",
    "mlperf_kws_dscnn",
    "mlperf_resnet8_cifar10",
    "mlperf_vww_mobilenet_v1_025",
    "mnist-8",
    "mobilenet_v2_dequant",
    "mp_face_detection_full_range_dense",
    "mp_face_detection_full_range_sparse",
    "mp_selfie_segmentation",
    "resnet20_cifar10",
    "squeezenet1.1_webnn",
    "squeezenet_dc",
    "super_resolution",
    "version-RFB-320",
    "version-RFB-320_simplified",
    "version-slim-320",
    "yolo_fastest_1.1",
    "yunet_n_320_320",
)

Bundle = Callable[[str], Path]


@pytest.fixture(scope="module")
def bundle(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A function that packs a model by name, once, and returns the path of the bundle."""
    folder = tmp_path_factory.mktemp("bundles")

    def make(name: str) -> Path:
        path = folder / f"{name}.edge"
        if not path.exists():
            pack(models / "onnx" / f"{name}.onnx", path, golden=False)
        return path

    return make


def test_every_real_model_is_tested(models: Path) -> None:
    assert sorted(MODELS) == sorted(path.stem for path in (models / "onnx").glob("*.onnx"))


@pytest.mark.parametrize("name", MODELS)
def test_vectors(models: Path, bundle: Bundle, name: str) -> None:
    with edgert.load(bundle(name)) as session:
        folders = sorted(path for path in (models / "vectors" / name).iterdir() if path.is_dir())
        assert folders
        for folder in folders:
            inputs = {info.name: tensor(folder / f"input_{i}.pb") for i, info in enumerate(session.inputs)}
            outputs = session.run(inputs)
            for i, info in enumerate(session.outputs):
                assert relative_error(outputs[info.name], tensor(folder / f"output_{i}.pb")) < 1e-4, (folder.name, info)


def test_mnist_accuracy_of_the_pruned_lenet(models: Path, bundle: Bundle) -> None:
    digits = models / "vectors" / "mnist_t10k"
    pixels = np.frombuffer(gzip.decompress((digits / "t10k-images-idx3-ubyte.gz").read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress((digits / "t10k-labels-idx1-ubyte.gz").read_bytes()), np.uint8, offset=8)
    images = pixels.reshape(-1, 1, 1, 28, 28).astype(np.float32) / 256
    x, y = np.empty((1, 1, 28, 28), np.float32), np.empty((1, 10), np.float32)
    with edgert.load(bundle("lenet5_dns_sparse")) as session:
        session.bind({session.inputs[0].name: x}, {session.outputs[0].name: y})
        right = 0
        for image, label in zip(images, labels, strict=True):
            x[:] = image
            session.run()
            right += int(y.argmax()) == label
    assert right == 9909


def test_ultraface_finds_the_face_of_the_astronaut(models: Path, bundle: Bundle) -> None:
    image = Image.open(models / "images" / "astronaut.png").convert("RGB").resize((320, 240))
    x = ((np.asarray(image, np.float32) - 127) / 128).transpose(2, 0, 1)[None]
    with edgert.load(bundle("version-RFB-320")) as session:
        outputs = session.run({"input": np.ascontiguousarray(x)})
    scores, boxes = outputs["scores"][0, :, 1], outputs["boxes"][0]
    best = int(scores.argmax())
    assert scores[best] > 0.9
    left, top, right, bottom = boxes[best]
    # The face of the picture lies around (0.44, 0.23) of its width and height.
    assert left < 0.44 < right
    assert top < 0.23 < bottom
    assert right - left < 0.3
    assert bottom - top < 0.4


def test_squeezenet_names_the_cat(models: Path, bundle: Bundle) -> None:
    image = Image.open(models / "images" / "chelsea.png").convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
    left, top = (image.width - 227) // 2, (image.height - 227) // 2
    rgb = np.asarray(image.crop((left, top, left + 227, top + 227)), np.float32)
    x = (rgb[:, :, ::-1] - np.float32([104, 117, 123])).transpose(2, 0, 1)[None]
    names = (models / "images" / "synset.txt").read_text().splitlines()
    with edgert.load(bundle("squeezenet_dc")) as session:
        outputs = session.run({"data": np.ascontiguousarray(x)})
    top5 = [names[i] for i in outputs["prob"].reshape(-1).argsort()[:-6:-1]]
    assert any("cat" in name for name in top5), top5


@pytest.mark.parametrize("name", MODELS)
def test_results_do_not_depend_on_threads_or_repetition(bundle: Bundle, name: str) -> None:
    """The programs for 1, 2 and 4 cores, that for 2 on 2 and on 3 threads."""
    random = np.random.default_rng(0)
    inputs: dict[str, np.ndarray] = {}
    results = []
    for threads in (1, 2, 3, 4):
        with edgert.load(bundle(name), threads=threads) as session:
            inputs = inputs or {i.name: random.random(i.shape).astype(i.dtype) for i in session.inputs}
            results += [session.run(inputs) for _ in range(1 + (threads == 2))]
    for other in results[1:]:
        assert {n: a.tobytes() for n, a in other.items()} == {n: a.tobytes() for n, a in results[0].items()}


def test_arenas_are_close_to_the_lower_bound(bundle: Bundle) -> None:
    for name in MODELS:
        program = edgert.read(bundle(name)).programs[0]
        assert program.arena_bytes <= 1.1 * program.arena_floor, name
