"""Input files as arrays: npy, npz, TensorProto pb, and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgert.errors import InvalidArgumentError

if TYPE_CHECKING:
    from edgert.dtypes import Array
    from edgert.session import TensorInfo

__all__ = [
    "Pictures",
    "parse_pair",
    "parse_seconds",
    "parse_shape",
    "read_array",
    "read_inputs",
    "read_labels",
    "read_pins",
]

_PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm"}


@dataclass(frozen=True, slots=True)
class Pictures:
    """How pixels become inputs, as typed: --mean, --std, --layout, --bgr."""

    mean: str = "0"
    std: str = "1"
    layout: str | None = None
    bgr: bool = False


def parse_pair(text: str, what: str, value: str = "FILE") -> tuple[str, str]:
    """("name", "value") of NAME=VALUE; what is before the last "=" is the name."""
    name, separator, given = text.rpartition("=")
    if not separator or not name or not given:
        raise InvalidArgumentError(f"--{what}: expected NAME={value}, got '{text}'")
    return name, given


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """("input", (1, 3, 224, 224)) of input=1x3x224x224."""
    name, value = parse_pair(text, "shape", "1x3x224x224")
    extents = value.lower().replace(",", "x").split("x")
    if not all(extent.isdecimal() for extent in extents):
        raise InvalidArgumentError(f"--shape: expected numbers such as {name}=1x3x224x224, got '{text}'")
    return name, tuple(int(extent) for extent in extents)


def parse_counts(text: str, option: str) -> tuple[int, ...]:
    """(1, 2, 4) of 1,2,4."""
    counts = text.split(",")
    if not all(count.strip().isdecimal() for count in counts):
        raise InvalidArgumentError(f"--{option}: expected numbers such as 1,2,4, got '{text}'")
    return tuple(int(count) for count in counts)


def parse_seconds(text: str, option: str) -> float:
    """60.0 of 60s or 1m; infinity of 0."""
    import re

    match = re.fullmatch(r"(\d+\.?\d*)([smh]?)", text)
    if match is None:
        raise InvalidArgumentError(f"--{option}: expected a time such as 60s, 5m or 1h, got '{text}'")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] or float("inf")


def read_pins(given: Sequence[str] | None) -> dict[str, Array]:
    """The arrays of NAME=FILE options."""
    pairs = [parse_pair(text, "pin") for text in given or ()]
    return {name: read_array(Path(file), name) for name, file in pairs}


def read_array(path: Path, name: str) -> Array:
    """The array in a .npy, .npz (the one called `name`, or the only one) or .pb (onnx.TensorProto) file.

    Raises InvalidArgumentError for a file that does not hold what its name says, OSError for one that cannot be read.
    """
    import numpy as np

    if path.suffix == ".npy":
        with _holding(path, "numbers that numpy.save wrote"):
            found: Array | Mapping[str, Array] = np.load(path, allow_pickle=False)
            if not isinstance(found, np.ndarray):
                raise ValueError("an npz file")
            return found
    if path.suffix == ".npz":
        with _holding(path, "numbers that numpy.savez wrote"), np.load(path, allow_pickle=False) as archive:
            if name not in archive.files and len(archive.files) != 1:
                got = ", ".join(archive.files) or "no arrays"
                raise InvalidArgumentError(f"{path}: expected an array '{name}', got {got}")
            chosen: Array = archive[name if name in archive.files else archive.files[0]]
            return chosen
    if path.suffix == ".pb":
        import onnx
        from onnx import numpy_helper

        with _holding(path, "a tensor that onnx.save_tensor wrote"):
            return np.asarray(numpy_helper.to_array(onnx.load_tensor(str(path))))
    raise InvalidArgumentError(f"{path}: expected a file .npy, .npz, .pb, .png or .jpg, got '{path.suffix}'")


@contextmanager
def _holding(path: Path, what: str) -> Iterator[None]:
    """Whatever a library says against a file's contents becomes an error that names the file."""
    try:
        yield
    except (InvalidArgumentError, ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidArgumentError(f"{path}: expected {what}, got something else or a part of it") from error


def read_inputs(texts: Sequence[str] | None, infos: Sequence[TensorInfo], pictures: Pictures) -> dict[str, Array]:
    """The arrays of --input NAME=FILE by name. NAME may be left out for a network's only input, and for an npz file
    that holds arrays by name. Floats become the input's precision, and a missing batch dimension of 1 is added."""
    known = {info.name: info for info in infos}
    found: dict[str, Array] = {}
    for text in texts or ():
        for name, path in _named(text, known):
            if name not in known:
                raise InvalidArgumentError(f"unknown input '{name}'\nexpected one of: {', '.join(known)}")
            info = known[name]
            if path.suffix.lower() in _PICTURES:
                found[name] = _picture(path, info, pictures)
            else:
                found[name] = _fitted(read_array(path, name), info)
    return found


def read_labels(path: Path) -> list[str]:
    """The lines of a text file, the names of the classes. Raises InvalidArgumentError if it is no text."""
    with _holding(path, "text in UTF-8"):
        return path.read_text(encoding="utf-8").splitlines()


def _named(text: str, known: Mapping[str, TensorInfo]) -> list[tuple[str, Path]]:
    """The names that one --input gives, each with its file."""
    name, separator, value = text.partition("=")
    for other in known:  # a name may itself hold "="
        if text.startswith(other + "="):
            name, value = other, text[len(other) + 1 :]
    if separator:
        return [(name, Path(value))]
    path = Path(text)
    if path.suffix == ".npz":
        import numpy as np

        with _holding(path, "numbers that numpy.savez wrote"), np.load(path, allow_pickle=False) as archive:
            names = [name for name in archive.files if name in known]
        if names:
            return [(name, path) for name in names]
    if len(known) != 1:
        raise InvalidArgumentError(f"--input: expected NAME={text}, NAME being one of: {', '.join(known)}")
    return [(next(iter(known)), path)]


def _fitted(array: Array, info: TensorInfo) -> Array:
    import numpy as np

    if (1, *array.shape) == info.shape:
        array = array[None]
    if array.dtype != info.dtype and np.can_cast(array.dtype, info.dtype, "same_kind"):
        array = array.astype(info.dtype)
    return array


def _picture(path: Path, info: TensorInfo, pictures: Pictures) -> Array:
    """Decoded, resized to the input's size, and converted."""
    import numpy as np
    from PIL import Image

    from edgert.image import image_format, to_input

    if pictures.layout not in (None, "nchw", "nhwc"):
        raise InvalidArgumentError(f"--layout: expected nchw or nhwc, got '{pictures.layout}'")
    _, height, width, channels = image_format(info, pictures.layout)
    with _holding(path, "a picture"), Image.open(path) as image:
        picture = image.convert("RGB" if channels == 3 else "L")
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture).reshape(height, width, channels)
    mean, std = _numbers("mean", pictures.mean), _numbers("std", pictures.std)
    return to_input(pixels, info, pictures.layout, mean, std, pictures.bgr)


def _numbers(what: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"--{what}: expected numbers such as 123.7,116.3,103.5, got '{text}'") from None
