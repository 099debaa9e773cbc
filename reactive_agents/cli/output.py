"""Exit codes, and the output format of every subcommand.

Results go to standard output; progress, errors and questions go to standard error. With ``--json`` standard
output is exactly one JSON document, an object with ``error`` if the command fails. Texts of models, tools and
files are printed without control characters, so that they cannot control the terminal. rich is imported only
to draw a table on a terminal, because its import takes longer than most commands.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import partial, wraps
from inspect import Parameter, Signature, iscoroutinefunction, isroutine, signature
from math import inf
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, cast, get_args

import typer
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.cli import as_json as as_json
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.core.json import Json
from reactive_agents.core.texts import one_line as one_line
from reactive_agents.core.texts import printable as printable
from reactive_agents.core.texts import printable_json as printable_json
from reactive_agents.core.texts import with_article

if TYPE_CHECKING:
    from socket import socket

    from reactive_agents.adapters.sqlite import Store
    from reactive_agents.effects import Effect

_T = TypeVar("_T")
_WHOLE_CELL = 20
"""Characters of the longest cell that is not wrapped."""
_LEAST_TEXT = 16
"""Characters in a line of wrapped text."""


class ExitCode(IntEnum):
    """Exit codes of the command; the option parser exits with ``BAD_USAGE`` too."""

    COMPLETED = 0
    FAILED = 1
    BAD_USAGE = 2
    PARTIAL = 3
    ABSTAINED = 4
    INTERRUPTED = 130


def option(usage: str, about: str, *, show_default: bool = False, **more: Any) -> Any:
    """Return an option as its help shows it, such as ``--user -u USER``."""
    flags = [each for each in usage.split() if each.startswith("-")]
    metavar = " ".join(usage.split()[len(flags) :]) or None
    return typer.Option(*flags, metavar=metavar, help=about, show_default=show_default, **more)


def argument(metavar: str, about: str, *, show_default: bool = False, **more: Any) -> Any:
    """Return an argument as its help shows it."""
    return typer.Argument(metavar=metavar or None, help=about, show_default=show_default, **more)


_JSON = Parameter(
    "as_json",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, option("--json", "Print one JSON document only.")],
)
"""The option of every command but those :func:`without_json`, which :func:`is_json` reads."""
AllowedModules = Annotated[
    str | None,
    option("--allow-tools-from A,B", "Modules whose functions the configuration may name. None by default."),
]
ServerOption = Annotated[
    str | None,
    option(
        "--base-url URL",
        "The address of the model's server, instead of the provider's. Without a key in the environment "
        "the key 'none' is sent there.",
    ),
]
HostOption = Annotated[str, option("--host ADDRESS", "The address to listen on; 127.0.0.1 by default.")]
PortOption = Annotated[int, option("--port N", "8000 by default; 0 picks a free port.", min=0, max=65_535)]


class _Reported(Protocol):
    @property
    def message(self) -> str: ...


class _Closing(Protocol):
    async def aclose(self) -> None: ...


_Store = TypeVar("_Store", bound=_Closing)


def is_json() -> bool:
    """Return whether the command prints one JSON document only."""
    return as_json.get()


def key_of_server(model: str) -> str | None:
    """Return the key for another server; ``None`` for that in the environment."""
    from reactive_agents.adapters.llm.providers import missing_variables  # by the commands with a model

    return "none" if missing_variables(model, os.environ) else None


def print_json(document: Json) -> None:
    """Print one JSON document to standard output."""
    typer.echo(printable_json(json.dumps(document, ensure_ascii=False, indent=2)))


def tell(text: str) -> None:
    """Print a text to standard error."""
    typer.echo(printable(text), err=True)


def print_answer(answer: str) -> None:
    """Print the answer of a run, on a terminal without control characters."""
    typer.echo(printable(answer) if sys.stdout.isatty() else answer)


def fail(error: _Reported, code: ExitCode | None = None) -> typer.Exit:
    """Print an error and return the exception to raise: ``raise fail(…)``.

    Without a code, a wrong option or configuration is ``BAD_USAGE``, and anything else ``FAILED``.
    """
    if is_json():
        print_json(error_record(type(error).__name__, error.message))
    else:
        tell(f"error: {error.message}")
    if code is None:
        code = ExitCode.BAD_USAGE if isinstance(error, InvalidConfig | DecodeError) else ExitCode.FAILED
    return typer.Exit(code)


def bad_usage(option: str, given: str, expected: str) -> typer.Exit:
    """Print what is wrong with an option, and return the exception to raise."""
    return fail(InvalidConfig(option, given, expected))


def listening_on(host: str, port: int) -> socket:
    """Return a socket that listens on an address, or exit with why it cannot."""
    from reactive_agents.server.process import bound_socket  # of the extra ``server``

    try:
        return bound_socket(host, port)
    except OSError as error:
        expected = f"a free port; --port 0 picks one ({error.strerror or error})"
        raise fail(InvalidConfig("--port", f"{host}:{port}", expected), ExitCode.FAILED) from None


def value_or_exit(result: Result[_T, _Reported], code: ExitCode | None = None) -> _T:
    """Return the value of a result; print the error and exit if it failed."""
    if isinstance(result, Failure):
        raise fail(result.failure(), code)
    return result.unwrap()


def check_names(**names: str | None) -> None:
    """Raise ``typer.BadParameter`` if no run, session or user can have a name."""
    from reactive_agents.core.conversation import wrong_name  # by the commands with a user

    for option, name in names.items():
        if (wrong := wrong_name(option, name)) is not None:
            raise typer.BadParameter(f"{wrong}.", param_hint=f"--{option.replace('_', '-')}")


def is_python_name(place: object) -> bool:
    """Return whether an argument names an object in a module, as ``app:agent`` does.

    >>> is_python_name("app:agent"), is_python_name("shop.app:make"), is_python_name("C:agent.toml")
    (True, True, False)
    """
    is_file = str(place).endswith((".toml", ".json", ".jsonl"))
    return not is_file and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", str(place)) is not None


def from_python(place: object, kind: type[_T], builder: type, **of_files: object) -> _T:
    """Return what ``module:name`` names: an object, its builder, or what makes one.

    The working directory is on the path. Exits if there is none.

    Args:
        of_files: options for configuration files, which are refused.
    """
    from reactive_agents.agent.errors import AgentError
    from reactive_agents.agent.tool_references import imported

    name, made = str(place), f"{kind.__name__}, {builder.__name__}, or a function that returns one"
    if os.path.exists(name):
        raise bad_usage("AGENT", repr(name), "one meaning, but there is also a file of this name")
    for option, value in of_files.items():
        if value not in (None, (), False):
            shown = f"--{option.replace('_', '-')}"
            raise bad_usage(shown, repr(value), f"nothing beside {name}, since it applies to files only")
    if not {"", os.getcwd()} & {*sys.path}:
        sys.path.insert(0, os.getcwd())
    found: Any = value_or_exit(imported(name, "AGENT", what="module:name", anywhere=True))
    try:
        if not isinstance(found, kind | builder) and isroutine(found):
            found = _called(name, found)
        if isinstance(found, builder):
            found = cast(Any, found).build()
    except AgentError as error:
        raise fail(error.error) from None
    if not isinstance(found, kind):
        raise bad_usage("AGENT", f"{with_article(type(found).__name__)} by {name!r}", made)
    return found


def _called(name: str, function: Callable[..., Any]) -> Any:
    """Return what a function without arguments returns."""
    from reactive_agents.agent.errors import AgentError

    if iscoroutinefunction(function):
        raise bad_usage("AGENT", f"an async function by {name!r}", "a plain one")
    try:
        signature(function).bind()
    except TypeError as error:
        raise bad_usage("AGENT", f"a function by {name!r}", f"one without arguments ({error})") from None
    try:
        return function()
    except AgentError:
        raise
    except (Exception, SystemExit) as error:
        frame = extract_tb(error.__traceback__)[-1]
        place = f"{error} in {frame.filename}, line {frame.lineno}"
        expected = f"one that returns an agent (it raised {type(error).__name__}: {place})"
        raise bad_usage("AGENT", f"a function by {name!r}", expected) from error


def check_there(option: str, place: str, what: str, store: Store | None = None) -> None:
    """Exit with a usage error if a file or its store is missing, instead of making it.

    Args:
        option: the option that names the file.
        what: the expected file, such as ``a memory file``.
        store: the store that the file has to have.
    """
    from reactive_agents.adapters.sql import is_there, shown_place  # by the commands that have a store

    is_found = bool(place) and (is_there(place) if store is None else has_store(place, store))
    if not is_found:  # such as an unset variable of the shell
        raise bad_usage(option, repr(shown_place(place)), f"{what} that exists")


def has_store(place: str, store: Store) -> bool:
    """Return whether a place has a store, or cannot be read: its reader then says why."""
    from reactive_agents.adapters import sql, sqlite  # by the commands that have a store

    made = sql.is_made(place, store)
    if not made or sql.is_postgres(place):
        return made
    return sqlite.look_into(place, store, partial(sqlite.version_of, store=store)) != Success(0)


def ask_store(
    open_store: Callable[[], _Store],
    question: Callable[[_Store], Effect[_T, _Reported] | Awaitable[Result[_T, _Reported]]],
) -> _T:
    """Open a store for one query and return its result; exit if it fails."""
    import anyio  # by the commands that have a store

    from reactive_agents.effects import attempt

    async def ask() -> Result[_T, _Reported]:
        async with aclosing(open_store()) as store:
            asked: Any = question(store)
            answered: Result[_T, _Reported] = await attempt(asked)
            return answered

    return value_or_exit(anyio.run(ask), ExitCode.FAILED)


def number_up_to(most: float, what: str) -> Callable[[str], float]:
    """Return a parser of an option that is a number from 0 to the given one."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if 0.0 <= number <= most:
            return number
        raise typer.BadParameter(f"got {text!r}, expected {what} from 0 to {most:g}.")

    return parse


