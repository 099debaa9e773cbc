"""``reactive-agents models``."""

from __future__ import annotations

import json

from tests.cli.test_run import command


def test_it_says_which_providers_are_set_up_and_what_the_others_lack() -> None:
    shown = command("models", OPENAI_API_KEY="sk-test", COLUMNS="200")
    assert shown.returncode == 0
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "ready" in lines["offline"]
    assert "ready" in lines["openai"]
    assert "set ANTHROPIC_API_KEY" in lines["anthropic"]
    assert "sk-test" not in shown.stdout


def test_json_is_one_document() -> None:
    providers = json.loads(command("models", "--json").stdout)
    openai = next(each for each in providers if each["provider"] == "openai")
    assert (openai["ready"], openai["missing"]) == (False, ["OPENAI_API_KEY"])
