"""`edgert run`: run a bundle once on input files and summarise the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
)

if TYPE_CHECKING:
    from edgert.dtypes import Array

__all__ = ["run"]


def run(
    bundle: BundlePath,
    inputs: Inputs = None,
    random: Annotated[bool, typer.Option("--random", help="Random values for inputs without a file.")] = False,
    mean: Mean = "0",
    std: Std = "1",
    layout: Layout = None,
    bgr: Bgr = False,
    labels: Annotated[
        Path | None, typer.Option("--labels", metavar="FILE", help="Text file with a class name on each line.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Save the outputs by name, out.npz.")
    ] = None,
    target: Target = None,
    threads: Threads = 0,
    isa: Isa = None,
    allow_native: AllowNative = False,
    emulate: Emulate = False,
    code_cache: CodeCache = None,
    json: Json = False,
) -> None:
    """Run once on arrays or pictures. Prints each output's range and the top classes; -o saves the outputs."""
    from edgert.cli._inputs import Pictures, read_inputs, read_labels
    from edgert.cli._output import print_json, ran
    from edgert.cli._progress import Progress
    from edgert.cli._session import opened
    from edgert.errors import InvalidArgumentError
    from edgert.samples import random_inputs

    if output and output.suffix != ".npz":
        raise InvalidArgumentError(f"--output: expected a file .npz, got '{output}'")
    names = read_labels(labels) if labels else []
    with (
        Progress("run") as tell,
        opened(bundle, target, threads, isa, allow_native, emulate, code_cache, tell) as session,
    ):
        arrays = read_inputs(inputs, session.inputs, Pictures(mean, std, layout, bgr))
        missing = [info for info in session.inputs if info.name not in arrays]
        if missing and not random:
            raise typer.BadParameter(
                f"'{missing[0].name}' ({missing[0]}) has no value; pass {missing[0].name}=FILE, or --random",
                param_hint="--input",
            )
        results, used = session.run(random_inputs(missing) | arrays), session.describe()
    summaries = [_summary(name, array, names) for name, array in results.items()]
    if output:
        _save(output, results)
    if json:
        print_json({"session": used, "outputs": summaries})
        return
    typer.echo(f"{bundle}: {ran(used)}")
    for summary in summaries:
        shape = ",".join(map(str, summary["shape"]))
        typer.echo(f"{summary['name']}: {summary['dtype']}[{shape}]{_range(summary)}")
        for entry in summary["top"]:
            typer.echo(f"  {entry['class']:>6}  {entry['value']:.6g}  {entry['label']}".rstrip())


def _summary(name: str, array: Array, labels: list[str]) -> dict[str, Any]:
    """Type, range and, if the output looks like one score a class, the five largest."""
    import numpy as np

    found: dict[str, Any] = {"name": name, "dtype": array.dtype.name, "shape": list(array.shape), "top": []}
    if array.size:
        found |= {"min": array.min().item(), "max": array.max().item(), "mean": float(array.mean(dtype=np.float64))}
    if array.dtype.kind == "f" and array.size > 1 and array.size == max(array.shape, default=0):
        scores = array.reshape(-1)
        for index in np.argsort(-scores, kind="stable")[:5].tolist():
            label = labels[index] if index < len(labels) else ""
            found["top"].append({"class": index, "value": float(scores[index]), "label": label})
    return found


def _range(summary: dict[str, Any]) -> str:
    if "min" not in summary:
        return "  empty"
    return f"  min {summary['min']:.6g}  max {summary['max']:.6g}  mean {summary['mean']:.6g}"


def _save(path: Path, arrays: dict[str, Array]) -> None:
    """An npz that keeps any name as it is: numpy.savez takes names as keyword arguments and so cannot store `file`."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
