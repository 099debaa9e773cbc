"""Agents that are built in Python, on the command line: ``reactive-agents run app:agent``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Completed, Terminal, command

APP = """
from contextlib import contextmanager
from pathlib import Path
from reactive_agents import Personas, ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, answer, call, forever

with open("imported", "a") as file:
    file.write("once ")

def left(ctx: RunContext[str], item: str) -> str:
    "Say how many of an item are left."
    return f"4 {item} at {ctx.deps}"

@contextmanager
def shop_of(ctx: RunContext[None]):
    yield f"the shop of {ctx.user}"

@tool(requires_approval=True)
def delete(ctx: RunContext[str]) -> str:
    "Delete all."
    return f"deleted {ctx.deps}"

model = ScriptedLLM(forever(answer("Four.", when="4 tea at")), forever(call("left", item="tea")))
builder = ReactiveAgents.create(deps=str).with_name("clerk").with_llm(model).with_reasoning()
needy = builder.with_tools(left).build()
builder = builder.with_tools(left).with_deps(shop_of)
agent = builder.build()

def make():
    return builder.with_name("made")

def make_late():
    return make

class Shop:
    agent = agent

def deleting():
    model = ScriptedLLM(call("delete"), answer("Done."))
    described = ReactiveAgents.create(deps=str).with_llm(model).with_reasoning().with_tools(delete)
    return described.with_approval().with_deps(shop_of).build()

def durable():
    return builder.with_durability("runs.db").with_run_log("runs.db").build()

async def later():
    return agent

def with_argument(name):
    return agent

def broken():
    raise LookupError("no shop")

def ending():
    raise SystemExit(0)

def unbuildable():
    return builder.with_tools("no-such-tool")

number = 7
persona = Personas.create("Mira").with_llm(model)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "failing.py").write_text("import json\n\nimport no_such_module\n")
    (tmp_path / "raising.py").write_text("def f():\n    return {}['key']\n\n\nf()\n")
    (tmp_path / "written.py").write_text("agent = = 3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(folder: Path, *arguments: object, **options: object) -> Completed:
    return command(*arguments, modules=folder, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["app:agent", "app:builder", "app:make", "app:Shop.agent"])
def test_an_agent_of_a_module_runs_a_task(folder: Path, name: str) -> None:
    done = ran(folder, "run", name, "How much tea is left?", "--user", "ada", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "Four.\n", "")
    told = ran(folder, "run", "How much tea is left?", "--config", name, "--user", "ada", "--json")
    assert json.loads(told.stdout)["tool_results"] == {"left-1": "4 tea at the shop of ada"}
    asked = ran(folder, "run", name, "-", "--quiet", stdin="How much tea is left?")
    assert (asked.exit_code, asked.stdout) == (0, "Four.\n")
    assert (folder / "imported").read_text() == "once " * 3


def test_a_configuration_may_stand_before_the_task(folder: Path) -> None:
    (folder / "sums.toml").write_text('name = "sums"\ntools = ["calculator"]\n[model]\nmodel = "offline"\n')
    done = ran(folder, "run", "sums.toml", "What is 17 * 23?", "--json")
    assert json.loads(done.stdout)["agent_id"] == "sums"
    for words in (("a.toml", "Do", "it."), ("sums.toml", "Do it.", "--config", "sums.toml")):
        wrong = ran(folder, "run", *words)
        assert (wrong.exit_code, "expected one task, in quotation marks" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing:agent", "No module named 'missing'"),
        ("app:missing", "module 'app' has no attribute 'missing'"),
        ("failing:agent", "raised ModuleNotFoundError: No module named 'no_such_module' in "),
        ("failing:agent", "failing.py, line 3"),
        ("raising:agent", "raised KeyError: 'key' in "),
        ("raising:agent", "raising.py, line 2"),
        ("written:agent", "raised SyntaxError: invalid syntax (written.py, line 1)"),
        ("app:number", "got an int by 'app:number', expected ReactiveAgent, ReactiveAgents, or a function"),
        ("app:persona", "got a Personas by 'app:persona', expected ReactiveAgent"),
        ("app:make_late", "got a function by 'app:make_late'"),
        ("app:Shop", "got a type by 'app:Shop'"),
        ("app:later", "got an async function by 'app:later', expected a plain one"),
        ("app:with_argument", "one without arguments (missing a required argument: 'name')"),
        ("app:broken", "it raised LookupError: no shop in "),
        ("app:ending", "it raised SystemExit: 0 in "),
        ("app:unbuildable", "tools: got 'no-such-tool'"),
        ("app:needy", "got 'app:needy', expected an agent whose builder has with_deps(function)"),
    ],
)
@pytest.mark.parametrize(
    "use", [("run", "{}", "Do it."), ("serve", "{}"), ("worker", "{}")], ids=lambda use: use[0]
)
def test_what_is_no_agent_is_explained(folder: Path, name: str, says: str, use: tuple[str, ...]) -> None:
    done = ran(folder, *(each.format(name) for each in use))
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    told = ran(folder, *(each.format(name) for each in use), "--json")
    assert says in json.loads(told.stdout)["error"]["message"]


