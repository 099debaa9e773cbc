"""``reactive-agents chat``: a conversation with an agent on the terminal."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer
from attrs import define
from returns.result import Failure

from reactive_agents.adapters.system import cancel_on_sigterm
from reactive_agents.adapters.telemetry.console import SilentView, progress_view
from reactive_agents.agent import AgentError, ReactiveAgent
from reactive_agents.cli import output
from reactive_agents.cli import run as running
from reactive_agents.cli.output import option
from reactive_agents.cli.sessions import SessionOption, SessionsOption, UserOption
from reactive_agents.core.conversation import conversation_lines
from reactive_agents.core.errors import root_cause
from reactive_agents.core.events import TaskCompleted, TaskFailed
from reactive_agents.core.messages import UserMessage

_BLOCK = '"""'
_PROMPTS = ("> ", "... ")
"""Prompts of a message and of its further lines."""
_WITH_NAME = ("/switch", "/fork", "/title")
_COMMANDS = ("/history", "/sessions", *_WITH_NAME, "/delete", "/help", "/quit")
_HELP = """\
Write a message and press Enter. Put a message of several lines between two lines of three quotes.
Ctrl-C stops an answer; at the prompt it ends the chat, as Ctrl-D does. The conversation is stored.
The arrow keys recall earlier messages, Tab completes commands and the names of conversations.
/history        show the conversation
/sessions       list your conversations
/switch NAME    continue another conversation, or begin one
/fork NAME      copy this conversation, and continue the copy
/title TEXT     give this conversation a title
/delete         delete this conversation, and begin a new one
/help           show this text
/quit           end the chat"""


@output.without_json
def chat(
    described: running.AgentOptions,
    file: running.FileOption = None,
    session: SessionOption = None,
    sessions: SessionsOption = None,
    user: UserOption = None,
    quiet: Annotated[bool, option("--quiet -q", "Print the answers only.")] = False,
) -> None:
    """Chat with an agent; the conversation is stored.

    Reads messages from standard input; prints answers to standard output, everything else to standard error.
    """
    output.check_names(session=session, user=user)
    view = SilentView() if quiet else progress_view(sys.stderr)
    view.left_out = ("phase", "strategy")  # the same for each message
    output.value_or_exit(running.with_files("", file or ()))
    agent = described.from_python(view, sessions=sessions)
    if agent is None:
        configured = described.config.map(lambda known: running.with_sessions(known, sessions))
        built = configured.bind(lambda known: running.build_agent(known, view, described.path))
        agent = output.value_or_exit(built)
    else:
        running.tell_unkept(agent)
    talk = _Talk(agent, session or _new_name(), user, view, is_quiet=quiet, files=tuple(file or ()))
    talk.tell(f"Session {talk.session}. /help lists the commands.")
    if sys.stdin.isatty() and sys.stdout.isatty():
        _edit_lines(talk)
    try:
        code = _until_the_end(talk)
    finally:
        anyio.run(agent.aclose)
    raise typer.Exit(code)


def _new_name() -> str:
    return f"{datetime.now():%Y-%m-%d-%H%M%S-%f}"[:-3]  # two chats may begin in one second


def _until_the_end(talk: _Talk) -> output.ExitCode:
    """Answer message after message; return the exit code of the last one from a file."""
    code = output.ExitCode.COMPLETED
    while True:
        try:
            message = _read_message(prompts=_PROMPTS if sys.stdin.isatty() else ("", ""))
        except KeyboardInterrupt:
            return output.ExitCode.COMPLETED
        if message is None or message.strip() == "/quit":
            return output.ExitCode.COMPLETED if sys.stdin.isatty() else code
        try:
            if message.startswith("/"):
                talk.command(message)
            elif message.strip():
                code = talk.answer(message)
        except KeyboardInterrupt:  # also where it comes just before or after an answer
            talk.tell("Stopped.")
            code = output.ExitCode.INTERRUPTED


def _read_message(prompts: tuple[str, str]) -> str | None:
    """Return the next message, a line or lines between three quotes, or ``None``."""
    first, further = prompts
    lines: list[str] = []
    try:
        line = _read_line(first)
        if line.strip() != _BLOCK:
            return line
        while (line := _read_line(further)).strip() != _BLOCK:
            lines.append(line)
    except EOFError:
        return "\n".join(lines) or None
    return "\n".join(lines)


