"""The command line: `edgert VERB ...`, one file per verb."""

from __future__ import annotations

from typing import Annotated

import typer

import edgert
from edgert.cli._verb import Root, Verb
from edgert.cli.bench import bench
from edgert.cli.check import check
from edgert.cli.demo import demo
from edgert.cli.devices import devices
from edgert.cli.info import info
from edgert.cli.pack import pack
from edgert.cli.plan import plan
from edgert.cli.profile import profile
from edgert.cli.run import run
from edgert.cli.selftest import selftest
from edgert.cli.targets import targets
from edgert.cli.tune import tune
from edgert.cli.verify import verify

__all__ = ["app", "main"]

app = typer.Typer(
    name="edgert",
    cls=Root,
    help="Packs ONNX networks ahead of time into one verified bundle, and runs it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _function in (pack, tune, plan, info, check, run, bench, profile, selftest, verify, targets, devices, demo):
    app.command(cls=Verb)(_function)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edgert {edgert.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
) -> None:
    pass


def main() -> None:
    """The entry point. Exit code 0: done, or PASS; 1: FAIL; 2: an error, told in at most four lines on stderr."""
    app()
