"""`edgert check`: will a bundle run on this machine, and if not, why."""

from __future__ import annotations

import typer

from edgert.cli._options import AllowNative, BundlePath, Emulate, Json

__all__ = ["check"]


def check(bundle: BundlePath, allow_native: AllowNative = False, emulate: Emulate = False, json: Json = False) -> None:
    """Tell for each program whether it runs here. Exit code 1 if none does."""
    from edgert._open import OpenBundle
    from edgert.cli._output import print_json
    from edgert.devices import this_machine
    from edgert.errors import EdgertError
    from edgert.reader import read
    from edgert.session import DeviceOptions, Session

    opened, machine = OpenBundle(bundle), this_machine()
    stored = read(bundle, integrity="metadata").programs
    verdicts = []
    for program, written in zip(opened.programs(), stored, strict=True):
        reason, detail = "ok", ""
        emulated = emulate and program.device != ""
        if program.arch != machine.arch and not emulated:
            reason, detail = program.runnable, f"it needs {program.arch}, this machine is {machine.arch}"
        else:
            try:
                options = DeviceOptions(allow_native, emulate=emulated)
                with Session(opened, program.target, program.cores, None, options) as session:
                    chosen = session.describe()
                    detail = f"with {chosen.isa}" + (f" on {chosen.device}" if chosen.device else "")
                    detail += _slowly({step.kernel for step in written.steps}, chosen.isa)
            except EdgertError as error:
                reason, detail = error.id, str(error)
        verdicts.append(
            {
                "target": program.target,
                "arch": program.arch,
                "cores": program.cores,
                "runs": reason == "ok",
                "id": reason,
                "why": detail,
            }
        )
    runs = any(verdict["runs"] for verdict in verdicts)
    if json:
        print_json({"path": bundle, "runs": runs, "programs": verdicts})
    else:
        for verdict in verdicts:
            found = "runs here" if verdict["runs"] else "does not run here:"
            typer.echo(f"{verdict['target']}, cores {verdict['cores']}: {found} {verdict['why']}")
        if not verdicts:
            typer.echo("the bundle holds no program")
    raise typer.Exit(0 if runs else 1)


def _slowly(kernels: set[str], isa: str) -> str:
    """Words for what is slow with an instruction set that a program is not made for; none if nothing is."""
    if "conv_unrolled" not in kernels or isa.startswith("avx512"):
        return ""
    return ", slowly: its conv_unrolled needs AVX-512 to be fast; pack it for this processor with --target cpu-x86_64"
