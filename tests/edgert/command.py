"""The command line as tests call it."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from edgert.cli import app

__all__ = ["fail", "invoke", "succeed"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments: object, code: int = 2) -> str:
    """The message of a verb that fails, which has at most four lines on stderr and nothing on stdout."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert 1 <= len([line for line in result.stderr.splitlines() if line.strip()]) <= 4
    assert "Traceback" not in result.stderr
    return result.stderr
