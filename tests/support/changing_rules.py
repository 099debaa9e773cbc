"""Worlds whose rules nobody tells and that change, and a simulated model that follows what it is shown."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

from attrs import evolve, frozen
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId, ContextId, EventId
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.core.personas import DomainEvent, EngagementPolicy, LearningPolicy
from reactive_agents.effects import Effect, attempt
from reactive_agents.persona.plan_changes import CriterionDraft, EvaluationDraft, PlanDraft, StepDraft
from reactive_agents.testing import FakeTools
from reactive_agents.testing.core import START
from reactive_agents.testing.scripted_llm import render_messages
from tests.support.personas import persona_bench


@frozen(eq=False)
class World:
    """Troubles, what helps against each, and from which event on something else does.

    Attributes:
        changed: the share of troubles whose remedy changes.
        noise: 0 to 1, how often the right remedy does not help.
    """

    name: str
    troubles: Sequence[str]
    remedies: Sequence[str]
    change_at: int
    events: int
    changed: float = 1.0
    noise: float = 0.0

    def rules(self, seed: int) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the rules before and after the change."""
        chance = random.Random(f"{self.name}{seed}")
        before = {trouble: chance.choice(self.remedies) for trouble in self.troubles}
        after = {
            trouble: chance.choice([each for each in self.remedies if each != remedy])
            if number < self.changed * len(before)
            else remedy
            for number, (trouble, remedy) in enumerate(before.items())
        }
        return before, after

    def happenings(self, seed: int) -> list[DomainEvent]:
        """Return troubles by chance, one a minute."""
        chance = random.Random(seed)
        return [
            DomainEvent(
                EventId(f"event-{number}"),
                ContextId("room"),
                "room",
                f"Please help: {chance.choice(self.troubles)}.",
                START + timedelta(minutes=number),
            )
            for number in range(self.events)
        ]


class Follower:
    """Plans by what it is shown, else by chance, and not what it is warned of; draws lessons.

    Its own judgement is worth nothing: it praises each of its plans. A remedy that does not help is a tool
    call that fails, and nothing else says so.

    Args:
        follows: 0 to 1, how often it follows a pattern that fits.
    """

    def __init__(self, world: World, *, seed: int, follows: float = 0.9) -> None:
        self._world = world
        self._chance = random.Random(seed)
        self._follows = follows
        self._actions = "|".join(map(re.escape, world.remedies))

    @property
    def model(self) -> str:
        """Its name."""
        return "simulated/follower"

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """Return the answer; never fails."""
        return FutureResult.from_value(self._answer(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The same at once."""
        yield Success(StreamCompleted(self._answer(request)))

    def _answer(self, request: ModelRequest) -> ModelResponse:
        prompt = render_messages(request.messages[1:])
        trouble = min((each for each in self._world.troubles if each in prompt), key=prompt.index, default="")
        words = len(prompt.split())
        response = ModelResponse("", self.model, usage=Usage(words, 10, words + 10), cost_usd=words * 1e-6)
        match request.purpose:
            case "persona-plan":
                return evolve(response, content=to_json(self._plan(trouble, prompt)))
            case "persona-evaluate":
                return evolve(response, content=to_json(self._assessment(trouble, prompt)))
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return evolve(response, content=last.content)
        named = re.search(rf"Against {re.escape(trouble)}: ({self._actions})", prompt)
        action = named[1] if named else self._chance.choice(self._world.remedies)
        call = ToolCall(CallId(f"call-{words}"), "apply", {"trouble": trouble, "remedy": action})
        return evolve(response, tool_calls=(call,), finish_reason="tool_calls")

    def _plan(self, trouble: str, prompt: str) -> PlanDraft:
        line = rf"Against {re.escape(trouble)}: ({self._actions})"
        shown = re.findall(rf"^(\d+)\. {line}", prompt, re.M)
        warned = set(re.findall(rf"^- {line}", prompt, re.M))
        follows: tuple[int, ...] = ()
        if shown and self._chance.random() < self._follows:
            number, action = shown[0]
            follows = (int(number),)
        else:
            left = [each for each in self._world.remedies if each not in warned] or [*self._world.remedies]
            action = self._chance.choice(left)
        step = StepDraft(f"Against {trouble}: {action}", "It helps.")
        return PlanDraft(f"No more {trouble}.", (step,), ("It helps.",), follows=follows)

    def _assessment(self, trouble: str, prompt: str) -> EvaluationDraft:
        tried = re.search(rf"Against {re.escape(trouble)}: ({self._actions})", prompt)
        lesson = f"Against {trouble}: {tried[1]}" if tried else ""
        return EvaluationDraft((CriterionDraft(number=1, met=True),), pattern=lesson)


async def play(world: World, seed: int, *, learning: bool = True) -> list[bool]:
    """Return for each event of a world whether it was helped, with a persona's defaults."""
    before, after = world.rules(seed)
    chance = random.Random(seed)
    helped: list[bool] = []

    def apply(trouble: str, remedy: str) -> str:
        """Apply a remedy."""
        rules = before if len(helped) <= world.change_at else after
        helped[-1] = rules[trouble] == remedy and chance.random() >= world.noise
        if not helped[-1]:
            raise RuntimeError(f"{trouble}: it did not help")
        return f"{trouble}: it helped"

    bench = persona_bench(
        Follower(world, seed=seed),
        tools=FakeTools({"apply": apply}),
        engagement=EngagementPolicy(max_events=world.events),
        transcript=0,  # the simulated model looks for its trouble in the whole prompt
        **({} if learning else {"learning": LearningPolicy(enabled=False), "reuse_above": 1.0}),
    )
    for event in world.happenings(seed):
        helped.append(False)
        (await attempt(bench.persona.process_event("chat", event))).unwrap()
    return helped


SUPPORT = World(
    "support",
    [
        "a router that blinks red",
        "a printer that stays silent",
        "mail that bounces",
        "a screen that flickers",
        "a login that loops",
        "a payment that hangs",
        "a file that vanished",
        "a call that drops",
        "a backup that stalls",
        "a calendar that drifts",
        "a keyboard that sticks",
        "a search that finds nothing",
    ],
    ["restart it", "renew the licence", "clear the cache", "swap the cable", "call the vendor"],
    change_at=200,
    events=400,
)
GARDEN = World(
    "garden",
    [
        "yellow leaves",
        "curled petals",
        "dry soil",
        "soft stems",
        "pale buds",
        "black spots",
        "slow roots",
        "bitter fruit",
    ],
    ["water", "shade", "ash", "lime"],
    change_at=160,
    events=320,
    changed=0.5,
    noise=0.1,
)
KITCHEN = World(
    "kitchen",
    [f"{what} that {how}" for what in ("dough", "broth", "cream", "sauce") for how in ("splits", "sticks")]
    + ["rice that burns", "tea that clouds", "jam that runs", "bread that cracks"],
    ["more salt", "less heat", "a rest", "a stir", "a lid", "an egg"],
    change_at=250,
    events=500,
    changed=0.7,
)
WORLDS = (SUPPORT, GARDEN, KITCHEN)