def _days_ago(text: str) -> datetime:
    return datetime.now(UTC) - timedelta(days=number_up_to(700_000, "a number of days")(text))


OlderThan = Annotated[
    datetime,
    option("--older-than DAYS", "Delete what is more than so many days old.", parser=_days_ago),
]
SECONDS = number_up_to(inf, "a number of seconds")


def moment(text: str) -> datetime:
    """Parse a date, or a date and time, of an option; the default time zone is UTC."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"got {text!r}, expected a date such as 2026-01-31, or a date and time in ISO 8601."
        ) from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


@frozen
class Options:
    """Options that several commands share, as one parameter.

    A command with a parameter ``Annotated[Kind, Options(function)]`` has the parameters of the function in
    its place, and gets the result of the function; of a class, those of its instances.
    """

    function: Callable[..., Any]


class _Group(typer.Typer):
    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().command(*args, **options)
        return lambda function: register(_with_options(function))

    def callback(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().callback(*args, **options)
        return lambda function: register(_with_options(function))


def without_json(command: Callable[..., None]) -> Callable[..., None]:
    """Mark a command that has no option ``--json``."""
    vars(command)["has_json"] = False
    return command


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the parameters of its :class:`Options`, and ``--json``."""
    parameters: list[Parameter] = []
    makers: dict[str, Callable[..., Any]] = {}
    for each in signature(function, eval_str=True).parameters.values():
        made = [part.function for part in get_args(each.annotation) if isinstance(part, Options)]
        makers.update((each.name, make) for make in made)
        if made:
            names = vars(sys.modules[made[0].__module__])  # attrs makes the functions of classes elsewhere
            parameters += signature(made[0], globals=names, eval_str=True).parameters.values()
        else:
            parameters.append(each)

    @wraps(function)
    def run(*, as_json: bool = False, **given: Any) -> Any:
        for name, make in makers.items():
            given[name] = make(**{each: given.pop(each) for each in signature(make).parameters})
        return function(**given)

    named = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    json_option = [_JSON] if getattr(function, "has_json", True) else []
    run.__signature__ = Signature(named + json_option)  # type: ignore[attr-defined]
    return run


