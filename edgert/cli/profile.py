"""`edgert profile`: the time of every layer on each thread, keyed by ONNX node names."""

from __future__ import annotations

from typing import Annotated

import typer

from edgert.cli._options import (
    AllowNative,
    Bgr,
    BundlePath,
    CodeCache,
    Emulate,
    Inputs,
    Isa,
    Json,
    Layout,
    Mean,
    Std,
    Target,
    Threads,
    Warmup,
)

__all__ = ["profile"]


def profile(
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
    warmup: Warmup = 3,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="Counted runs.")] = 20,
    json: Json = False,
) -> None:
    """Time every layer on each thread; reconciled with the wall time."""
    from edgert.cli._inputs import Pictures, read_inputs
    from edgert.cli._output import print_json, print_table
    from edgert.cli._progress import Progress
    from edgert.cli._session import opened
    from edgert.profile import profile as measure

    with (
        Progress("profile") as tell,
        opened(bundle, target, threads, isa, allow_native, emulate, code_cache, tell) as session,
    ):
        arrays = read_inputs(inputs, session.inputs, Pictures(mean, std, layout, bgr))
        found = measure(session, arrays, warmup, runs, lambda done: tell("runs", done))
    if json:
        print_json(found)
        return
    busy = sum(found.thread_ms)
    rows = [
        (
            str(len(layer.steps)),
            layer.kernel,
            _each(layer.thread_ms),
            f"{layer.span_ms:.4f}",
            f"{sum(layer.thread_ms) / busy:.1%}" if busy else "",
            layer.node,
        )
        for layer in found.layers
    ]
    header = ("steps", "kernel", "thread_ms", "span_ms", "share", "ONNX node")
    print_table(header, rows, right="steps thread_ms span_ms share")
    typer.echo(f"threads busy {_each(found.thread_ms)} of {found.run_ms:.4f} ms")
    typer.echo(
        f"steps {found.run_ms:.4f} + starting, profiling {found.hook_ms:.4f} = wall {found.wall_ms:.4f}"
        f" ms (mean of {found.runs}); without profiling {found.plain_ms:.4f} ms"
    )


def _each(milliseconds: tuple[float, ...]) -> str:
    return " ".join(f"{ms:.4f}" for ms in milliseconds)
