"""The demo's data: scikit-learn's 8x8 handwritten digits, always split the same way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Digits", "load_digits"]

_HELD_OUT = 500
_SPLIT_SEED = 20240229


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Images, float32 [n,1,8,8] in 0..1, with their labels, int64 [n]: to learn from, and held out."""

    train_images: npt.NDArray[np.float32]
    train_labels: npt.NDArray[np.int64]
    test_images: npt.NDArray[np.float32]
    test_labels: npt.NDArray[np.int64]


def load_digits() -> Digits:
    """1,297 digits to learn from and 500 held out; raises ImportError without scikit-learn.

    https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits
    """
    from sklearn import datasets

    raw = datasets.load_digits()
    images = (raw.images / 16.0).astype(np.float32)[:, None]
    labels = raw.target.astype(np.int64)
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(labels))
    test, train = order[:_HELD_OUT], order[_HELD_OUT:]
    return Digits(images[train], labels[train], images[test], labels[test])
