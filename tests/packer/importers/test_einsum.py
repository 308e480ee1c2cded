"""Einsum against numpy.einsum."""

from __future__ import annotations

import numpy as np
import pytest

from packer.errors import ModelError
from packer.importers import import_onnx
from tests.packer.importers.models import noise, run, single

CASES = [
    ("ij->ji", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]),
    ("iii->i", [(3, 3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("ij->", [(2, 3)]),
    ("...ij->...ji", [(2, 3, 4)]),
    ("...->...", [(2, 3)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("ij,ij->", [(2, 3), (2, 3)]),
    ("i,j->ij", [(2,), (3,)]),
    ("i,i->i", [(4,), (4,)]),
    ("i,i", [(4,), (4,)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->bki", [(2, 3, 4), (2, 5, 4)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("nchw,co->nohw", [(2, 3, 4, 5), (3, 6)]),
    ("...ij,...jk->...ik", [(1, 3, 2, 4), (2, 1, 4, 5)]),
    ("...ij,...jk", [(3, 2, 4), (2, 1, 4, 5)]),
    ("i...,j...->ij...", [(2, 4), (3, 4)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 5)]),
    ("ab,cd->", [(2, 3), (4, 5)]),
    ("ab,cd->ca", [(2, 3), (4, 5)]),
    ("i j , j k -> i k", [(2, 3), (3, 4)]),
    ("ij,jk->ik", [(0, 3), (3, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
    ("ii,ij->j", [(3, 3), (3, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [noise(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    built, feeds = single("Einsum", inputs, equation=equation)
    (got,) = run(import_onnx(built), feeds)
    want = np.einsum(equation, *inputs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk->ik", [(2, 3), (4, 5)]), ("ii->i", [(2, 3)]), ("ij->k", [(2, 3)]), ("ij->ii", [(2, 3)]), ("ij", [(2,)]),
    ("i,j", [(2,)]),
])  # fmt: skip
def test_equations_that_do_not_fit(equation: str, shapes: list[tuple[int, ...]]) -> None:
    built, _ = single("Einsum", [noise(*shape) for shape in shapes], equation=equation)
    with pytest.raises(ModelError):
        import_onnx(built)
