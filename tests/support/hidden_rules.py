"""A domain with rules that nobody tells, and a simulated model that follows what its prompt shows it."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from datetime import timedelta

from attrs import evolve
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId, ContextId, EventId
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.core.personas import DomainEvent
from reactive_agents.effects import Effect
from reactive_agents.persona.plan_changes import CriterionDraft, EvaluationDraft, PlanDraft, StepDraft
from reactive_agents.testing.core import START
from reactive_agents.testing.scripted_llm import render_messages

ACTIONS = ("push firmly", "pull gently", "sing aloud", "wait quietly")
GATES = (
    "crimson portcullis",
    "mossy turnstile",
    "silver trapdoor",
    "wooden drawbridge",
    "glass curtain",
    "rusty grating",
    "marble archway",
    "thorny hedge",
)
RULES = {gate: ACTIONS[number % len(ACTIONS)] for number, gate in enumerate(GATES)}


def try_gate(gate: str, action: str) -> str:
    """Try to open a gate."""
    return f"The {gate} {'opens' if RULES.get(gate) == action else 'stays shut'}."


def gate_in(text: str) -> str:
    """The gate that a text speaks of first."""
    return min((each for each in GATES if each in text.lower()), key=text.lower().index)


def is_open(gate: str, text: str) -> bool:
    """Whether a text says that the gate was opened."""
    return f"The {gate} opens." in text


def gate_events(count: int, *, seed: int) -> list[DomainEvent]:
    """Gates in the way, by chance, one a minute."""
    chance = random.Random(seed)
    return [
        DomainEvent(
            EventId(f"event-{number}"),
            ContextId("castle"),
            "castle",
            f"A {chance.choice(GATES)} is in the way.",
            START + timedelta(minutes=number),
        )
        for number in range(count)
    ]


class SimulatedModel:
    """Plans by what it is shown, else by chance; tells what it saw; draws lessons, a part of them wrong.

    Args:
        follows: 0 to 1, how often it follows a pattern that fits.
        misled: 0 to 1, how often the lesson of a success names another action.
    """

    def __init__(self, *, seed: int, follows: float = 0.85, misled: float = 0.1) -> None:
        self._chance = random.Random(seed)
        self._follows = follows
        self._misled = misled

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
        gate = gate_in(prompt)
        words = len(prompt.split())
        response = ModelResponse("", self.model, usage=Usage(words, 10, words + 10), cost_usd=words * 1e-6)
        match request.purpose:
            case "persona-plan":
                return evolve(response, content=to_json(self._plan(gate, prompt)))
            case "persona-evaluate":
                return evolve(response, content=to_json(self._assessment(gate, prompt)))
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return evolve(response, content=last.content)
        named = [action for action in ACTIONS if f"Try the {gate}: {action}" in prompt]
        action = named[0] if named else self._chance.choice(ACTIONS)
        call = ToolCall(CallId(f"call-{words}"), "try_gate", {"gate": gate, "action": action})
        return evolve(response, tool_calls=(call,), finish_reason="tool_calls")

    def _plan(self, gate: str, prompt: str) -> PlanDraft:
        shown = re.findall(rf"^(\d+)\. {gate}: ({'|'.join(ACTIONS)})", prompt, re.M | re.I)
        if shown and self._chance.random() < self._follows:
            number, action = shown[0]
            follows = (int(number),)
        else:
            action, follows = self._chance.choice(ACTIONS), ()
        step = StepDraft(f"Try the {gate}: {action}", "It is open.")
        return PlanDraft(f"The {gate} is open.", (step,), ("It is open.",), follows=follows)

    def _assessment(self, gate: str, prompt: str) -> EvaluationDraft:
        opened = is_open(gate, prompt)
        action = next(each for each in ACTIONS if f"Try the {gate}: {each}" in prompt)
        if self._chance.random() < self._misled:
            action = self._chance.choice(ACTIONS)
        lesson = f"{gate.capitalize()}: {action}" if opened else ""
        return EvaluationDraft((CriterionDraft(number=1, met=opened),), pattern=lesson)
