"""What was found as pictures: operators over cuDNN, networks over PyTorch, instruction supply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.gpu.bench import Bench
from benchmarks.gpu.curves import curves
from benchmarks.gpu.placed import TIERS
from benchmarks.gpu.supply import peak_of
from benchmarks.picture import chart

__all__ = ["pictures"]

_OURS = dict(zip(TIERS, ("#d62728", "#ff7f0e", "#f4a6a6", "#e377c2", "#bcbd22", "#8c1d18"), strict=True))
# engines by how their names begin, the best of those with the same beginning counts
_OTHERS = {
    "cuDNN f32": "#7f7f7f",
    "cuDNN tf32": "#1f77b4",
    "cuDNN fp16": "#9ec8e8",
    "cuBLAS f32": "#2ca02c",
    "cuBLAS tf32": "#98df8a",
    "cuSPARSE": "#9467bd",
    "2:4": "#17becf",
}
_ENGINES = {
    "edgert f32": "#d62728",
    "edgert f16": "#f4a6a6",
    "PyTorch f32": "#7f7f7f",
    "PyTorch f32 graph": "#000000",
    "PyTorch f32 compiled": "#2ca02c",
    "PyTorch tf32 channels_last graph": "#1f77b4",
    "PyTorch fp16 channels_last graph": "#9ec8e8",
    "onnxruntime CUDA": "#ff7f0e",
}
_OWN = [engine for engine in _ENGINES if engine.startswith("edgert")]
_BASE = "PyTorch f32"
_REDUCED = "half the"  # peers that compute less


def pictures(bench: Bench) -> None:
    """Written beside the results; a row for each."""
    session = bench.session
    drawn = {f"batch_{batch}": text for batch, text in _operators(session.rows("operators")).items()}
    if rows := session.rows("networks"):
        drawn["networks"] = _networks(rows)
    if rows := session.rows("supply"):
        lines, peak = dict[str, dict[int, float]](), peak_of(session)
        for row in rows:
            lines.setdefault(f"{row['warps']} warps", {})[row["bytes"]] = row["gflops"] / peak
        title = "Multiply-adds of straight-line code, as a share of the peak, by warps of a multiprocessor"
        drawn["supply"] = curves(title, "size of the code, KiB", lines)
    for name, text in drawn.items():
        path = session.output.with_name(f"{session.output.stem}_{name}.svg")
        path.write_text(text)
        session.row(file=path.name)


def _operators(rows: list[dict[str, Any]]) -> dict[int, str]:
    """A picture for each batch, a panel for each sparsity."""
    found = {}
    for batch in sorted({row["batch"] for row in rows}, reverse=True):
        own = [row for row in rows if row["batch"] == batch]
        panels: dict[str, dict[str, Mapping[str, float]]] = {}
        for sparsity in sorted({row["sparsity"] for row in own if row["form"] in TIERS and row["sparsity"]}):
            for name in dict.fromkeys(row["operator"] for row in own):
                times = _best([r for r in own if r["operator"] == name and r["sparsity"] in (0.0, sparsity)])
                base = times.get("cuDNN f32", times.get("t3"))
                if base is not None:
                    speeds = {engine: base / time for engine, time in times.items() if time > 0}
                    panels.setdefault(f"{sparsity:.0%} of the weights zero", {})[name] = speeds
        title = f"Speed over cuDNN's in float32 (without it over t3), batch {batch}"
        found[batch] = chart(title, panels, _OURS | _OTHERS, _OURS)
    return found


def _best(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The least time by engine."""
    found: dict[str, float] = {}
    for row in rows:
        form = row["form"]
        engine = form if form in TIERS else next((begin for begin in _OTHERS if form.startswith(begin)), None)
        if engine is not None and _REDUCED not in form:
            found[engine] = min(found.get(engine, row["median"]), row["median"])
    return found


def _networks(rows: list[dict[str, Any]]) -> str:
    """A line for each network and share of zeros; peers are measured for one of the shares only."""
    lines: dict[str, dict[str, float]] = {}
    for name, zeros in dict.fromkeys((row["network"], row["zeros"]) for row in rows):
        own = [row for row in rows if row["network"] == name and (row["zeros"] == zeros or row["engine"] not in _OWN)]
        times = {row["engine"]: row["median"] for row in own}
        base = times.get(_BASE, next(iter(times.values())))
        lines[f"{name}, {zeros:.0%} zeros"] = {engine: base / time for engine, time in times.items()}
    title = f"Speed over {_BASE}, eager (without it over the first), batch 1, on the host"
    return chart(title, {"networks": lines}, _ENGINES, _OWN)
