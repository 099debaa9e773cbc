"""``reactive-agents models``."""

from __future__ import annotations

import json

from reactive_agents.adapters.llm.providers import PROVIDERS
from reactive_agents.cli.output import printable
from tests.support.command_line import Terminal, command


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
