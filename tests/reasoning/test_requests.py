"""Each request that strategies make, as text to read: ``tests/reasoning/requests/``.

``make requests`` writes the files again after a prompt was changed on purpose; their difference is what a
reviewer reads. The model of the runs answers a question with the example of its prompt, so that each example
is read by the parser and passes the checks that the answers of a model have to pass.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, field, frozen
from returns.result import Success

from reactive_agents.agent.output_types import output_shape
from reactive_agents.core.config import (
    AdaptiveConfig,
    ContextProfileOverrides,
    ContextTier,
    PlanExecuteConfig,
    ReactiveConfig,
    ReasoningConfig,
    ReflexionConfig,
    StrategiesConfig,
    TreeOfThoughtConfig,
)
from reactive_agents.core.errors import ToolFailed
from reactive_agents.core.memory import MemoryContext
from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel.answer_form import FINAL_ANSWER_TOOL
from reactive_agents.reasoning import Strategy
from reactive_agents.reasoning.strategies.adaptive import adaptive
from reactive_agents.reasoning.strategies.plan_execute import plan_execute
from reactive_agents.reasoning.strategies.reactive import direct, reactive
from reactive_agents.reasoning.strategies.reflexion import reflexion
from reactive_agents.reasoning.strategies.tree_of_thought import tree_of_thought
from reactive_agents.reasoning.structured_output.output_type import answer_form
from reactive_agents.testing import FakeTools
from tests.support.fakes import registry_of
from tests.support.kernels import kernel_bench
from tests.support.models import RuledLLM, Said, services_with
from tests.support.sensible import sensible
from tests.support.strategies import strategy_input

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parent / "requests"
TASK = "Compare the prices of copper, zinc and tin, and write them to prices.md."
EXAMPLE = "Example:\n"

SEARCH = ToolDefinition(
    "web-search",
    "Search the web. Use it for facts that may have changed.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words to look for."},
            "since": {"type": "string", "format": "date", "description": "Only pages from this day on."},
            "limits": {
                "type": "object",
                "properties": {"sites": {"type": "array", "items": {"type": "string"}}},
            },
        },
        "required": ["query"],
    },
    idempotent=True,
)
WRITE = ToolDefinition(
    "file-write",
    "Write a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
    output=True,
)


def answered(request: ModelRequest) -> Said:
    """The example of a question; a call and then the answer where there are tools; else a text."""
    system = request.messages[0].content
    if EXAMPLE in system:
        return system.partition(EXAMPLE)[2].partition("\n")[0]
    calls = sum(isinstance(message, ToolMessage) for message in request.messages)
    offered = {tool.name for tool in request.tools}
    if SEARCH.name in offered and not calls:
        return SEARCH.name, {"query": "price of copper"}
    if FINAL_ANSWER in offered:
        return FINAL_ANSWER, {"answer": "Copper costs 9,800 dollars."}
    return "Copper costs 9,800 dollars."


def planning(*steps: Mapping[str, Any]) -> Callable[[ModelRequest], Said]:
    """A model that makes a plan of these steps, and is else as :func:`answered`."""

    def rule(request: ModelRequest) -> Said:
        made = [{"title": "A step", "instruction": "Find the prices.", **step} for step in steps]
        return json.dumps({"steps": made}) if request.purpose == "plan" else answered(request)

    return rule


def slips(request: ModelRequest) -> Said:
    """A model that slips in a new way in each turn."""
    turns = sum(isinstance(message, AssistantMessage) for message in request.messages)
    taken: list[Said] = [
        ("web-search", {"query": "tin"}),
        ("web-search", {"query": "tin"}),
        'search_pages: {"query": "zinc"}',
        "Now I will look up zinc.",
        ("file-write", {"path": "prices.md", "content": "Tin"}),
        (FINAL_ANSWER, {"answer": "It is all done."}),
        (FINAL_ANSWER, {"answer": "Zinc costs 7,123 dollars."}),
        (FINAL_ANSWER, {"answer": "Tin costs 9,800 dollars."}),
    ]
    return taken[min(turns, len(taken) - 1)]


SLIPPING: Mapping[str, Any] = {
    "web-search": "9,800 dollars",
    "file-write": ToolFailed("file-write", "no such folder"),
}
LOCAL = {"context_profile": ContextProfileOverrides(tier="local")}
COMPOSITE = {"type": "composite", "tool_hints": ["web-search"]}
WRITING = {"type": "analysis", "instruction": "Compare: {{from_step:s1}}"}
LOOKING = {"type": "tool_call", "tool_name": "web-search", "tool_args": {"query": "price of copper"}}


@frozen
class Scene:
    """A run of which each request is shown.

    Attributes:
        shown: the purposes of the requests to show; empty for all.
        fields: of the strategy's input.
    """

    strategy: Strategy
    model: Callable[[ModelRequest], Said] = answered
    tools: Mapping[str, Any] | None = field(
        factory=lambda: {"web-search": "9,800 dollars", "file-write": "ok"}
    )
    reasoning: ReasoningConfig = field(factory=ReasoningConfig)
    shown: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(factory=dict)


def configured(**strategies: Any) -> ReasoningConfig:
    return ReasoningConfig(strategies=StrategiesConfig(**strategies))


def tier(name: ContextTier, strategy: Strategy, purpose: str, **strategies: Any) -> Scene:
    """The first question of a purpose, as a model of a tier is asked it."""
    fields = {"context_profile": ContextProfileOverrides(tier=name)}
    return Scene(strategy, sensible, reasoning=configured(**strategies), shown=(purpose,), fields=fields)


ONE_REFINEMENT = PlanExecuteConfig(max_refinements=1)
SMALL_TREE = TreeOfThoughtConfig(breadth=2, depth=2)
GUIDED = {
    "system_prompt": "You are Captain Rhyme. Answer in rhymes.",
    "memory": MemoryContext("1", semantic="Zinc is quoted in London.", prior_critiques=("Name the day.",)),
}


@frozen
class Prices:
    """The prices of metals.

    Attributes:
        metals: dollars a tonne, by the name of the metal.
    """

    metals: dict[str, int]
    day: str | None = None


COPPER: Mapping[str, Any] = {"metals": {"copper": 9800}}
TYPED = {"answer_form": answer_form(output_shape(Prices).unwrap())}


def priced(*answers: Mapping[str, Any] | str) -> Callable[[ModelRequest], Said]:
    """A model that looks up a price, and then gives these answers; fields where there are such."""

    def rule(request: ModelRequest) -> Said:
        looked_up = any(isinstance(message, ToolMessage) for message in request.messages)
        if looked_up and any(map(_has_form, request.tools)):
            turns = sum(isinstance(message, AssistantMessage) for message in request.messages)
            given = answers[min(turns, len(answers)) - 1]
            return given if isinstance(given, str) else (FINAL_ANSWER, given)
        if not request.tools and request.response_schema and EXAMPLE not in request.messages[0].content:
            return json.dumps(answers[0])
        return answered(request)

    return rule


SCENES: Mapping[str, Scene] = {
    "reactive": Scene(reactive, fields=GUIDED),
    "reactive-last-turn": Scene(
        reactive, lambda _: ("web-search", {"query": "tin"}), fields={"max_iterations": 3}
    ),
    "reactive-slips": Scene(reactive, slips, tools=SLIPPING),
    "reactive-in-brief": Scene(reactive, fields={**GUIDED, **LOCAL}),
    "reactive-slips-in-brief": Scene(reactive, slips, tools=SLIPPING, fields=LOCAL),
    "reactive-last-turn-in-brief": Scene(
        reactive, lambda _: ("web-search", {"query": "tin"}), fields={"max_iterations": 3, **LOCAL}
    ),
    "reactive-required-tools": Scene(
        reactive,
        fields={"needs": ToolNeeds((ToolRequirement("web-search", 2), ToolRequirement("file-write")))},
    ),
    "reactive-without-tools": Scene(reactive, tools=None, fields=GUIDED),
    "direct": Scene(direct, fields=GUIDED),
    "plan": Scene(plan_execute, reasoning=configured(plan_execute=ONE_REFINEMENT), fields=GUIDED),
    "plan-without-tools": Scene(
        plan_execute, tools=None, reasoning=configured(plan_execute=ONE_REFINEMENT), fields=GUIDED
    ),
    "plan-as-a-dag": Scene(
        plan_execute,
        reasoning=configured(plan_execute=PlanExecuteConfig(plan_mode="dag", reflection_depth="shallow")),
        shown=("plan", "reflect"),
    ),
    "plan-composite-step": Scene(
        plan_execute,
        planning(COMPOSITE, WRITING),
        reasoning=configured(plan_execute=ONE_REFINEMENT),
        shown=("think",),
    ),
    "plan-required-calls": Scene(
        plan_execute,
        planning(LOOKING, WRITING),
        reasoning=configured(plan_execute=ONE_REFINEMENT),
        shown=("plan", "think"),
        fields={"needs": ToolNeeds((ToolRequirement("web-search", 3),))},
    ),
    "plan-failing-call": Scene(
        plan_execute,
        tools={"web-search": ToolFailed("web-search", "no network"), "file-write": "ok"},
        reasoning=configured(plan_execute=ONE_REFINEMENT),
        shown=("patch-plan", "replan"),
    ),
    "plan-failing-composite-step": Scene(
        plan_execute,
        lambda request: (
            ("web-search", {"query": f"tin {len(request.messages)}"})
            if request.tools
            else planning(COMPOSITE, WRITING)(request)
        ),
        reasoning=configured(
            plan_execute=PlanExecuteConfig(max_refinements=1, step_kernel_max_iterations=2),
            reactive=ReactiveConfig(max_iterations=2),
        ),
        shown=("think", "patch-plan"),
    ),
    "reflexion": Scene(
        reflexion, reasoning=configured(reflexion=ReflexionConfig(max_retries=1)), fields=GUIDED
    ),
    "reflexion-without-an-answer": Scene(
        reflexion,
        lambda request: (
            ("web-search", {"query": f"tin {len(request.messages)}"}) if request.tools else answered(request)
        ),
        reasoning=configured(
            reflexion=ReflexionConfig(max_retries=1, self_critique_depth="shallow", kernel_max_iterations=3)
        ),
    ),
    "reflexion-without-tools": Scene(
        reflexion, tools=None, reasoning=configured(reflexion=ReflexionConfig(max_retries=1))
    ),
    "tree-of-thought": Scene(
        tree_of_thought,
        lambda request: (
            answered(request)
            if request.purpose != "score"
            else json.dumps({"scores": [{"candidate": n, "score": 0.4 + 0.2 * n} for n in (1, 2)]})
        ),
        reasoning=configured(tree_of_thought=SMALL_TREE),
        fields=GUIDED,
    ),
    "tree-of-thought-votes": Scene(
        tree_of_thought,
        tools=None,
        reasoning=configured(tree_of_thought=evolve(SMALL_TREE, depth=1, evaluation="vote")),
        shown=("expand", "vote"),
    ),
    "tree-of-thought-scores": Scene(
        tree_of_thought, reasoning=configured(tree_of_thought=SMALL_TREE), shown=("score",)
    ),
    "adaptive": Scene(
        adaptive,
        reasoning=ReasoningConfig(adaptive=AdaptiveConfig(enabled=True, selection="model")),
        shown=("select-strategy",),
        fields=GUIDED,
    ),
    "typed-reactive": Scene(reactive, priced({"metals": 3}, COPPER), fields={**GUIDED, **TYPED}),
    "typed-by-text": Scene(reactive, priced("Copper costs 9,800 dollars.", COPPER), fields=TYPED),
    "typed-without-tools": Scene(reactive, priced(COPPER), tools=None, fields={**GUIDED, **TYPED}),
    "typed-direct": Scene(direct, priced(COPPER), fields=TYPED),
    "typed-plan": Scene(
        plan_execute, priced(COPPER), reasoning=configured(plan_execute=ONE_REFINEMENT), fields=TYPED
    ),
    "typed-reflexion": Scene(
        reflexion,
        priced(COPPER),
        reasoning=configured(reflexion=ReflexionConfig(max_retries=1)),
        fields=TYPED,
    ),
    **{f"plan-for-{name}": tier(name, plan_execute, "plan") for name in ("local", "frontier")},
    **{f"critique-for-{name}": tier(name, reflexion, "critique") for name in ("local", "frontier")},
    **{f"score-for-{name}": tier(name, tree_of_thought, "score") for name in ("local", "frontier")},
}


async def requests_of(scene: Scene) -> list[ModelRequest]:
    """Every request of a run."""
    definitions = tuple(each for each in (SEARCH, WRITE) if scene.tools and each.name in scene.tools)
    tools = None if scene.tools is None else FakeTools(scene.tools, definitions=definitions)
    bench, model = kernel_bench(tools=tools), RuledLLM(scene.model)
    services = evolve(services_with(model, bench), strategies=registry_of().strategies)
    given = strategy_input(TASK, reasoning=scene.reasoning, **scene.fields)
    outcome = await attempt(scene.strategy(given, services))
    assert isinstance(outcome, Success), outcome
    return model.requests


def written(requests: list[ModelRequest]) -> str:
    """The requests as text; messages that the request before began with are counted."""
    parts: list[str] = []
    before: tuple[Message, ...] = ()
    for number, request in enumerate(requests, 1):
        same = 0
        while same < min(len(before), len(request.messages)) and before[same] == request.messages[same]:
            same += 1
        parts.append(f"======== {number}. {request.purpose}, temperature {request.temperature} ========")
        parts += [f"[{same} messages as before]"] if same else []
        parts += [_message(message) for message in request.messages[same:]]
        if request.tools:
            parts.append(f"-------- tools --------\n{', '.join(tool.name for tool in request.tools)}")
            parts += [f"{tool.name} takes {tool.schema_text}" for tool in request.tools if _has_form(tool)]
        elif request.response_schema and "Reply with one JSON" not in request.messages[0].content:
            parts.append("-------- held to the schema --------")
        before = request.messages
    return "\n".join(parts) + "\n"


def _has_form(tool: ToolDefinition) -> bool:
    return tool.name == FINAL_ANSWER and tool.parameters != FINAL_ANSWER_TOOL.parameters


def _message(message: Message) -> str:
    text, kind = message.content, type(message).__name__.removesuffix("Message").lower()
    if isinstance(message, AssistantMessage):
        made = [f"calls {call.name} {json.dumps(call.arguments)}" for call in message.tool_calls]
        text = "\n".join(part for part in (text, *made) if part)
    return f"-------- {kind} --------\n{text}"


@pytest.mark.parametrize("name", ["reactive", "reactive-slips", "reactive-last-turn"])
async def test_local_models_are_told_the_same_in_fewer_words(name: str) -> None:
    usual, brief = [await requests_of(SCENES[each]) for each in (name, f"{name}-in-brief")]
    for one, other in zip(usual, brief, strict=True):
        assert len(one.messages) == len(other.messages)
        for longer, shorter in zip(one.messages, other.messages, strict=True):
            assert len(shorter.content) <= len(longer.content)
        assert len(other.messages[0].content.split("\n\n")) < len(one.messages[0].content.split("\n\n"))
    assert len(written(brief)) < len(written(usual))


@pytest.mark.parametrize("name", SCENES)
async def test_each_request_is_as_it_was_read(name: str) -> None:
    scene = SCENES[name]
    made = [each for each in await requests_of(scene) if not scene.shown or each.purpose in scene.shown]
    if name.endswith(("-local", "-frontier")):
        made = made[:1]
    assert made
    text, path = written(made), FOLDER / f"{name}.txt"
    if os.environ.get("WRITE_REQUESTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "read the difference, then run: make requests"


def test_there_is_a_scene_for_each_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENES)


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.model is not sensible])
async def test_the_examples_of_prompts_are_accepted_at_once(name: str) -> None:
    for request in await requests_of(SCENES[name]):
        assert not any("could not be used" in message.content for message in request.messages)


async def test_every_question_has_its_example_read() -> None:
    purposes = {
        request.purpose
        for scene in SCENES.values()
        for request in await requests_of(scene)
        if EXAMPLE in request.messages[0].content
    }
    planned = {"plan", "patch-plan", "replan", "augment-plan", "reflect"}
    assert purposes == planned | {"critique", "expand", "score", "vote", "select-strategy"}


@pytest.mark.parametrize("prompt", ["plan", "critique", "score"])
def test_local_models_are_shown_less_than_large_ones(prompt: str) -> None:
    local, large = ((FOLDER / f"{prompt}-for-{name}.txt").read_text() for name in ("local", "frontier"))
    assert len(local) < len(large)
