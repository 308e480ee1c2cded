"""`edgert profile`: the time of every layer, keyed by ONNX node names."""

from __future__ import annotations

from typing import Annotated

import typer

from edgert.cli._options import BundlePath, Inputs, Isa, Json, Target, Threads

__all__ = ["profile"]


def profile(
    bundle: BundlePath,
    inputs: Inputs = None,
    target: Target = None,
    threads: Threads = 0,
    isa: Isa = None,
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Runs before the counted ones.")] = 3,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Counted runs.")] = 20,
    json: Json = False,
) -> None:
    """Time every layer; the sum is reconciled with the wall time."""
    from edgert.cli._inputs import Pictures, read_inputs
    from edgert.cli._output import print_json, print_table
    from edgert.cli._progress import Progress
    from edgert.profile import profile as measure
    from edgert.session import load

    with load(bundle, target, threads, isa) as session, Progress("profile") as tell:
        arrays = read_inputs(inputs, session.inputs, Pictures())
        found = measure(session, arrays, warmup, runs, lambda done: tell("runs", done))
    if json:
        print_json(found)
        return
    rows = [
        (
            str(layer.step),
            layer.kernel,
            f"{layer.mean_ms:.4f}",
            f"{layer.p50_ms:.4f}",
            f"{layer.mean_ms / found.steps_ms:.1%}" if found.steps_ms else "",
            layer.node,
        )
        for layer in found.layers
    ]
    print_table(("step", "kernel", "mean_ms", "p50_ms", "share", "ONNX node"), rows, right="step mean_ms p50_ms share")
    typer.echo(
        f"steps {found.steps_ms:.4f} + between steps, profiling {found.hook_ms:.4f} = wall {found.wall_ms:.4f}"
        f" ms (mean of {found.runs}); without profiling {found.plain_ms:.4f} ms"
    )
