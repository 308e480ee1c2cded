"""The page on GPUs tells what was measured, and what was measured is as good as it must be."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from benchmarks.cuda_codegen import ROUTES
from benchmarks.cuda_operators import OPERATORS
from benchmarks.cuda_tables import SHARES, SPARSITIES, packs, predictions, rows, tables

PAGE = (Path(__file__).parents[2] / "docs" / "cuda.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", tables(rows(), packs(), predictions()))
def test_tables_are_those_of_the_results(table: str) -> None:
    assert table in PAGE, "docs/cuda.md is old; paste what this prints: python -m benchmarks.cuda_tables"


def test_every_operator_was_compiled_by_every_route_and_nothing_spills() -> None:
    found = {(row.operator, row.sparsity, row.route, row.arch): row.spilled for row in rows()}
    assert set(found) == set(product(OPERATORS, SPARSITIES, ROUTES, SHARES))
    assert not any(found.values())


def test_three_quarters_of_what_large_layers_execute_are_multiply_adds() -> None:
    large = ("resnet-conv1", "resnet-conv2", "vgg-conv2", "vgg-conv3")
    shares = [row.share for row in rows() if (row.sparsity, row.route) == (0.9, "direct") and row.operator in large]
    assert len(shares) == 2 * len(large)
    assert min(share or 0 for share in shares) >= 0.75
