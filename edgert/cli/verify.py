"""`edgert verify`: a bundle against its ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    Pins,
    Std,
    Target,
    Threads,
)

if TYPE_CHECKING:
    from edgert.cli._reference import Reference

__all__ = ["verify"]

_ATOL, _RTOL = 1e-6, 1e-4  # of bundles without golden samples
_ROUNDINGS = 16  # that add up in a model in half precision


def verify(
    bundle: BundlePath,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model it was packed from, model.onnx.")],
    inputs: Inputs = None,
    mean: Mean = "0",
    std: Std = "1",
    layout: Layout = None,
    bgr: Bgr = False,
    pin: Pins = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Random samples, where inputs are not given.")
    ] = 3,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the first random sample.")] = 0,
    atol: Annotated[
        float | None,
        typer.Option("--atol", metavar="NUMBER", min=0, help="Absolute tolerance. [default: the self-test's]"),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            metavar="NUMBER",
            min=0,
            help="Tolerance relative to the output's maximum. [default: the self-test's]",
        ),
    ] = None,
    reference: Annotated[
        str, typer.Option("--reference", metavar="auto|onnxruntime|onnx", help="What runs the model.")
    ] = "auto",
    target: Target = None,
    threads: Threads = 0,
    isa: Isa = None,
    allow_native: AllowNative = False,
    emulate: Emulate = False,
    code_cache: CodeCache = None,
    json: Json = False,
) -> None:
    """Compare a bundle with its ONNX model. Exit code 0: outputs equal within tolerance, 1: not."""
    from edgert.cli._inputs import Pictures, read_inputs, read_pins
    from edgert.cli._output import print_json, print_table
    from edgert.cli._progress import Progress
    from edgert.cli._reference import open_reference
    from edgert.cli._session import opened
    from edgert.compare import compare
    from edgert.errors import InvalidArgumentError
    from edgert.samples import random_inputs

    pinned = read_pins(pin)
    with (
        Progress("verify") as tell,
        opened(bundle, target, threads, isa, allow_native, emulate, code_cache, tell) as session,
    ):
        given = read_inputs(inputs, session.inputs, Pictures(mean, std, layout, bgr))
        oracle = open_reference(model, reference)
        atol, rtol = _tolerances(bundle, oracle, atol, rtol)
        if absent := {info.name for info in session.outputs} - set(oracle.outputs):
            raise InvalidArgumentError(
                f"{model}: expected outputs of the bundle's names, such as '{min(absent)}'\n"
                f"got: {', '.join(oracle.outputs)}\nGive the model that the bundle was packed from."
            )
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


def _tolerances(bundle: Path, oracle: Reference, atol: float | None, rtol: float | None) -> tuple[float, float]:
    """Those given, else those of the bundle's golden samples, which allow for rounded weights; or what a model that
    computes in half precision makes of its outputs, if that is more."""
    from edgert.reader import read

    goldens = read(bundle, "metadata").goldens
    own = (goldens[0].atol, goldens[0].rtol) if goldens else (_ATOL, _RTOL)
    return own[0] if atol is None else atol, max(own[1], _ROUNDINGS * oracle.rounding) if rtol is None else rtol
