"""`python -m benchmarks.cuda_tables`: the tables of docs/cuda.md, from what cuda_codegen and cuda_pack measured, and
cuda_predict predicted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.cuda_codegen import ROUTES, Row
from benchmarks.cuda_operators import OPERATORS
from benchmarks.cuda_pack import Row as Pack
from benchmarks.cuda_predict import Row as Prediction
from benchmarks.report import RESULTS

__all__ = ["SHARES", "SPARSITIES", "packs", "predictions", "rows", "tables"]

SPARSITIES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
SHARES = ("sm_62", "sm_90")

_COLUMNS: dict[str, Callable[[Row], str]] = {
    "operator": lambda row: row.operator,
    "route": lambda row: row.route,
    "CUDA to PTX": lambda row: f"{row.compiler:.2f}" if row.compiler else "",
    "generate": lambda row: f"{row.generation:.2f}",
    "ptxas": lambda row: f"{row.assembler:.2f}",
    "entries": lambda row: str(row.entries),
    "PTX": lambda row: f"{row.ptx / 1024:,.0f}",
    "cubin": lambda row: f"{row.cubin / 1024:,.0f}",
    "deleted PTX": lambda row: f"{row.deleted_ptx:,}",
    "machine": lambda row: "" if row.deleted_machine is None else f"{row.deleted_machine:,}",
    "registers": lambda row: str(row.registers),
    "share": lambda row: f"{row.share:.2f}",
}


def rows() -> list[Row]:
    """The operators that were compiled last."""
    return [Row(**row) for row in _rows("cuda_codegen")]


def packs() -> list[Pack]:
    """The networks that were packed last."""
    return [Pack(**row) for row in _rows("cuda_pack")]


def predictions() -> list[Prediction]:
    """The networks whose times were predicted last."""
    return [Prediction(**row) for row in _rows("cuda_predict")]


def _rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["result"]["rows"]
    return found


def tables(measured: Sequence[Row], packed: Sequence[Pack], predicted: Sequence[Prediction]) -> list[str]:
    """All routes at 0.9 and 0.5 on sm_62, the shares of multiply-adds of the direct route everywhere, networks packed,
    and networks predicted."""
    known = {(row.arch, row.sparsity, row.operator, row.route): row for row in measured}
    found = []
    for sparsity in (0.9, 0.5):
        cells = [known["sm_62", sparsity, operator, route] for operator in OPERATORS for route in ROUTES]
        found.append(_table(list(_COLUMNS), [[cell(row) for cell in _COLUMNS.values()] for row in cells]))
    shares = [
        [
            operator,
            *(" / ".join(f"{known[arch, s, operator, 'direct'].share:.2f}" for arch in SHARES) for s in SPARSITIES),
        ]
        for operator in OPERATORS
    ]
    found.append(_table(["operator", *map(str, SPARSITIES)], shares))
    header = ["network", "clock", "packer", "ptxas", "load", "bundle", "cubins", "PTX"]
    networks = [
        [
            row.network if row.zeros is None else f"{row.network}, {row.zeros} % zeros",
            *(f"{seconds:.0f} s" for seconds in (row.seconds, row.packer, row.assemblers)),
            f"{row.load:.0f}",
            *(f"{size / 1e6:.1f} MB" for size in (row.bundle, row.cubins, row.ptx)),
        ]
        for row in packed
    ]
    return [*found, _table(header, networks), _predicted(predicted)]


def _predicted(rows: Sequence[Prediction]) -> str:
    """A line a network: milliseconds predicted, dense and with zeros, beside TensorRT's."""
    known = {(row.network, row.zeros, row.storage): row for row in rows}
    cells = []
    for name in dict.fromkeys(row.network for row in rows):
        own = [known[name, zeros, storage] for storage in ("f32", "f16") for zeros in (0, 90)]
        single, half = own[0].published, own[2].published
        bounds = ", ".join(list(own[1].bounds)[:3])
        cells.append(
            [
                name,
                *(f"{own[i].predicted:.1f}" for i in (0, 1)),
                "" if single is None else f"{single:g}",
                *(f"{own[i].predicted:.1f}" for i in (2, 3)),
                "" if half is None else f"{half:g}",
                bounds,
            ]
        )
    header = ["network", "f32 dense", "f32 90 %", "TensorRT float", "f16 dense", "f16 90 %", "TensorRT half", "bounds"]
    return _table(header, cells)


def _table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    print("\n".join(tables(rows(), packs(), predictions())))
