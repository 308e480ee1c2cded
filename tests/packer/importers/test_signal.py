"""Fourier transforms and Col2Im, against numpy and onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from packer.errors import ModelError
from packer.importers import import_onnx
from tests.packer.importers.models import check, noise, run, single

I64 = np.int64


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("length", [None, 3, 8])
@pytest.mark.parametrize("onesided", [0, 1])
def test_dft_of_real_signals(size: int, length: int | None, onesided: int) -> None:
    x = noise(2, size, 3, 1)
    built, feeds = single("DFT", [x, np.array(length or size)], 17, constant=[1], axis=1, onesided=onesided)
    (got,) = run(import_onnx(built), feeds)
    want = (np.fft.rfft if onesided else np.fft.fft)(x[..., 0], length or size, axis=1)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, 1e-5, 1e-5)


@pytest.mark.parametrize("axis", [-2, 0, 1])
def test_inverse_dft_undoes_dft(axis: int) -> None:
    x = noise(3, 4, 5, 2)
    built, feeds = single("DFT", [x, None, np.array(axis)], 20, constant=[2])
    (there,) = run(import_onnx(built), feeds)
    built, feeds = single("DFT", [there, None, np.array(axis)], 20, constant=[2], inverse=1)
    np.testing.assert_allclose(run(import_onnx(built), feeds)[0], x, 1e-5, 1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided: int) -> None:
    inputs = [noise(2, 50, 1), np.array(7), np.hanning(16).astype(np.float32), np.array(16)]
    built, feeds = single("STFT", inputs, 17, constant=[1, 3], onesided=onesided)
    graph = check(built, feeds)
    assert graph.type("y0").shape == (2, 5, 9 if onesided else 16, 2)


def test_transforms_that_do_not_fit() -> None:
    for x, axis in ((noise(2, 4, 3), 1), (noise(2, 4, 1), 2)):
        built, _ = single("DFT", [x], 17, axis=axis)
        with pytest.raises(ModelError, match="does not fit"):
            import_onnx(built)


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((5, 6), (2, 3), {}),
        ((5, 6), (2, 2), {"strides": [2, 3]}),
        ((5, 5), (3, 2), {"pads": [1, 0, 1, 1], "dilations": [2, 1]}),
        ((7,), (3,), {"strides": [2]}),
    ],
)
def test_col2im(image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, list[int]]) -> None:
    """It is the adjoint of taking windows: each pixel gets the entries that lie on it."""
    rank = len(image)
    pads = attributes.get("pads", [0] * 2 * rank)
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    padded = [n + pads[a] + pads[a + rank] for a, n in enumerate(image)]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded, block, dilations, strides, strict=True)]
    x = noise(2, 3 * int(np.prod(block)), int(np.prod(counts)))
    want = np.zeros((2, 3, *padded), np.float32)
    columns = x.reshape(2, 3, *block, *counts)
    for position in np.ndindex(*block, *counts):
        tap, at = position[:rank], position[rank:]
        want[(..., *(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True)))] += columns[
            (..., *position)
        ]
    want = want[(..., *(slice(pads[a], pads[a] + n) for a, n in enumerate(image)))]
    built, feeds = single("Col2Im", [x, np.array(image), np.array(block)], 18, constant=[1, 2], **attributes)
    np.testing.assert_allclose(run(import_onnx(built), feeds)[0], want, 1e-5, 1e-5)
