"""Compaction from the builder to the answer: each method, each override, the account, the earlier names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import DecodeError, InvalidConfig, ModelUnavailable
from reactive_agents.core.events import ContextCompacted, ModelCallCompleted
from reactive_agents.core.models import Usage
from reactive_agents.core.tasks import TaskResult
from reactive_agents.kernel import CompactionMaterial
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, fail, say

ASKED = "Summarize the earlier turns"
BILL: dict[str, Any] = {"usage": Usage(100, 20, 120), "cost_usd": 0.5}


def page(at: int) -> str:
    """A page of 900 characters."""
    return f"Page {at} says: " + f"word{at} " * 130


def in_capitals(material: CompactionMaterial) -> str:
    """A function that can be named."""
    return f"{len(material.dropped)} MESSAGES"


async def in_small_letters(material: CompactionMaterial) -> str:
    """Another one."""
    return f"{len(material.dropped)} messages"


NOT_A_FUNCTION = 7


class Run:
    """One run with what it asked and told."""

    def __init__(self, builder: ReactiveAgents, *turns: Turn, pages: int = 3) -> None:
        script = [call("page", at=at) for at in range(pages)]
        self.model = ScriptedLLM(*turns, *script, answer("Read."), say("Read."))
        self.recorder = EventRecorder()
        small = builder.with_context_profile(window_tokens=8_000, tool_result_chars=1_000)
        agent = small.with_llm(self.model).with_tools(page).with_max_iterations(50).build()
        agent.subscribe(self.recorder)
        self.result: TaskResult = agent.run_sync("Read the pages.")
        self.told = self.recorder.of(ContextCompacted)

    @property
    def notes(self) -> str:
        """The summary of earlier turns in the last request; empty when there is none."""
        found = [
            each.content for each in self.model.requests[-1].messages if "<earlier-turns>" in each.content
        ]
        return found[0] if found else ""

    @property
    def asked(self) -> list[Any]:
        """The requests to summarize earlier turns."""
        return [each for each in self.model.requests if each.purpose == "synthesize-context"]


def reasoning(**options: Any) -> ReactiveAgents:
    """An agent with these options of reasoning."""
    return ReactiveAgents.create().with_reasoning(**options)


def compacting(method: str, **options: Any) -> ReactiveAgents:
    """An agent with these options of compaction."""
    return reasoning(compaction={"method": method, **options})


def summary(text: str = "- All pages are alike [page-1].", **how: Any) -> Turn:
    """The answer of a model that is asked for a summary."""
    return evolve(say(text, **how), when=ASKED)


# --- methods --------------------------------------------------------------------------------------------


def test_by_default_a_short_run_is_left_alone_and_a_long_one_summarized() -> None:
    assert Run(reasoning(), pages=3).told == []
    long = Run(reasoning(), pages=5)
    assert [event.method for event in long.told] == ["template"]
    assert long.result.output == "Read."
    assert '- [page-1] page {"at": 0} gave: Page 0 says: word0' in long.notes
    assert len(long.result.tool_results) == 5


def test_templates() -> None:
    run = Run(compacting("template"))
    assert [(event.method, event.configured, event.iteration) for event in run.told] == [
        ("template", "template", 3)
    ]
    assert run.asked == []


def test_a_model_is_asked_once_and_on_the_account() -> None:
    run = Run(compacting("model", model="cheap/one", temperature=0.3), summary(**BILL))
    assert [(event.method, event.problem) for event in run.told] == [("model", "")]
    (asked,) = run.asked
    assert (asked.model, asked.temperature) == ("cheap/one", 0.3)
    assert "- All pages are alike [page-1].\n" in run.notes
    assert run.result.metadata.tokens_used == 4 * 15 + 120
    assert run.result.metadata.cost_usd == 0.5
    purposes = [event.purpose for event in run.recorder.of(ModelCallCompleted)]
    assert purposes.count("synthesize-context") == 1


def test_templates_stand_in_for_a_model() -> None:
    run = Run(compacting("model"), evolve(fail(ModelUnavailable("It is down.", "m")), when=ASKED))
    (event,) = run.told
    assert (event.method, event.configured, event.problem) == ("template", "model", "It is down.")
    assert run.result.status == "completed"


@pytest.mark.parametrize(
    ("function", "said"), [(in_capitals, "4 MESSAGES"), (in_small_letters, "4 messages")]
)
def test_custom_by_a_function_or_by_its_name(function: Any, said: str) -> None:
    given = Run(compacting("custom").with_compaction_function(function))
    named = Run(compacting("custom", function=f"{__name__}:{function.__name__}"))
    for run in (given, named):
        assert [(event.method, event.problem) for event in run.told] == [("custom", "")]
        assert f"\n- {said}\n" in run.notes


def test_templates_stand_in_for_a_function() -> None:
    def broken(material: CompactionMaterial) -> str:
        raise LookupError("it blew up")

    run = Run(compacting("custom").with_compaction_function(broken))
    (event,) = run.told
    assert (event.method, event.problem) == ("template", "LookupError: it blew up")


def test_drop_and_the_loop_without_reasoning_summarize_nothing() -> None:
    direct = compacting("template").with_reasoning("direct", compaction={"method": "template"})
    for builder in (compacting("drop"), ReactiveAgents.create(), direct):
        assert {event.method for event in Run(builder, pages=8).told} <= {"drop"}


# --- overrides ------------------------------------------------------------------------------------------


def own(**options: Any) -> dict[str, Any]:
    """Options of the reactive strategy."""
    return {"reactive": options}


def test_the_strategy_may_have_a_method_of_its_own() -> None:
    dropped = reasoning(compaction={"method": "template"}, strategies=own(compaction={"method": "drop"}))
    assert {event.method for event in Run(dropped, pages=8).told} <= {"drop"}
    asked = reasoning(compaction={"method": "drop"}, strategies=own(compaction={"method": "model"}))
    assert [event.configured for event in Run(asked, summary()).told] == ["model"]
    others = {"reflexion": {"compaction": {"method": "drop"}}}
    run = Run(reasoning(compaction={"method": "template"}, strategies=others))
    assert [event.configured for event in run.told] == ["template"]


# --- the earlier names of the options -------------------------------------------------------------------


def test_earlier_modes_are_read() -> None:
    for mode, method in (("fast", "template"), ("deep", "model")):
        assert [event.method for event in Run(reasoning(synthesis=mode), summary()).told] == [method]
    builder = reasoning(synthesis="fast", strategies=own(synthesis="off"))
    assert {event.method for event in Run(builder, pages=8).told} <= {"drop"}
    others = {"reflexion": {"synthesis": "off"}, "plan_execute": {"synthesis": "deep"}}
    run = Run(reasoning(synthesis="fast", strategies=others))
    assert [event.configured for event in run.told] == ["template"]


@pytest.mark.parametrize(
    ("top", "strategy", "expected"),
    [
        ({"synthesis_model": "a/b"}, {}, ("a/b", 0.0)),
        ({"synthesis_model": "a/b"}, {"synthesis_model": "c/d"}, ("c/d", 0.0)),
        ({"synthesis_model": "b", "synthesis_provider": "groq"}, {}, ("groq/b", 0.0)),
        (
            {"synthesis_model": "b", "synthesis_provider": "groq"},
            {"synthesis_provider": "openai"},
            ("openai/b", 0.0),
        ),
        ({"synthesis_temperature": 1.0}, {}, (None, 1.0)),
        ({"synthesis_temperature": 1.0}, {"synthesis_temperature": 0.0}, (None, 0.0)),
    ],
)
def test_the_strategy_may_have_a_model_and_temperature_of_its_own(
    top: dict[str, Any], strategy: dict[str, Any], expected: tuple[str | None, float]
) -> None:
    (asked,) = Run(reasoning(synthesis="deep", **top, strategies=own(**strategy)), summary()).asked
    assert (asked.model, asked.temperature) == expected


def test_a_provider_alone_means_its_default_model() -> None:
    (asked,) = Run(reasoning(synthesis="deep", synthesis_provider="groq"), summary()).asked
    assert asked.model.startswith("groq/")
    (asked,) = Run(reasoning(synthesis="deep", strategies=own(synthesis_provider="groq")), summary()).asked
    assert asked.model.startswith("groq/")


def test_the_strategy_may_have_a_function_of_its_own() -> None:
    small = own(synthesis_strategy=f"{__name__}:in_small_letters")
    top = reasoning(synthesis="custom", synthesis_strategy=f"{__name__}:in_capitals", strategies=small)
    assert "4 messages" in Run(top).notes
    given = reasoning(synthesis="custom", strategies=small).with_synthesis_strategy(in_capitals)
    assert "4 messages" in Run(given).notes


# --- what is wrong --------------------------------------------------------------------------------------


def problem_of(builder: ReactiveAgents) -> Any:
    """The problems of an agent's options."""
    with pytest.raises(AgentError) as raised:
        builder.with_llm(ScriptedLLM()).build()
    return raised.value.error


