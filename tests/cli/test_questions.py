"""Questions of the model on the command line: the person at the terminal is asked."""

from __future__ import annotations

import io
import json
import sys
import threading
from pathlib import Path

import pytest

from reactive_agents.adapters.telemetry.console import Line, PlainView, SilentView
from reactive_agents.core.governance import ApprovalRequest, QuestionRequest
from reactive_agents.core.ids import AgentId, ApprovalId, CallId, RequestId, RunId, TaskId
from tests.support.command_line import Completed, Terminal, command
from tests.support.openai_server import Answer, Call, OpenAIServer

QUESTION = Call("ask-user", {"question": "Which\x1b[2J size?", "options": ["S", "L"]})
ORDERED = Answer(calls=(Call("final-answer", {"answer": "Ordered."}, "call-b"),))


def run(folder: Path, server: OpenAIServer, typed: str | None, name: str = "run") -> Completed:
    (folder / "agent.toml").write_text(
        'tools = ["ask-user"]\n[model]\nmodel = "openai/gpt-4o-mini"\nprofiles = ":memory:"\n'
        f'base_url = "{server.base_url}"\n[reasoning]\n'
        + "".join(each.read_text() for each in folder.glob("tools.toml"))
    )
    asked = ("run", "Order a shirt.") if name == "run" else ("chat", "--sessions", folder / "sessions.db")
    stdin = "" if typed is None else Terminal(typed)
    return command(*asked, "--config", folder / "agent.toml", stdin=stdin, OPENAI_API_KEY="sk-test")


def told(server: OpenAIServer) -> str:
    """Return the result of the call, as the model was told."""
    return str(
        next(each["content"] for each in server.requests[1].body["messages"] if each["role"] == "tool")
    )


@pytest.mark.parametrize(("typed", "answered"), [("large\n", "large"), ("2\n", "L"), ("3\n", "3")])
def test_a_run_asks_on_the_terminal_and_a_number_is_an_option(
    tmp_path: Path, typed: str, answered: str
) -> None:
    with OpenAIServer(Answer(calls=(QUESTION,)), ORDERED) as server:
        done = run(tmp_path, server, typed)
    assert (done.exit_code, done.stdout) == (0, "Ordered.\n"), done.stderr
    assert "  1. S\n  2. L\n? " in done.stderr
    assert "\x1b[2J" not in done.stderr
    assert told(server) == answered


@pytest.mark.parametrize(
    ("typed", "delivered"),
    [
        ('{"city": "Rome"}\n', '{"city": "Rome"}'),
        ("in Rome\n", "in Rome"),
        ("NaN\n", "NaN"),
        ("\n", "no one gave its result"),
        (None, "no one can answer here"),
    ],
)
def test_the_person_at_the_terminal_gives_the_result_of_an_external_call(
    tmp_path: Path, typed: str | None, delivered: str
) -> None:
    (tmp_path / "tools.toml").write_text(
        '[[external_tools]]\nname = "place"\ndescription = "The place of the user."\n'
        '[external_tools.parameters]\ntype = "object"\n'
    )
    asked = Answer(calls=(Call("place", {"why": "\x1b[2J"}),))
    with OpenAIServer(asked, *[ORDERED] * 3) as server:
        done = run(tmp_path, server, typed)
    assert done.exit_code in (0, 3), done.stderr
    assert delivered in told(server)
    if typed is not None:
        assert 'Result of place {"why": "\\u001b[2J"} (an empty line for none): ' in done.stderr


def test_a_chat_asks_on_the_terminal(tmp_path: Path) -> None:
    with OpenAIServer(Answer(calls=(QUESTION,)), ORDERED) as server:
        done = run(tmp_path, server, "Order a shirt.\nlarge\n/quit\n", "chat")
    assert done.exit_code == 0, done.stderr
    assert told(server) == "large"


@pytest.mark.parametrize(("typed", "reason"), [("\n", "no one answers"), (None, "no one can answer here")])
def test_without_an_answer_or_a_terminal_the_model_is_told(
    tmp_path: Path, typed: str | None, reason: str
) -> None:
    could_not = {"answer": "", "could_not": "Nobody said which size to order."}
    gives_up = Answer(calls=(Call("final-answer", could_not, "call-b"),))
    with OpenAIServer(Answer(calls=(QUESTION,)), gives_up, gives_up) as server:
        done = run(tmp_path, server, typed)
    assert done.exit_code == 4, json.dumps([done.stdout, done.stderr])
    assert reason in told(server)


def test_an_answer_is_never_taken_for_that_to_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    reading, go_on = threading.Event(), threading.Event()

    class Typed(io.StringIO):
        def readline(self, *_: object) -> str:
            reading.set()
            go_on.wait()
            order.append("read")
            return "y\n"

    class Shown(io.StringIO):
        def write(self, text: str) -> int:
            order.extend(["approval"] * ("[y/N]" in text) + ["question"] * ("Which one" in text))
            return len(text)

    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "stderr", Shown())
    ids = (RunId("r"), TaskId("t"), AgentId("a"))
    request = ApprovalRequest(*ids, ApprovalId("p"), CallId("c"), "wipe", {}, "high")
    question = QuestionRequest(*ids, RequestId("q"), CallId("d"), "Which one?")
    view = SilentView()
    first = threading.Thread(target=view.ask, args=(request,))
    second = threading.Thread(target=view.answer, args=(question,))
    first.start()
    reading.wait()
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert order == ["approval", "read", "question", "read"]


def test_a_question_stays_the_last_line_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    view = PlainView(shown)

    class Typed(io.StringIO):
        def readline(self, *_: object) -> str:
            view.write(Line("approval", "delete approved"))  # an event of another call
            shown.write("y\n")
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "stderr", shown)
    ids = (RunId("r"), TaskId("t"), AgentId("a"))
    assert view.ask(ApprovalRequest(*ids, ApprovalId("p"), CallId("c"), "wipe", {}, "high"))
    assert shown.getvalue() == "Run wipe {} (high risk)? [y/N] y\napproval  delete approved\n"


def test_a_question_is_shown_where_only_the_output_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = {"stdin": Terminal("L\n"), "stdout": Terminal(), "stderr": io.StringIO()}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    ids = (RunId("r"), TaskId("t"), AgentId("a"))
    assert SilentView().answer(QuestionRequest(*ids, RequestId("q"), CallId("d"), "Which one?")) == "L"
    assert [stream.getvalue() for stream in streams.values()][1:] == ["Which one?\n? ", ""]
