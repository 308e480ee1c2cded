"""`edgert bench`: latency, time to open, memory."""

from __future__ import annotations

import typer

from edgert.cli._options import (
    AllowNative,
    Bgr,
    BundlePath,
    CodeCache,
    Duration,
    Emulate,
    Inputs,
    Integrity,
    Isa,
    Json,
    Layout,
    Mean,
    Runs,
    Std,
    Target,
    Threads,
    Warmup,
)

__all__ = ["bench"]


def bench(
    bundle: BundlePath,
    inputs: Inputs = None,
    mean: Mean = "0",
    std: Std = "1",
    layout: Layout = None,
    bgr: Bgr = False,
    target: Target = None,
    threads: Threads = 0,
    isa: Isa = None,
    allow_native: AllowNative = False,
    emulate: Emulate = False,
    code_cache: CodeCache = None,
    integrity: Integrity = "full",
    warmup: Warmup = 5,
    runs: Runs = 0,
    duration: Duration = 2.0,
    json: Json = False,
) -> None:
    """Measure latency and memory. Percentiles of the runs, time to open, first run, peak memory."""
    from edgert.bench import bench as measure
    from edgert.cli._inputs import Pictures, read_inputs
    from edgert.cli._output import print_json, ran, size
    from edgert.cli._progress import Progress
    from edgert.session import load

    arrays = None
    if inputs:
        with load(
            bundle, target, 1, isa, "metadata", allow_native=allow_native, emulate=emulate, code_cache=code_cache
        ) as session:
            arrays = read_inputs(inputs, session.inputs, Pictures(mean, std, layout, bgr))
    with Progress("bench") as tell:
        found = measure(
            bundle,
            target,
            threads,
            isa,
            integrity,
            arrays,
            warmup,
            runs,
            duration,
            lambda done: tell("runs", done),
            allow_native,
            emulate,
            code_cache,
        )
    if json:
        print_json(found)
        return
    used, steady = found.session, found.latency
    typer.echo(f"{bundle}: {ran(used)}")
    typer.echo(f"  open    {found.open_ms:.3f} ms (integrity {integrity})")
    typer.echo(f"  first   {found.first_ms:.3f} ms")
    typer.echo(
        f"  steady  p50 {steady.p50_ms:.3f}  p90 {steady.p90_ms:.3f}  p99 {steady.p99_ms:.3f}  "
        f"min {steady.min_ms:.3f}  max {steady.max_ms:.3f}  mean {steady.mean_ms:.3f} ms  ({steady.runs} runs)"
    )
    typer.echo(
        f"  memory  peak {size(found.peak_bytes)} (Python included), of it {size(found.grown_bytes)} by the bundle"
    )