@pytest.mark.parametrize(
    ("builder", "option"),
    [
        (reasoning(synthesis="custom"), "reasoning.compaction.function"),
        (reasoning(strategies=own(synthesis="custom")), "reasoning.strategies.reactive.compaction.function"),
        (reasoning(synthesis_strategy="nowhere:none"), "reasoning.compaction.function"),
        (
            reasoning(strategies={"reflexion": {"synthesis_strategy": "nowhere:none"}}),
            "reasoning.strategies.reflexion.compaction.function",
        ),
        (reasoning(synthesis_strategy=f"{__name__}:NOT_A_FUNCTION"), "reasoning.compaction.function"),
        (reasoning(synthesis_provider="nobody"), "reasoning.compaction.provider"),
        (reasoning().with_compaction_function(in_capitals), "compaction_function"),
        (ReactiveAgents.create().with_compaction_function(in_capitals), "compaction_function"),
        (reasoning().with_compaction_function("a:b"), "compaction_function"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_named_when_the_agent_is_built(builder: ReactiveAgents, option: str) -> None:
    error = problem_of(builder)
    assert isinstance(error, InvalidConfig)
    assert error.option == option


def test_values_that_do_not_fit_are_named() -> None:
    for options, path in (
        ({"compaction": {"method": "slow"}}, "$.compaction.method"),
        ({"synthesis": "slow"}, "$.compaction.method"),
        ({"synthesis_temperature": 3.0}, "$.compaction.temperature"),
        ({"strategies": own(synthesis="slow")}, "$.strategies.reactive.compaction.method"),
    ):
        error = problem_of(reasoning(**options))
        assert isinstance(error, DecodeError)
        assert error.problems[0].path == path


def test_all_but_a_given_function_can_be_written_as_data(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "synthesis": "custom",
        "synthesis_strategy": f"{__name__}:in_capitals",
        "synthesis_model": "a/b",
        "synthesis_provider": "a",
        "strategies": own(synthesis="deep", synthesis_temperature=0.5),
    }
    builder = reasoning(**options).with_model("offline")
    for name in ("agent.toml", "agent.json"):
        builder.to_config().save(tmp_path / name)
        assert (
            ReactiveAgents.from_config(tmp_path / name, allow_tools_from=["tests"]).to_config()
            == builder.to_config()
        )
    with pytest.raises(AgentError, match="compaction_function"):
        builder.with_synthesis_strategy(in_capitals).to_config()


def test_streamed_runs_are_summarized_too() -> None:
    model = ScriptedLLM(summary(), *(call("page", at=at) for at in range(3)), answer("Read."))
    builder = compacting("model").with_llm(model).with_tools(page)
    agent = builder.with_context_profile(window_tokens=8_000, tool_result_chars=1_000).build()

    async def run() -> list[Any]:
        return [event async for event in agent.stream("Read the pages.")]

    events = anyio.run(run)
    assert [event.method for event in events if isinstance(event, ContextCompacted)] == ["model"]
