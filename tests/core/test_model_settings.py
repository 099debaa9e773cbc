"""Settings of models: three states of each parameter, merging, checks, files."""

from __future__ import annotations

from typing import Any

import pytest
from returns.result import Failure, Success

from reactive_agents import FallbackModel, ModelSettings, read_config
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.model_settings import NO_SETTINGS, UNSET
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tools import ToolDefinition

WRONG: list[tuple[str, Any, str]] = [
    ("temperature", "warm", "a number from 0 to 2"),
    ("temperature", 2.1, "a number from 0 to 2"),
    ("temperature", float("nan"), "a number from 0 to 2"),
    ("temperature", True, "a number from 0 to 2"),
    ("top_p", 0, "above 0 and up to 1"),
    ("max_tokens", 0, "1 or more"),
    ("max_tokens", 1.5, "a whole number"),
    ("seed", "7", "a whole number"),
    ("stop", ["END", 7], "texts"),
    ("stop", "", "texts"),
    ("reasoning_effort", "a lot", "one of none, minimal, low"),
    ("thinking_budget", -1, "0 or more"),
    ("parallel_tool_calls", "no", "True, False or None"),
    ("tool_choice", "", "auto, required, none, the name of a tool"),
    ("tool_choice", ["find"], "auto, required, none, the name of a tool"),
    ("tool_choice", "omit", "the name of a tool other than omit"),  # in files it stands for None
    ("extra_body", {"x": object()}, "JSON data"),
    ("extra_body", {"messages": []}, "not messages, model, stream, tools"),
    ("extra_body", {"model": "another"}, "not messages, model"),
    ("extra_body", {"tier": "priority", "stream": False}, "not messages, model, stream"),
    ("extra_body", {"tools": []}, "not messages, model, stream, tools"),
    ("headers", {"x": "a\r\nb: c"}, "texts without line breaks"),
]


@pytest.mark.parametrize(("name", "value", "expected"), WRONG)
def test_a_wrong_value_is_refused_by_its_name(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        ModelSettings(**{name: value})
    assert str(caught.value).startswith(f"{name}: got ")
    assert expected in str(caught.value)


def test_values_that_may_be_secret_are_not_shown() -> None:
    settings = ModelSettings(
        temperature=None,
        headers={"Authorization": "Bearer hush-hush-1", "x-team": "blue"},
        extra_body={"account": {"api_key": "hush-hush-2"}, "tier": "priority"},
    )
    assert repr(settings) == (
        "ModelSettings(temperature=None, extra_body=<account, tier>, headers=<Authorization, x-team>)"
    )
    assert settings.secrets == ("Bearer hush-hush-1", "hush-hush-1", "hush-hush-2")
    with pytest.raises(ValueError, match="may be secret") as caught:
        ModelSettings(headers={"Authorization": "hush-hush-1\n"})
    assert "hush" not in str(caught.value)


def test_settings_of_a_run_complete_those_of_the_agent() -> None:
    agent = ModelSettings(temperature=0.2, seed=7, headers={"a": "1", "b": "2"}, extra_body={"x": 1})
    run = ModelSettings(temperature=None, headers={"b": "3"})
    merged = run.over(agent)
    assert merged == ModelSettings(
        temperature=None, seed=7, headers={"a": "1", "b": "3"}, extra_body={"x": 1}
    )
    assert NO_SETTINGS.over(agent) is agent
    assert agent.over(NO_SETTINGS) is agent


def test_none_sends_none_and_unset_leaves_what_was_there() -> None:
    tool = ToolDefinition("add", "Adds.", {"type": "object"})
    own = ModelRequest(
        (UserMessage("Hi"),), (tool,), temperature=0.0, max_tokens=1500, parallel_tool_calls=True
    )
    assert own.under(NO_SETTINGS) is own
    changed = own.under(ModelSettings(temperature=None, max_tokens=None, parallel_tool_calls=None))
    assert (changed.temperature, changed.max_tokens, changed.parallel_tool_calls) == (None, None, None)
    kept = own.under(ModelSettings(top_p=0.5))
    assert (kept.temperature, kept.max_tokens, kept.parallel_tool_calls) == (0.0, 1500, True)
    without_tools = ModelRequest((UserMessage("Hi"),)).under(ModelSettings(parallel_tool_calls=False))
    assert without_tools.parallel_tool_calls is None


@pytest.mark.parametrize(
    "settings",
    [
        NO_SETTINGS,
        ModelSettings(temperature=None, max_tokens=7, stop="END", reasoning_effort="low", tool_choice="find"),
        ModelSettings(temperature=1, seed=None, stop=["a", "b"], extra_body={"x": {"y": [1, None]}}),
    ],
)
def test_settings_are_read_as_they_were_written(settings: ModelSettings) -> None:
    assert decode(encode(settings), ModelSettings) == Success(settings)


def test_a_file_says_none_as_omit() -> None:
    config = read_config({"model_settings": {"temperature": "omit", "stop": ["END"]}}).unwrap()
    assert config.model_settings == ModelSettings(temperature=None, stop=("END",))
    assert config.model_settings.top_p is UNSET
    assert 'temperature = "omit"' in config.to_toml()
    match read_config({"model_settings": {"temperature": "warm", "headers": {"x-key": 7}, "topp": 1}}):
        case Failure(DecodeError(problems=problems)):
            found = {each.path: each.problem for each in problems}
        case other:
            raise AssertionError(other)
    assert found["$.model_settings.temperature"] == "got 'warm', expected a finite number"
    assert "may be secret" in found["$.model_settings.headers"]
    assert "unknown field" in found["$.model_settings.topp"]


def test_a_fallback_has_no_choice_of_a_tool_of_its_own() -> None:
    assert FallbackModel("openai/m", settings=ModelSettings(tool_choice=None)).settings.tool_choice is None
    with pytest.raises(ValueError, match=r"settings\.tool_choice: got 'find', expected None"):
        FallbackModel("openai/m", settings=ModelSettings(tool_choice="find"))
    wrong = decode({"model": "openai/m", "settings": {"tool_choice": "none"}}, FallbackModel)
    assert "settings.tool_choice: got 'none', expected None" in wrong.failure().message