def _read_line(prompt: str) -> str:
    if prompt and not sys.stdout.isatty():  # which has the answers alone
        typer.echo(prompt, nl=False, err=True)
        prompt = ""
    return input(prompt)


def _edit_lines(talk: _Talk) -> None:
    """Let the user edit lines, with history on the arrow keys and completion on Tab.

    Without this, a terminal also cuts lines off after 4,095 bytes.
    """
    try:
        import readline
    except ImportError:  # as on Windows, whose terminal edits and recalls lines
        return
    matching: list[str] = []

    def complete(_: str, number: int) -> str | None:
        if number == 0:
            matching[:] = talk.completions(readline.get_line_buffer()[: readline.get_endidx()])
        return matching[number] if number < len(matching) else None

    readline.set_completer_delims(" ")
    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    for text in talk.questions():
        readline.add_history(text)


@define
class _Talk:
    """The state of a chat: its agent and the current conversation.

    Attributes:
        files: paths that are attached to the next message.
    """

    agent: ReactiveAgent
    session: str
    user: str | None
    view: SilentView
    is_quiet: bool = False
    files: tuple[Path, ...] = ()

    def tell(self, text: str) -> None:
        if not self.is_quiet:
            output.tell(text)

    def answer(self, message: str) -> output.ExitCode:
        ends: list[TaskCompleted | TaskFailed] = []
        given = running.with_files(message, self.files)
        if isinstance(given, Failure):
            output.tell(f"error: {given.failure().message}")
            return output.ExitCode.FAILED
        task, self.files = given.unwrap(), ()

        async def run() -> None:
            with cancel_on_sigterm(), self.view:
                async for event in self.agent.stream(task, session=self.session, user=self.user):
                    self.view.show(event)
                    if isinstance(event, TaskCompleted | TaskFailed):
                        ends.append(event)

        try:
            anyio.run(run)
        except AgentError as error:
            output.tell(f"error: {error}")
            return output.ExitCode.FAILED
        last = ends[-1]
        if isinstance(last, TaskFailed):
            output.tell(f"error: {root_cause(last.error).message}")
            return output.ExitCode.FAILED
        result = last.result
        typer.echo(output.printable(result.output or ""))
        if result.status != "completed":
            output.tell(f"{result.status}: {result.reason}")
        return output.ExitCode.COMPLETED if result.status == "completed" else output.ExitCode.PARTIAL

    def command(self, line: str) -> None:
        """Carry out a line that begins with a slash."""
        name, _, argument = line.strip().partition(" ")
        if name in _WITH_NAME and not argument.strip():
            output.tell(f"{name}: expected a name after it.")
            return
        try:
            self._carry_out(name, argument.strip())
        except AgentError as error:
            output.tell(f"error: {error}")

    def _carry_out(self, name: str, argument: str) -> None:
        sessions = self.agent.sessions
        match name:
            case "/help":
                output.tell(_HELP)
            case "/history":
                for line in conversation_lines(anyio.run(sessions.read, self.session)):
                    output.tell(line)
            case "/sessions":
                for each in anyio.run(sessions.list, self.user):
                    mark = "*" if each.session == self.session else " "
                    output.tell(f"{mark} {each.session}  {each.updated_at:%Y-%m-%d %H:%M}  {each.title}")
            case "/switch":
                self._switch(argument)
            case "/fork":
                anyio.run(sessions.fork, self.session, argument)
                self._switch(argument)
            case "/title":
                anyio.run(sessions.rename, self.session, argument)
            case "/delete":
                anyio.run(sessions.delete, self.session)
                self._switch(_new_name())
            case _:
                output.tell(f"There is no {name}. /help lists the commands.")

    def completions(self, begun: str) -> list[str]:
        name, space, argument = begun.partition(" ")
        if not space:
            return [each for each in _COMMANDS if begun and each.startswith(begun)]
        if name != "/switch":
            return []
        names = [each.session for each in anyio.run(self.agent.sessions.list, self.user)]
        return [each for each in names if each.startswith(argument) and not set(each) & {" ", "\n"}]

    def questions(self) -> list[str]:
        """Return the user's messages of the conversation, oldest first."""
        try:
            said = anyio.run(self.agent.sessions.read, self.session)
        except AgentError:
            return []
        return [each.content for each in said if isinstance(each, UserMessage) and each.content]

    def _switch(self, name: str) -> None:
        self.session = name
        output.tell(f"Session {name}.")