def command_group(about: str | None = None, **options: Any) -> typer.Typer:
    """Return a command with subcommands."""
    return _Group(help=about, add_completion=False, rich_markup_mode=None, **options)


def report(document: Json, text: str) -> None:
    """Print the result of a command: a JSON document, or a sentence."""
    if is_json():
        print_json(document)
    else:
        typer.echo(printable(text))


def print_found(
    found: Iterable[object],
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
) -> None:
    """Print values as one JSON document, or their rows as a table."""
    if is_json():
        print_json(encode(list(found)))
    else:
        print_table(headings, list(rows), right)


def error_record(tag: str, message: str) -> Json:
    """Return the JSON document of a command that failed."""
    return {"error": {"tag": tag, "message": message}}


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    """Print a table on a terminal.

    Elsewhere prints one line per row, with tabs between the cells. On a terminal that is too narrow for short
    cells, such as numbers and times, the lines are longer than its width, and the terminal wraps them.

    Args:
        headings: one per column; the first column is never wrapped, so that ids can be copied.
        right: headings of the columns that are aligned to the right.
    """
    if not sys.stdout.isatty():
        for row in rows:
            typer.echo("\t".join(printable(cell).replace("\t", " ").replace("\n", " ") for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, console = Table(box=None, pad_edge=False), Console()
    cells = [[Text(printable(cell)) for cell in row] for row in rows]
    least = 0
    for number, heading in enumerate(headings):
        widest = max((line.cell_len for texts in cells for line in texts[number].split()), default=0)
        is_whole = number == 0 or widest <= _WHOLE_CELL
        width = max(widest if is_whole else _LEAST_TEXT, len(heading))
        justify = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=is_whole, overflow="fold", min_width=width)  # type: ignore[arg-type]
        least += width + 2
    for texts in cells:
        table.add_row(*texts)
    console.width = max(console.width, least - 2)
    console.print(table)


def names(text: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
