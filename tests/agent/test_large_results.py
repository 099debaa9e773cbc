"""Large tool results from the builder to the answer: preview, recall, search, transform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reactive_agents import AgentConfig, AgentError, ReactiveAgents
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.core.messages import ToolMessage
from reactive_agents.testing import ScriptedLLM, answer, call, say

LOG = "\n".join(
    f"{n:04} ERROR disk 7 is full" if n == 777 else f"{n:04} INFO all is well on this day"
    for n in range(1_600)
)


def server_log() -> str:
    """The log of the server."""
    return LOG


def orders() -> dict[str, Any]:
    """All orders."""
    return {"orders": [{"id": n, "customer": f"customer {n % 7}", "note": "x" * 80} for n in range(400)]}


def shown(model: ScriptedLLM, index: int = -1) -> str:
    """The last tool message of a request."""
    message = model.requests[index].messages[-1]
    assert isinstance(message, ToolMessage)
    return message.content


def names(model: ScriptedLLM, index: int) -> list[str]:
    """The tools of a request."""
    return [tool.name for tool in model.requests[index].tools]


def test_the_model_sees_a_preview_reads_on_searches_and_answers() -> None:
    assert len(LOG) > 50_000
    model = ScriptedLLM(
        call("server_log"),
        call("recall", key="server_log-1", start=5_600, length=300),
        call("recall", key="server_log-1", search="error full"),
        call("final-answer", answer="Disk 7 is full."),
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(server_log).build()
    result = agent.run_sync("What is wrong?")

    assert (result.output, result.success) == ("Disk 7 is full.", True)
    assert result.tool_results == {"server_log-1": LOG}
    preview = shown(model, 1)
    assert len(preview) <= 8_000
    assert preview.startswith("0000 INFO")
    assert preview.endswith(LOG[-30:])
    assert f"of {len(LOG)} characters left out" in preview
    assert 'recall(key="server_log-1", start=' in preview
    assert shown(model, 2).startswith(LOG[5_600:5_900] + "\n[… characters 5600 to 5900 of ")
    assert shown(model, 3).startswith(f"line 778 (start={LOG.index('0777 ')}): 0777 ERROR disk 7 is full\n")
    assert [("recall" in names(model, index)) for index in range(4)] == [False, True, True, True]
    assert "server_log-1" in [step.metadata.result_key for step in result.steps if step.metadata]


def test_the_note_of_a_preview_leads_to_the_next_character() -> None:
    model = ScriptedLLM(call("server_log"), answer("read"))
    ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(server_log).build().run_sync("Look.")
    preview = shown(model)
    start = int(preview.split("start=")[1].split(")")[0])
    head = preview.split("[… ")[0]
    assert LOG[:start] == head

    again = ScriptedLLM(
        call("server_log"), call("recall", key="server_log-1", start=start, length=50), answer("read")
    )
    ReactiveAgents.create().with_llm(again).with_reasoning().with_tools(server_log).build().run_sync("Look.")
    assert shown(again).startswith(LOG[start : start + 50] + "\n")


def test_it_works_without_reasoning_too() -> None:
    model = ScriptedLLM(
        call("orders"), call("recall", key="orders-1", path="orders[399].customer"), say("Customer 0.")
    )
    result = ReactiveAgents.create().with_llm(model).with_tools(orders).build().run_sync("Who came last?")
    assert result.output == "Customer 0."
    assert shown(model, 2) == "customer 0"
    assert json.loads(result.tool_results["orders-1"]) == orders()
    assert '{"id": 0, "customer": "customer 0"' in shown(model, 1)
    assert "more of 400 items" in shown(model, 1)


# --- what the agent's description says of it ------------------------------------------------------------


def run_once(builder: ReactiveAgents, tool: Any = server_log, **model: Any) -> ScriptedLLM:
    """The model, after a run that called the tool once."""
    scripted = ScriptedLLM(call(getattr(tool, "__name__", str(tool))), answer("read"), **model)
    builder.with_llm(scripted).with_reasoning().with_tools(tool).build().run_sync("Look.")
    return scripted


def test_a_profile_bounds_what_is_shown() -> None:
    builder = ReactiveAgents.create()
    assert len(shown(run_once(builder.with_context_profile(tool_result_chars=400)))) <= 400
    assert 1_500 < len(shown(run_once(builder.with_context_profile("local")))) <= 2_000
    assert len(shown(run_once(builder.with_context_profile("frontier")))) > 25_000
    both = builder.with_context_profile("local", max_answer_tokens=77)
    assert run_once(both).requests[0].max_tokens == 77


def test_the_name_of_the_model_chooses_the_profile() -> None:
    builder = ReactiveAgents.create()
    assert len(shown(run_once(builder, model="ollama/qwen3"))) <= 2_000
    assert 8_000 < len(shown(run_once(builder, model="openai/gpt-4o"))) <= 16_000
    assert 16_000 < len(shown(run_once(builder, model="anthropic/claude-opus-4-5"))) <= 32_000


def test_a_transform_shows_a_part_and_the_full_result_can_be_recalled() -> None:
    model = ScriptedLLM(
        call("orders"), call("recall", key="orders-1", query="orders[?id > `397`].id"), answer("ok")
    )
    builder = ReactiveAgents.create().with_result_compression(transform={"orders": "orders[:3].customer"})
    result = builder.with_llm(model).with_reasoning().with_tools(orders).build().run_sync("Who?")
    assert shown(model, 1).startswith('["customer 0", "customer 1", "customer 2"]\n[… orders[:3].customer of')
    assert shown(model, 2) == "[398, 399]"
    assert json.loads(result.tool_results["orders-1"]) == orders()


def problem_of(builder: ReactiveAgents) -> Any:
    """The problems of an agent's options."""
    with pytest.raises(AgentError) as raised:
        builder.with_llm(ScriptedLLM()).build()
    return raised.value.error


