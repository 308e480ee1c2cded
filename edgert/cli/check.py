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
    from edgert.session import DeviceOptions, Session

    opened, machine = OpenBundle(bundle), this_machine()
    verdicts = []
    for program in opened.programs():
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
                    if chosen.slow_steps:
                        detail += (
                            f", slowly: {chosen.slow_steps} of {chosen.steps} steps need AVX-512 and memory that can "
                            "be executed; pack with --target cpu-x86_64 for processors and systems without"
                        )
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
