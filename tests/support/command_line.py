"""The command line: in this process, or as a process of its own where a test is about the process.

In this process a command sees only the environment that a test gives it, and streams that are terminals or
not as the test says.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from attrs import frozen

from reactive_agents.cli.app import app

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "XDG_STATE_HOME": os.devnull,
    "REACTIVE_AGENTS_RUN_LOG": "off",
    "COVERAGE_PROCESS_START": os.environ.get("COVERAGE_PROCESS_START", ""),
}


@frozen
class Completed:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def command(
    *arguments: object,
    stdin: str | Terminal = "",
    stdout: io.StringIO | None = None,
    stderr: io.StringIO | None = None,
    modules: Path | None = None,
    **environment: str,
) -> Completed:
    """Run the command in this process.

    Args:
        stdin: the text to read, or a terminal with it.
        stdout: a terminal where one is wanted; likewise ``stderr``.
        modules: a directory of modules that the command may import; they are forgotten afterwards.
    """
    source = io.StringIO(stdin) if isinstance(stdin, str) else stdin
    output, errors = stdout or io.StringIO(), stderr or io.StringIO()
    with (
        mock.patch.dict(os.environ, {**ENVIRONMENT, **environment}, clear=True),
        mock.patch.multiple(sys, stdin=source, stdout=output, stderr=errors),
        _importable(modules),
    ):
        try:
            app([str(each) for each in arguments], prog_name="reactive-agents")
        except SystemExit as end:
            code = end.code
        else:
            code = None
    assert isinstance(code, int), "the command exits with a number"
    return Completed(int(code), output.getvalue(), errors.getvalue())


def parsed_command(path: str) -> Any:
    """The parser's description of a command, by its names: ``memory search``."""
    described: Any = typer.main.get_command(app)
    for name in path.split():
        described = described.get_command(None, name)
    return described


@contextmanager
def _importable(directory: Path | None) -> Iterator[None]:
    if directory is None:
        yield
        return
    known = set(sys.modules)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).parent == directory:
                del sys.modules[name]