def test_an_invalid_transform_is_named_when_the_agent_is_built() -> None:
    builder = ReactiveAgents.create().with_result_compression(transform={"orders": "orders[*"})
    error = problem_of(builder)
    assert isinstance(error, InvalidConfig)
    assert (error.option, error.value) == ("compression.transform.orders", "'orders[*'")
    assert "a JMESPath expression" in error.expected


def test_options_that_do_not_exist_or_do_not_fit_are_named() -> None:
    builder = ReactiveAgents.create()
    for wrong, path in (
        (builder.with_context_profile("huge"), "$.tier"),  # type: ignore[arg-type]
        (builder.with_context_profile(tool_result_chars=10), "$.tool_result_chars"),
        (builder.with_context_profile(chars=10), "$.chars"),
        (builder.with_result_compression(budget=1), "$.budget"),
        (builder.with_result_compression(transform={"a": 1}), "$.transform['a']"),
    ):
        error = problem_of(wrong)
        assert isinstance(error, DecodeError)
        assert error.problems[0].path == path


def test_later_calls_add_to_earlier_ones() -> None:
    builder = ReactiveAgents.create().with_context_profile("local", list_items=3)
    builder = builder.with_context_profile(search_hits=2).with_result_compression(budget=300)
    config = builder.with_result_compression(head_share=1.0, transform={"a": "b"}).config
    profile, compression = config.context_profile, config.compression
    assert (profile.tier, profile.list_items, profile.search_hits) == ("local", 3, 2)
    assert (compression.budget, compression.head_share, compression.transform) == (300, 1.0, {"a": "b"})


def test_all_of_it_can_be_written_as_data(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_model("offline").with_context_profile("large", list_items=3)
    config = builder.with_result_compression(transform={"file-search": "matches[*].path"}).to_config()
    for name in ("agent.toml", "agent.json"):
        config.save(tmp_path / name)
        assert ReactiveAgents.from_config(tmp_path / name).to_config() == config
    assert isinstance(config, AgentConfig)


def test_a_tool_cannot_be_named_recall() -> None:
    def recall(key: str) -> str:
        """Something else."""
        return key

    error = problem_of(ReactiveAgents.create().with_tools(recall))
    assert error == InvalidConfig("tools", "'recall'", "another name: the kernel has a tool of that name")


# --- the offline model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("characters", [2_000, 1_200])
def test_the_offline_model_quotes_from_previews(tmp_path: Path, characters: int) -> None:
    lines = [f"Paragraph {number} speaks of other matters, at some length." for number in range(2_000)]
    lines[30] = "The zebra of the museum is called Marvin."
    (tmp_path / "guide.md").write_text("\n".join(lines), encoding="utf-8")
    agent = (
        ReactiveAgents.create()
        .with_model("offline")
        .with_reasoning()
        .with_tools("file-search", "file-read")
        .with_workspace(tmp_path)
        .with_context_profile(tool_result_chars=characters)
        .build()
    )
    result = agent.run_sync("How is the zebra of the museum called?")
    assert result.success
    assert "“The zebra of the museum is called Marvin.” (guide.md:31)" in (result.output or "")
    read = next(step for step in result.steps if step.metadata and step.metadata.result_key == "file-read-2")
    assert len(read.content) <= characters
    assert "recall" in read.content
    assert "Paragraph 74 " in result.tool_results["file-read-2"]
    assert "Paragraph 74 " not in read.content
