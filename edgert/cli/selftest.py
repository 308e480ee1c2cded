"""`edgert selftest`: PASS or FAIL on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgert.cli._options import AllowNative, BundlePath, CodeCache, Duration, Emulate, Json, Runs, Target, Threads

if TYPE_CHECKING:
    from edgert.selftest import SelfTest

__all__ = ["selftest"]


def selftest(
    bundle: BundlePath,
    target: Target = None,
    threads: Threads = 0,
    isa: Annotated[
        str | None,
        typer.Option("--isa", metavar="NAME", help="One that `edgert devices` lists, or all; the best is timed then."),
    ] = None,
    allow_native: AllowNative = False,
    emulate: Emulate = False,
    code_cache: CodeCache = None,
    deadline_ms: Annotated[
        float | None, typer.Option("--deadline-ms", metavar="MS", min=0, help="FAIL if p99 takes longer.")
    ] = None,
    runs: Runs = 0,
    duration: Duration = 1.0,
    json: Json = False,
) -> None:
    """Verify integrity, golden outputs and latency. Exit code 0: PASS, 1: FAIL. Where a bundle has no golden samples,
    PASS says that no output was compared."""
    from edgert.cli._output import print_json
    from edgert.cli._progress import Progress
    from edgert.selftest import selftest as test

    with Progress("selftest") as tell:
        found = test(
            bundle,
            target,
            threads,
            isa,
            deadline_ms,
            runs,
            duration,
            lambda done: tell("latency", done),
            allow_native,
            emulate,
            code_cache,
        )
    if json:
        print_json(found)
    else:
        _print(bundle, found)
    raise typer.Exit(0 if found.passed else 1)


def _print(bundle: Path, found: SelfTest) -> None:
    from edgert.cli._output import ran

    if found.session:
        typer.echo(f"{bundle}: {ran(found.session)}")
    typer.echo(f"integrity: {found.integrity}")
    for output in found.outputs:
        verdict = "ok" if output.passed else "FAIL"
        note = output.note or f"max error {output.max_abs:.3g}, relative {output.max_rel:.3g}"
        typer.echo(f"golden output '{output.name}' on {output.isa}: {verdict} ({note})")
    if found.session and not found.outputs:
        typer.echo("golden output: none in the bundle")
    if found.latency:
        deadline = (
            "" if found.on_time is None else f", deadline {found.deadline_ms:g}: {'met' if found.on_time else 'FAIL'}"
        )
        p = found.latency
        typer.echo(f"latency: p50 {p.p50_ms:.3f}  p90 {p.p90_ms:.3f}  p99 {p.p99_ms:.3f} ms ({p.runs} runs){deadline}")
    unproven = found.passed and not found.outputs
    verdict = "PASS" if found.passed else "FAIL"
    typer.echo(f"{verdict}, but no output was compared: pack without --no-golden" if unproven else verdict)
