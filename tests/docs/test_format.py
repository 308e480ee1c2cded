"""docs/format.md names every table, field, kernel, attribute and kind there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from packer.bundle.schema import load_schema
from packer.bundle.writer import MAJOR, MINOR
from packer.ir import DType, ops
from packer.ir.ops import (
    Activation,
    Expand,
    IntegerConv,
    IntegerMatMul,
    MatMul,
    Op,
    QuantizedConv,
    QuantizedMatMul,
    Reshape,
    Slice,
    Tile,
    Transpose,
)
from packer.ir.ops.elementwise import BINARY_KINDS, UNARY_KINDS
from targets.base import Layout

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", TEXT, re.MULTILINE))  # kernel -> its attributes


@pytest.mark.parametrize("table", load_schema().values(), ids=lambda table: table.name)
def test_fields_in_order(table) -> None:  # type: ignore[no-untyped-def]
    for number, field in enumerate(table.fields):
        assert re.search(rf"^\| {number} \| `{field.name}` \|", TEXT, re.MULTILINE), f"{table.name}.{field.name}"


def test_version() -> None:
    assert TEXT.startswith(f"# The bundle format, version {MAJOR}.{MINOR}\n")
    assert f"| 8 | u16 | major version | {MAJOR}, else" in TEXT
    assert f"| 10 | u16 | minor version | {MINOR}; " in TEXT
    assert re.findall(r"^- Version (\d+\.\d+) ", TEXT, re.MULTILINE) == [f"{MAJOR}.{i}" for i in range(1, MINOR + 1)]


def test_every_kernel_of_the_library_is_described() -> None:
    registry = (ROOT / "runtime_c/src/kernels/registry.c").read_text()
    kernels = re.findall(r"\bX\((\w+)\)", registry)
    assert len(kernels) > 30
    assert set(kernels) == set(NAMED)


def test_kernels_that_take_views() -> None:
    paths = sorted((ROOT / "runtime_c/src/kernels").glob("*.c"))
    sources = "\n".join(path.read_text() for path in paths)
    definitions = re.findall(r"^const ert_kernel ert_kernel_\w+ =[^;]*", sources, re.MULTILINE)
    taking = [re.search(r'"(\w+)"', d)[1] for d in definitions if ".views = true" in d]  # type: ignore[index]
    described = re.search(r"\*\*Views with gaps\*\*(.*?)\n\n", TEXT, re.DOTALL)
    assert described
    assert re.findall(r"`(\w+)`", described[1]) == sorted(taking)


def concrete() -> list[type[Op]]:
    integer, quantized = (IntegerConv, IntegerMatMul), (QuantizedConv, QuantizedMatMul)
    lowered = (Expand, *integer, *quantized, Reshape, Slice, Tile, Transpose)  # to kernels of other names
    found = [getattr(ops, name) for name in ops.__all__]
    return [c for c in found if issubclass(c, Op) and c is not Op and c not in lowered]


@pytest.mark.parametrize("op", concrete(), ids=lambda op: op.__name__)
def test_every_attribute_is_described(op: type[Op]) -> None:
    kernel = "matmul" if op is MatMul else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", op.__name__).lower()
    described = NAMED[kernel]
    for field in fields(op):
        named = "activation" if field.name == "activation" else f"`{field.name}`"
        assert named in described, f"{kernel}.{field.name}"
    names = {field.name for field in fields(op)}
    assert set(re.findall(r"`(\w+)`", described)) <= names | {f.name for f in fields(Activation)}


@pytest.mark.parametrize("kinds", [UNARY_KINDS, BINARY_KINDS], ids=["unary", "binary"])
def test_every_kind_is_described(kinds: dict[str, str]) -> None:
    rows = re.findall(r"^\| ([\w, ]+) \| ([fiub]+) \|", TEXT, re.MULTILINE)
    described = {(name.strip(), types) for names, types in rows for name in names.split(",")}
    assert set(kinds.items()) <= described


def test_numbers() -> None:
    types = dict(re.findall(r"(\d+) (\w+)", re.search(r"Element types: ([^(]*)", TEXT)[1]))  # type: ignore[index]
    assert {int(n): name for n, name in types.items()} == {d.value: d.name.lower() for d in DType}
    for layout in set(Layout) - {Layout.REGISTERS}:
        assert f"| {layout.value} | {layout.name.lower()} |" in TEXT