def test_a_file_of_the_same_name_is_no_guess(folder: Path) -> None:
    (folder / "app:agent").write_text("")
    done = ran(folder, "run", "app:agent", "Do it.")
    assert (done.exit_code, "there is also a file of this name" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "app:agent", "Do it.", "--model", "offline"),
        ("run", "app:agent", "Do it.", "--tools", "calculator"),
        ("run", "app:agent", "Do it.", "--runs", "runs.db"),
        ("run", "app:agent", "Do it.", "--sessions", "sessions.db"),
        ("run", "app:agent", "Do it.", "--max-iterations", "3"),
        ("run", "app:agent", "Do it.", "--mcp", "server"),
        ("serve", "app:agent", "--runs", "runs.db"),
        ("serve", "app:agent", "--allow-tools-from", "app"),
        ("mcp", "app:agent", "--runs", "runs.db"),
        ("worker", "app:agent", "--runs", "runs.db"),
        ("worker", "app:agent", "--engine", "dbos"),
        ("chat", "--config", "app:agent", "--strategy", "direct"),
        ("runs", "resume", "r1", "--config", "app:agent", "--runs", "runs.db"),
        ("persona", "send", "app:persona", "Hello", "--allow-tools-from", "app"),
    ],
)
def test_options_of_files_are_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    done = ran(folder, *arguments)
    option = next(each for each in arguments if each.startswith("--") and each != "--config")
    assert done.exit_code == 2
    assert f"{option}: got" in done.stderr
    assert "since it applies to files only" in done.stderr


def test_the_person_at_the_terminal_is_asked(folder: Path) -> None:
    done = ran(folder, "run", "app:deleting", "Delete all.", "--user", "ada", stdin=Terminal("y\n"))
    assert (done.exit_code, done.stdout) == (0, "Done.\n")
    assert "Run delete" in done.stderr
    kept = ran(folder, "run", "app:agent", "How much tea?", "--session", "s", "--quiet")
    assert (
        kept.stderr == "The conversation ends with this command: with_sessions(path) of the agent keeps it.\n"
    )
    chat = ran(folder, "chat", "--config", "app:agent", "--quiet", stdin="How much tea?\n/quit\n")
    assert (chat.exit_code, chat.stdout) == (0, "Four.\n")


def test_recorded_runs_go_on_with_the_dependencies_of_their_users(folder: Path) -> None:
    asked = ("How much tea is left?", "--user", "ada", "--run-id", "r1")
    assert ran(folder, "run", "app:durable", *asked, "--quiet").stdout == "Four.\n"
    again = ran(folder, "runs", "resume", "r1", "--config", "app:durable")
    assert (again.exit_code, again.stdout) == (0, "Four.\n")
    replayed = ran(folder, "runs", "replay", "r1", "--config", "app:durable")
    assert (replayed.exit_code, replayed.stdout) == (0, "The replay is equal.\n")
    forked = ran(folder, "runs", "fork", "r1", "--at", "2", "--run-id", "r2", "--config", "app:durable")
    assert (forked.exit_code, forked.stdout) == (0, "r2\n")
    assert ran(folder, "runs", "resume", "r2", "--config", "app:durable").stdout == "Four.\n"
    made = ran(folder, "runs", "schedule", "nightly", "* * * * * *", "How much?", "--config", "app:durable")
    assert (made.exit_code, made.stdout) == (0, "Scheduled nightly.\n")
    gone = ran(folder, "runs", "unschedule", "nightly", "--config", "app:durable")
    assert (gone.exit_code, gone.stdout) == (0, "Deleted the schedule nightly.\n")
    worked = ran(folder, "worker", "app:durable", "--until-idle", "--json")
    assert json.loads(worked.stdout) == {"queue": "default", "ended": {}, "left": []}
    missing = ran(folder, "worker", "app:agent")
    assert (missing.exit_code, "with_durability" in missing.stderr) == (1, True)
    without = ran(folder, "worker", "clerk.toml")
    assert (without.exit_code, "--runs: got nothing" in without.stderr) == (2, True)


@pytest.mark.parametrize("name", ["app:agent", "app:make"])
def test_an_agent_of_a_module_is_evaluated(folder: Path, name: str) -> None:
    (folder / "cases.toml").write_text('[[cases]]\ntask = "How much tea?"\nexpected = "Four."\n')
    done = ran(folder, "evaluate", "cases.toml", "--config", name, "--repeats", "3", "--json")
    assert (done.exit_code, json.loads(done.stdout)["passed"]) == (0, 3)
    judged = ran(folder, "evaluate", "cases.toml", "--config", name, "--judge", "missing:agent")
    assert (judged.exit_code, "No module named 'missing'" in judged.stderr) == (2, True)
    durable = ran(folder, "evaluate", "cases.toml", "--config", "app:durable")
    assert (durable.exit_code, "expected an agent without durability" in durable.stderr) == (2, True)


def test_the_studio_needs_the_runs_of_its_agents_in_its_log(folder: Path) -> None:
    done = ran(folder, "studio", "app:agent", "--port", "0")
    assert (done.exit_code, "got 'clerk', expected an agent with_run_log(" in done.stderr) == (2, True)
    missing = ran(folder, "studio", "missing.toml")
    assert (missing.exit_code, "expected a file that exists, or module:name" in missing.stderr) == (2, True)


def test_the_records_of_a_persona_of_a_module_are_read(folder: Path) -> None:
    (folder / "rooms.py").write_text(
        "from reactive_agents import Personas\n"
        'persona = Personas.create("Mira").with_options(reasoning=False, model={"model": "offline"})\n'
        'persona = persona.with_memory("mira.db").with_domain("chat")\n'
    )
    sent = ran(folder, "persona", "send", "rooms:persona", "How much tea is left?", "--quiet")
    assert sent.exit_code == 0, sent.stderr
    listed = ran(folder, "persona", "inbox", "list", "--all", "--persona", "rooms:persona")
    (row,) = listed.stdout.splitlines()
    assert row.endswith("How much tea is left?")
    known = ran(folder, "explain", "--event", row.split("\t")[3], "--persona", "rooms:persona")
    assert "How much tea is left?" in known.stdout
