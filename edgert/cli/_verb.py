"""How every verb helps, and how it fails: in at most four lines on stderr with exit code 2, and a traceback only with
--debug."""

from __future__ import annotations

import errno
import re
import traceback
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Root", "Verb"]

_MOST_LINES = 4
_DEBUG = "--debug"
_PACK = "'edgert[pack]'"
_OF_VERBS = {"demo": "'edgert[demo]'"}
_PACKAGES = {
    "sklearn": "'edgert[demo]'",
    "PIL": "pillow",
    "onnxruntime": "onnxruntime",
    "distributed": "'edgert[cluster]'",
}


class Root(TyperGroup):
    """The command above all verbs; takes --debug wherever it stands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = [argument for argument in args if argument != _DEBUG]
        return super().parse_args(ctx, rest if len(rest) == len(args) else [_DEBUG, *rest])


class Verb(TyperCommand):
    """A command whose errors are rendered for people."""

    def get_help(self, ctx: Any) -> str:
        return _unadorned(super().get_help(ctx))

    def get_usage(self, ctx: Any) -> str:
        return _unadorned(super().get_usage(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            if ctx.find_root().params["debug"]:
                traceback.print_exc()
            else:
                typer.echo(_render(error, ctx.command.name), err=True)
            raise typer.Exit(2) from None


def _unadorned(text: str) -> str:
    """Arguments by name alone: some versions of typer write them as {NAME} and NAME <path>."""
    return re.sub(r"\{(\w+)\}| <\w+>", r"\1", text)


def _render(error: Exception, verb: str) -> str:
    """The error of a verb as text of at most four lines."""
    from edgert.errors import EdgertError

    text = str(error) or type(error).__name__
    if isinstance(error, EdgertError):
        pass
    elif isinstance(error, ModuleNotFoundError):
        needed = _OF_VERBS.get(verb) or _PACKAGES.get((error.name or "").partition(".")[0], _PACK)
        text = f"{error}\nInstall what this verb needs: pip install {needed}"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    elif not isinstance(error, ValueError | OSError | MemoryError):
        text = f"internal error: {type(error).__name__}: {text}\nRun again with --debug to see where."
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(["error: " + lines[0], *lines[1:_MOST_LINES]])
