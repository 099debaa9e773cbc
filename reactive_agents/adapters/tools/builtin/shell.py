"""The ``shell`` tool: one program at a time, without a shell."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import Tool, tool
from reactive_agents.adapters.tools.json_value import shorten
from reactive_agents.adapters.tools.process_tree import MOST_BYTES, run_program
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments, ToolErrors, ToolFailed
from reactive_agents.core.json import without_surrogates
from reactive_agents.core.tools import ApprovalRule, ToolContext

_NAME = "shell"
_GRACE_S = 1.0
_EXAMPLE = '["ls", "-l"]'

READING_PROGRAMS = ("ls", "cat", "head", "tail", "wc", "grep", "diff")
"""The programs of the built-in tool, which read, and neither write files nor start other programs.

Excluded, since an argument or a file in the workspace can make them run anything: ``git`` (configuration,
hooks, pagers), ``find`` (``-exec``), ``sort`` (``--compress-program``), ``python3``.
"""


class CommandOutput(TypedDict):
    """Output and exit code of a program; a negative code is the signal that ended it."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool


class _ArgumentVector:
    """Refuses a command that cannot run, before a person is asked to approve it.

    If a model sends it as one string, the expected list is explained.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = allowed

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        checked = core_schema.no_info_after_validator_function(self._refuse_unknown, handler(source))
        return core_schema.no_info_before_validator_function(self._refuse_text, checked)

    def _refuse_unknown(self, command: list[str]) -> list[str]:
        from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

        found = _problem_of(command, self._allowed)
        if found is None:
            return command
        place, value, expected = found
        problem = PydanticCustomError("command", "{expected}", {"expected": expected})
        details = InitErrorDetails(type=problem, loc=place, input=value)
        raise ValidationError.from_exception_data(_NAME, [details])

    def _refuse_text(self, value: object) -> object:
        if isinstance(value, str):
            raise ValueError(
                f"a list such as {_EXAMPLE}, one string for each argument, since there is no shell"
            )
        return value


def shell_tool(
    allow: Sequence[str] = READING_PROGRAMS,
    *,
    timeout_s: float = 30.0,
    requires_approval: bool | ApprovalRule = True,
    environment: Sequence[str] = (),
) -> Tool:
    """Return a ``shell`` tool for chosen programs.

    The programs run as the user of this process, in the workspace but not confined to it, with that user's
    rights to read and write. Only approval protects these from the model.

    Args:
        allow: names of programs, without a path. Allow ``git`` or an interpreter only if the model may run
            anything.
        timeout_s: seconds for a command, above 0; then it is killed with its child processes.
        requires_approval: deny each command without approval, or those for which a rule returns ``True``.
        environment: names of variables for the programs besides ``PATH``, ``LANG`` and ``HOME``, which is an
            empty directory, so that they find no configuration or key of the user.

    Raises:
        ValueError: a name of a program is empty or a path.
        ToolDefinitionError: the timeout is not above 0.
    """
    allowed = tuple(dict.fromkeys(allow))
    for program in allowed:
        if not program or Path(program).name != program:
            raise ValueError(f"allow: got {program!r}, expected the name of a program without a path.")

    @tool(
        name=_NAME,
        description=(
            "Run one program in the workspace and return what it writes. There is no shell: no pipes, no "
            f"redirection, no wildcards, no variables. Programs: {', '.join(allowed) or 'none'}."
        ),
        timeout_s=timeout_s,
        requires_approval=requires_approval,
        risk="high",
    )
    async def shell(
        command: Annotated[list[str], _ArgumentVector(allowed)],
        input: str | None = None,
        *,
        context: ToolContext,
    ) -> Result[CommandOutput, ToolErrors]:
        """Run a program.

        Args:
            command: the program and its arguments, one string each, such as ["grep", "-n", "word", "a.md"]
            input: what the program reads from its standard input
        """
        if (found := _problem_of(command, allowed)) is not None:  # called from Python, without a check
            place, value, expected = found
            problem = ArgumentProblem(f"command{[*place] or ''}", shorten(value), expected)
            return Failure(InvalidToolArguments(_NAME, (problem,)))
        return await _run(command, input, context.workspace, environment)

    return shell


shell = shell_tool()
"""The default tool of :func:`shell_tool`: programs that read, with approval of each call."""


def _problem_of(
    command: Sequence[str], allowed: Sequence[str]
) -> tuple[tuple[int, ...], Sequence[str], str] | None:
    """Return where a command is wrong, what is there, and what was expected."""
    if not command:
        return (), command, f"a program and its arguments, such as {_EXAMPLE}"
    if command[0] not in allowed:
        known = ", ".join(allowed) or "none, since no program is allowed"
        return (0,), command[0], f"one of these programs: {known}"
    for position, argument in enumerate(command):
        if "\0" in argument or argument != without_surrogates(argument):
            return (position,), argument, "a text without NUL characters"
    return None


async def _run(
    command: Sequence[str], given: str | None, workspace: Path, names: Sequence[str]
) -> Result[CommandOutput, ToolErrors]:
    if os.name != "posix":
        return Failure(ToolFailed(_NAME, "it needs a POSIX system, since it ends process groups"))
    path = _search_path(workspace)
    program = shutil.which(command[0], path=path)
    if program is None:
        return Failure(ToolFailed(_NAME, f"the program {command[0]!r} is not installed here"))
    chosen = {name: os.environ[name] for name in ("LANG", *names) if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="reactive-agents-home-", ignore_cleanup_errors=True) as home:
        try:
            finished = await run_program(
                [program, *command[1:]],
                directory=workspace,
                environment={"LANG": "C.UTF-8", **chosen, "PATH": path, "HOME": home},
                given=None if given is None else given.encode("utf-8", "replace"),
                grace_s=_GRACE_S,
            )
        except OSError as error:
            detail = f"{command[0]!r} could not be started: {(error.strerror or str(error)).lower()}"
            return Failure(ToolFailed(_NAME, detail, type(error).__name__))
    if finished.flooded:
        most = MOST_BYTES // (1024 * 1024)
        return Failure(ToolFailed(_NAME, f"{command[0]!r} was ended since it wrote more than {most} MiB"))
    return Success(
        CommandOutput(
            exit_code=finished.exit_code,
            stdout=finished.stdout.text(),
            stderr=finished.stderr.text(),
            truncated=bool(finished.stdout.left_out or finished.stderr.left_out),
        )
    )


def _search_path(workspace: Path) -> str:
    """Return ``PATH`` without directories that a model may write: relative, workspace."""
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(
        directory
        for directory in directories
        if os.path.isabs(directory) and not Path(directory).resolve().is_relative_to(workspace)
    )
