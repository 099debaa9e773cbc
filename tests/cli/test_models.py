"""``reactive-agents models``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from reactive_agents.adapters.llm.providers import PROVIDERS
from reactive_agents.cli.output import printable
from tests.support.command_line import Terminal, command
from tests.support.model_server import Habits, ModelWithHabits


def test_it_says_which_providers_are_configured_and_what_the_others_lack() -> None:
    shown = command("models", OPENAI_API_KEY="sk-test")
    assert (shown.exit_code, shown.stderr) == (0, "")
    rows = {line.split("\t")[0]: line.split("\t") for line in shown.stdout.splitlines()}
    assert rows["offline"] == ["offline", "ready", "offline/quotes", "Needs no key and no network."]
    assert rows["openai"][1] == "ready"
    assert rows["anthropic"][1] == "set ANTHROPIC_API_KEY"
    assert "sk-test" not in shown.stdout


def test_json_is_one_document() -> None:
    providers = json.loads(command("models", "--json").stdout)
    openai = next(each for each in providers if each["provider"] == "openai")
    assert (openai["ready"], openai["missing"]) == (False, ["OPENAI_API_KEY"])


def test_on_a_terminal_no_name_is_broken_and_no_line_is_longer_than_80_columns() -> None:
    shown = command("models", stdout=Terminal()).stdout
    assert "\x1b[" in shown
    lines = printable(shown).splitlines()
    words = {word for line in lines for word in line.split()}
    for provider in PROVIDERS:
        assert provider.name in words
        assert provider.default_model is None or provider.default_model in words
        assert {group[0] for group in provider.variables} <= words
    assert max(map(len, lines)) <= 80


SHORT = ("--longest-prompt", 2_048)


def test_a_probe_is_a_table_and_is_kept_in_the_state_directory(tmp_path: Path) -> None:
    with ModelWithHabits(evolve(Habits(), numbers="text")) as server:
        shown = command(
            "models",
            "probe",
            "openai/small",
            "--base-url",
            server.base_url,
            *SHORT,
            XDG_STATE_HOME=str(tmp_path),
        )
    assert (shown.exit_code, shown.stderr) == (0, "")
    rows = {line.split("\t")[0]: line.split("\t") for line in shown.stdout.splitlines()}
    assert rows["tool calls"][1] == "yes"
    assert rows["numbers"][1:] == ["no", 'It gave "[\\"20\\", 4, \\"6.5\\"]" for numbers.']
    assert rows["context tier"][1] == "mid"
    assert rows["cost"][2].startswith("9 answers")
    assert (tmp_path / "reactive-agents" / "models.db").is_file()


def test_a_probe_as_json_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    with ModelWithHabits(evolve(Habits(), refuses=frozenset({"temperature"}))) as server:
        options = ("--base-url", server.base_url, "--path", path, *SHORT, "--json")
        document = json.loads(command("models", "probe", "openai/small", *options).stdout)
    assert document["settings"]["omitted_parameters"] == ["temperature"]
    assert document["settings"]["call_format"] == "native"
    assert document["usage"]["calls"] == 8
    assert document["problem"] == ""


@pytest.mark.usefixtures("without_backoff")
def test_a_probe_of_a_server_that_is_down_fails_and_a_partial_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "models.db"
    with ModelWithHabits(evolve(Habits(), failing=frozenset(range(5, 10)))) as server:
        options = ("--base-url", server.base_url, "--path", path, *SHORT)
        partial = command("models", "probe", "openai/small", *options)
    assert partial.exit_code == 3
    assert "not known" in partial.stdout
    down = command("models", "probe", "openai/small", *options)
    assert down.exit_code == 1
    assert "answer\tyes\tFound on 2" in down.stdout
    unknown = command("models", "probe", "openai/other", *options)
    assert unknown.exit_code == 1
    assert (
        unknown.stdout.count("not known\tCould not connect") + unknown.stdout.count("cannot be reached") == 13
    )


def test_a_file_that_cannot_be_written_fails_after_the_table(tmp_path: Path) -> None:
    with ModelWithHabits() as server:
        shown = command(
            "models", "probe", "openai/small", "--base-url", server.base_url, "--path", tmp_path, *SHORT
        )
    assert shown.exit_code == 1
    assert "tool calls\tyes" in shown.stdout
    assert "cannot be" in shown.stderr
