"""`edgert verify`: a bundle against its ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgert.cli._options import Bgr, BundlePath, Inputs, Isa, Json, Layout, Mean, Std, Target, Threads

__all__ = ["verify"]


def verify(
    bundle: BundlePath,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model it was packed from, model.onnx.")],
    inputs: Inputs = None,
    mean: Mean = "0",
    std: Std = "1",
    layout: Layout = None,
    bgr: Bgr = False,
    pin: Annotated[
        list[str] | None, typer.Option("--pin", metavar="NAME=FILE", help="An input that packing made a constant.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Random samples, where inputs are not given.")
    ] = 3,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the first random sample.")] = 0,
    atol: Annotated[float, typer.Option("--atol", metavar="NUMBER", min=0, help="Absolute tolerance.")] = 1e-6,
    rtol: Annotated[
        float, typer.Option("--rtol", metavar="NUMBER", min=0, help="Tolerance relative to the output's maximum.")
    ] = 1e-4,
    reference: Annotated[
        str, typer.Option("--reference", metavar="auto|onnxruntime|onnx", help="What runs the model.")
    ] = "auto",
    target: Target = None,
    threads: Threads = 0,
    isa: Isa = None,
    json: Json = False,
) -> None:
    """Compare a bundle with its ONNX model. Exit code 0: outputs equal within tolerance, 1: not."""
    from edgert.cli._inputs import Pictures, parse_pair, read_array, read_inputs
    from edgert.cli._output import print_json, print_table
    from edgert.cli._progress import Progress
    from edgert.cli._reference import open_reference
    from edgert.compare import compare
    from edgert.samples import random_inputs
    from edgert.session import load

    pinned = {name: read_array(Path(file), name) for name, file in (parse_pair(text, "pin") for text in pin or ())}
    with load(bundle, target, threads, isa) as session, Progress("verify") as tell:
        given = read_inputs(inputs, session.inputs, Pictures(mean, std, layout, bgr))
        oracle = open_reference(model, reference)
        count = 1 if len(given) == len(session.inputs) else samples
        found = []
        for number in range(count):
            tell("samples", number / count)
            arrays = random_inputs(session.inputs, seed + number) | given
            got, want = session.run(arrays), oracle.run(arrays | pinned)
            found += [(number, compare(name, array, want[name], atol, rtol)) for name, array in got.items()]
    passed = all(difference.passed for _, difference in found)
    if json:
        print_json({"reference": oracle.name, "passed": passed, "samples": count, "outputs": [d for _, d in found]})
    else:
        rows = [
            (str(number), d.name, f"{d.max_abs:.3g}", f"{d.max_rel:.3g}", "ok" if d.passed else "FAIL", d.note)
            for number, d in found
        ]
        print_table(("sample", "output", "max_abs", "max_rel", "verdict", ""), rows, right="sample max_abs max_rel")
        typer.echo(
            f"{'PASS' if passed else 'FAIL'} against {oracle.name} (atol {atol:g}, rtol {rtol:g} of the maximum)"
        )
    raise typer.Exit(0 if passed else 1)
