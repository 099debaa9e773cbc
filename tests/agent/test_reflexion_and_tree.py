"""Reflexion and tree of thought from the builder to the result: tools, failures at any call, the account."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import root_cause
from reactive_agents.core.events import ContextCompacted, ModelCallCompleted
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tasks import TaskResult
from reactive_agents.reasoning.service import StrategyRegistry
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, say
from tests.support.models import DOWN, FailingAt, RuledLLM, Said

NAMES = ("reflexion", "tree-of-thought")
every_strategy = pytest.mark.parametrize("name", NAMES)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def broken(a: int, b: int) -> int:
    """Add two numbers."""
    raise RuntimeError("out of order")


broken.__name__ = "add"


def sensible(request: ModelRequest) -> Said:
    """A model that looks things up, is hard on a first answer, and finds everything promising."""
    prompt = request.messages[-1].content
    match request.purpose:
        case "critique":
            good = "Better" in prompt
            issues = [] if good else ["It could be better."]
            return json.dumps({"issues": issues, "score": 0.9 if good else 0.6, "satisfied": good})
        case "expand":
            return json.dumps({"thoughts": ["Add the numbers.", "Count on the fingers."]})
        case "score":
            scores = [{"candidate": n, "reason": "", "score": 0.5 + 0.2 * n} for n in (1, 2)]
            return json.dumps({"scores": scores})
    if request.tools and not any(isinstance(message, ToolMessage) for message in request.messages):
        return "add", {"a": 1, "b": 2}
    return "Better: 3" if any("could be better" in each.content for each in request.messages) else "3"


def builder(name: str, *, tools: tuple[Any, ...] = ()) -> ReactiveAgents:
    small = {"tree_of_thought": {"breadth": 2, "depth": 2}, "reflexion": {"max_retries": 2}}
    made = ReactiveAgents.create().with_reasoning(name, strategies=small)
    return made.with_tools(*tools) if tools else made


def test_both_are_registered() -> None:
    assert set(NAMES) <= set(StrategyRegistry().names())


@every_strategy
@pytest.mark.parametrize("tools", [(), (add,), (broken,)], ids=["no tools", "a tool", "a tool that fails"])
def test_a_run_completes_and_its_account_is_that_of_its_calls(name: str, tools: tuple[Any, ...]) -> None:
    model, recorder = RuledLLM(sensible), EventRecorder()
    agent = builder(name, tools=tools).with_llm(model).build()
    agent.subscribe(recorder)
    result = agent.run_sync("What is 1 + 2?")
    assert result.status == "completed", result.reason
    assert result.output == ("Better: 3" if name == "reflexion" else "3")
    figures = result.metadata
    assert figures.strategy_used == name
    assert figures.model_calls == len(model.requests) == len(recorder.of(ModelCallCompleted))
    assert figures.tokens_used == 15 * figures.model_calls
    assert figures.cost_usd == 0.25 * figures.model_calls
    assert figures.steps_count == len(result.steps)
    observations = [step for step in result.steps if step.type == "observation"]
    assert {step.metadata.success for step in observations if step.metadata} == (
        {tools[0] is add} if tools else set()
    )
    assert decode(encode(result, TaskResult), TaskResult).unwrap() == result


def test_the_tree_is_in_the_result() -> None:
    agent = builder("tree-of-thought").with_llm(RuledLLM(sensible)).build()
    tree = agent.run_sync("What is 1 + 2?").tree
    assert tree is not None
    assert tree.chosen == ("2", "2.1")
    assert [node.id for node in tree.nodes] == ["1", "2", "2.1", "1.1"], (
        "no thought repeats the one before it"
    )
    assert builder("reflexion").with_llm(RuledLLM(sensible)).build().run_sync("Say it.").tree is None


@every_strategy
@pytest.mark.parametrize("tools", [(), ("calculator",)], ids=["no tools", "a tool"])
def test_it_runs_with_the_offline_model(name: str, tools: tuple[str, ...]) -> None:
    result = builder(name, tools=tools).with_model("offline").build().run_sync("What is 17 * 23?")
    assert result.output is not None
    assert ("391" in result.output) is bool(tools)
    assert result.status == ("partial" if name == "reflexion" else "completed"), "it criticises everything"
    assert result.reason


def calls_of(name: str, tools: tuple[Any, ...]) -> int:
    model = RuledLLM(sensible)
    builder(name, tools=tools).with_llm(model).build().run_sync("What is 1 + 2?")
    return len(model.requests)


FAILURES = [
    pytest.param(name, tools, index, for_good, id=f"{name}-{len(tools)}-{index}-{for_good}")
    for name in NAMES
    for tools in ((), (add,))
    for index in range(calls_of(name, tools))
    for for_good in (False, True)
]


@pytest.mark.parametrize(("name", "tools", "index", "for_good"), FAILURES)
def test_a_model_that_fails_at_any_call_ends_honestly(
    name: str, tools: tuple[Any, ...], index: int, for_good: bool
) -> None:
    model, recorder = FailingAt(RuledLLM(sensible), index, for_good=for_good), EventRecorder()
    agent = builder(name, tools=tools).with_llm(model).build()
    agent.subscribe(recorder)
    ended: TaskResult | AgentError
    try:
        ended = agent.run_sync("What is 1 + 2?")
    except AgentError as error:
        ended = error
    if isinstance(ended, AgentError):
        assert root_cause(ended.error) == DOWN
        assert not any(step.type == "critique" for step in ended.steps), "there was an answer by then"
        return
    result = ended
    assert result.output in ("3", "Better: 3")
    assert result.metadata.model_calls == model.answered == len(recorder.of(ModelCallCompleted))
    assert result.metadata.tokens_used == 15 * model.answered
    assert result.metadata.cost_usd == 0.25 * model.answered
    judged = any(step.type == "critique" for step in result.steps)
    if name == "reflexion" and judged:
        assert (result.status, "Missing: " in result.reason) == ("partial", True)
    else:
        assert result.status == "completed"
    if name == "reflexion":
        assert "The model is down." in result.reason


@pytest.mark.parametrize(
    ("name", "table"), [("reflexion", "reflexion"), ("tree-of-thought", "tree_of_thought")]
)
def test_each_has_its_own_settings_of_compaction(name: str, table: str) -> None:
    def page(at: int) -> str:
        """A page."""
        return f"Page {at}: " + f"word{at} " * 130

    answers = {
        "reflexion": [say(json.dumps({"issues": [], "score": 1.0, "satisfied": True}))],
        "tree-of-thought": [],
    }
    grown = [
        say(json.dumps({"thoughts": ["Read."]})),
        say(json.dumps({"scores": [{"candidate": 1, "reason": "", "score": 1.0}]})),
    ]
    before = [] if name == "reflexion" else grown
    turns = [*before, *(call("page", at=at) for at in range(3)), answer("Read."), *answers[name]]
    told = []
    for method in ("template", "drop"):
        own = {table: {"compaction": {"method": method}, "kernel_max_iterations": 9}}
        own["tree_of_thought"] = {**own.get("tree_of_thought", {}), "depth": 1}
        recorder = EventRecorder()
        agent = (
            ReactiveAgents.create()
            .with_llm(ScriptedLLM(*turns))
            .with_reasoning(name, strategies=own)
            .with_context_profile(window_tokens=8_000, tool_result_chars=1_000)
            .with_tools(page)
            .build()
        )
        agent.subscribe(recorder)
        assert agent.run_sync("Read the pages.").output == "Read."
        told.append(len(recorder.of(ContextCompacted)))
    assert told[0] > 0
    assert told[1] == 0
