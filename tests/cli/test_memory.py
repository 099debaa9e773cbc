"""``reactive-agents memory`` on a real file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.store import add, save_session
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.codec import decode
from reactive_agents.core.memory import MemoryEntry, SessionSnapshot
from reactive_agents.testing import ScriptedLLM, forever, say
from tests.support.command_line import Completed, Terminal, command, parsed_command
from tests.support.memories import AGENT, OTHER, a_session, an_entry

Run = Callable[..., Completed]

NOW = SystemClock().now()
ENTRIES = (
    an_entry("m1", "The office keys are in the blue drawer.", at=NOW),
    an_entry(
        "m2", "The office was \x1b[31mpainted\x1b[0m [red].", kind="episodic", at=NOW - timedelta(days=2)
    ),
    an_entry("m3", "The office of another agent.", agent=OTHER, at=NOW - timedelta(days=20)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"

    async def fill() -> None:
        database = open_memory_store(path)
        for entry in ENTRIES:
            (await database.write("add", lambda connection, entry=entry: add(connection, entry))).unwrap()
        for session in (a_session("s1", at=NOW), a_session("s2", agent=OTHER, at=NOW)):
            await database.write("add", lambda each, session=session: save_session(each, session, keep=9))
        await database.aclose()

    anyio.run(fill)
    return path


@pytest.fixture
def run(path: Path) -> Run:
    def run(*arguments: str, file: Path = path, **streams: Any) -> Completed:
        return command("memory", *arguments, "--path", file, **streams)

    return run


def ids(result: Completed) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [line.split("\t")[0] for line in result.stdout.splitlines()]


def test_search_finds_by_words_agent_and_kind(run: Run) -> None:
    assert set(ids(run("search", "office"))) == {"m1", "m2", "m3"}
    assert ids(run("search", "office keys")) == ["m1"]
    assert ids(run("search", "office", "--agent", OTHER)) == ["m3"]
    assert ids(run("search", "office", "--kind", "episodic")) == ["m2"]
    assert len(ids(run("search", "office", "--limit", "1"))) == 1
    assert ids(run("search", "nothing")) == []


def test_show_lists_what_was_seen_last_first_and_steers_no_terminal(run: Run) -> None:
    listed = run("show")
    assert ids(listed) == ["m1", "m2", "m3"]
    assert "\x1b" not in listed.stdout
    seen = f"{NOW - timedelta(days=2):%Y-%m-%d}"
    said = "The office was [31mpainted[0m [red]."
    assert listed.stdout.splitlines()[1].split("\t") == ["m2", "agent-1", "episodic", "model", seen, said]


def test_show_gives_one_entry_in_full(run: Run) -> None:
    shown = run("show", "m1")
    assert "content: The office keys are in the blue drawer." in shown.stdout.splitlines()
    assert decode(json.loads(run("show", "m1", "--json").stdout), MemoryEntry).unwrap() == ENTRIES[0]
    missing = run("show", "m9")
    assert (missing.exit_code, "There is no memory entry 'm9'" in missing.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [("search", "office"), ("show",)])
def test_json_is_one_document(run: Run, arguments: tuple[str, ...]) -> None:
    found = json.loads(run(*arguments, "--json").stdout)
    assert {each["id"] for each in found} == {"m1", "m2", "m3"}


def test_export_is_one_document_a_line_that_can_be_read_back(run: Run) -> None:
    lines = [json.loads(line) for line in run("export").stdout.splitlines()]
    read = [decode(line, MemoryEntry | SessionSnapshot).unwrap() for line in lines]
    assert {each.id for each in read} == {"m1", "m2", "m3", "s1", "s2"}
    assert read[0] == ENTRIES[0]
    of_agent = [json.loads(line)["id"] for line in run("export", "--agent", AGENT).stdout.splitlines()]
    assert of_agent == ["m1", "m2", "s1"]
    of_kind = [json.loads(line)["id"] for line in run("export", "--kind", "episodic").stdout.splitlines()]
    assert of_kind == ["m2"]


def test_what_is_stored_of_a_user_is_exported_alone(tmp_path: Path, run: Run) -> None:
    agent = (
        ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("I see.")))).with_memory(tmp_path / "m.db")
    )
    for user in ("ada", "eve"):
        agent.build().run_sync(f"Remember that my name is {user}.", user=user)
    exported = run("export", "--user", "ada", file=tmp_path / "m.db").stdout
    read = [
        decode(json.loads(line), MemoryEntry | SessionSnapshot).unwrap() for line in exported.splitlines()
    ]
    assert {type(each) for each in read} == {MemoryEntry, SessionSnapshot}
    assert {each.owner for each in read} == {"user:ada"}
    assert ("my name is ada" in exported, "eve" in exported) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "forgotten", "left"),
    [
        (("m1",), 1, ["m2", "m3"]),
        (("m1", "m3"), 2, ["m2"]),
        (("--agent", str(AGENT)), 3, ["m3"]),
        (("--older-than", "10"), 1, ["m1", "m2"]),
        (("--older-than", "1", "--agent", str(AGENT)), 1, ["m1", "m3"]),
    ],
)
def test_forget_by_id_agent_and_age(
    run: Run, arguments: tuple[str, ...], forgotten: int, left: list[str]
) -> None:
    refused = run("forget", *arguments)
    assert (refused.exit_code, "pass --yes" in refused.stderr) == (2, True)
    told = run("forget", *arguments, "--json")
    assert (told.exit_code, "pass --yes" in json.loads(told.stdout)["error"]["message"]) == (2, True)
    assert len(ids(run("show"))) == 3
    done = run("forget", *arguments, "--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"forgotten": forgotten})
    assert ids(run("show")) == left


@pytest.mark.parametrize(("typed", "left"), [("y\n", 2), ("n\n", 3), ("\n", 3)])
def test_the_person_at_the_terminal_is_asked(run: Run, path: Path, typed: str, left: int) -> None:
    done = run("forget", "m1", stdin=Terminal(typed))
    assert f"Forget 1 entry in {str(path)!r}? [y/N]" in done.stderr
    assert (done.exit_code, done.stdout) == ((0, "1 forgotten.\n") if left == 2 else (1, ""))
    assert len(ids(run("show"))) == left


def test_an_id_that_is_not_there_is_reported(run: Run) -> None:
    done = run("forget", "m1", "m9", "--yes")
    assert (done.exit_code, done.stdout) == (1, "1 forgotten.\n")
    assert "1 of the ids are not in" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("forget", "--yes"),
        ("forget", "m1", "--agent", "a", "--yes"),
        ("forget", "--older-than", "old", "--yes"),
        ("forget", "--older-than", "-1", "--yes"),
        ("search", "office", "--kind", "working"),
        ("search", "office", "--limit", "0"),
    ],
)
def test_options_that_make_no_sense_are_bad_usage(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2
    assert len(ids(run("show"))) == 3


@pytest.mark.parametrize("arguments", [("search", "x"), ("show",), ("forget", "m1", "--yes"), ("export",)])
def test_a_missing_or_broken_file_is_one_sentence(
    run: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    missing = run(*arguments, file=tmp_path / "none.db")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == (
        f"error: --path: got {str(tmp_path / 'none.db')!r}, expected a memory file that exists.\n"
    )
    assert not (tmp_path / "none.db").exists()
    broken = tmp_path / "broken.db"
    broken.write_text("this is no database " * 100)
    spoiled = run(*arguments, file=broken)
    assert (spoiled.exit_code, spoiled.stdout) == (1, "")
    assert spoiled.stderr == f"error: The memory file {str(broken)!r} is not a database.\n"
    empty = tmp_path / "empty.db"
    empty.touch()
    refused = run(*arguments, file=empty)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == f"error: The memory file {str(empty)!r} cannot be used: it is empty.\n"
    assert empty.stat().st_size == 0
    if "export" not in arguments:
        document = json.loads(run(*arguments, "--json", file=broken).stdout)
        assert document["error"]["tag"] == "MemoryUnavailable"


def test_no_memory_is_added_to_another_file(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    ReactiveAgents.create().with_model("offline").with_run_log(log).build().run_sync("Hello.")
    before = log.read_bytes()
    done = run("forget", "some-id", "--yes", file=log)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "expected a memory file that exists" in done.stderr
    assert log.read_bytes() == before


def test_a_terminal_gets_a_table(run: Run) -> None:
    shown = run("show", stdout=Terminal(), COLUMNS="120", TERM="xterm")
    text = shown.stdout
    assert shown.exit_code == 0
    assert re.search(r"id +agent +kind +from +seen +content", re.sub(r"\x1b\[[0-9;]*m", "", text))
    assert "[red]" in text
    assert "\x1b[31mpainted" not in text


@pytest.mark.parametrize("name", ["search", "show", "forget", "export"])
def test_every_option_is_documented(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "memory.md").read_text(encoding="utf-8")
    options = {
        option
        for parameter in parsed_command(f"memory {name}").params
        for option in parameter.opts
        if option.startswith("-")
    }
    assert "--path" in options
    assert {option for option in options if f"`{option}`" not in page} == set()
