"""A simulated model that plays the Game of 24 as well as it is told to, whatever strategy asks it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from random import Random

from attrs import frozen
from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.effects import Effect
from tests.benchmarks.strategies.game import Numbers, Step, as_numbers, play, read_steps, steps, winnable

TASK = (
    "Numbers: {numbers}. Make 24 of them. Each step takes two of the numbers that are left, and puts their "
    "sum, difference, product or quotient in their place. Answer with the three steps, one a line."
)
CHECKS = 4
"""Checks that the player makes of one answer before it gives up."""


@frozen
class Skill:
    """How good the model is.

    Attributes:
        step: 0 to 1, how often a step that it takes leaves 24 within reach.
        critic: 0 to 1, how often its verdict on an answer is right; with the result of a check it always is.
        noise: standard deviation of its scores around 0.8 for a good step and 0.2 for a bad one. With 0.3
            a score is on the right side of 0.5 in 84 of 100 cases.
    """

    step: float
    critic: float = 0.85
    noise: float = 0.3


class Player:
    """A model that reads the prompts of the strategies, and answers by its skill and by chance.

    The same question gets the same answers in the same order, so that a game does not depend on the order of
    concurrent questions.
    """

    def __init__(self, skill: Skill, seed: int) -> None:
        self._skill, self._seed = skill, seed
        self._asked: Counter[str] = Counter()

    @property
    def model(self) -> str:
        return "simulated/player"

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return FutureResult.from_value(self._answer(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield Success(StreamCompleted(self._answer(request)))

    def _answer(self, request: ModelRequest) -> ModelResponse:
        prompt = "\n".join(message.content for message in request.messages[1:])
        asked = f"{request.purpose}\n{prompt}"
        self._asked[asked] += 1
        chance = Random(f"{self._seed} {self._asked[asked]} {asked}")
        match request.purpose:
            case "critique":
                return said(self._critique(prompt, chance))
            case "expand":
                return said(self._expand(prompt, chance))
            case "score":
                return said(self._score(prompt, chance))
            case "vote":
                return said(self._vote(prompt, chance))
            case "plan" | "augment-plan" | "replan":
                return said(planned(request, prompt))
            case "reflect":
                return said(self._reflect(prompt, chance))
            case _:
                return self._turn(request, prompt, chance)

    def _turn(self, request: ModelRequest, prompt: str, chance: Random) -> ModelResponse:
        """A turn of a kernel: take an answer to the check if there is one, else give it."""
        if "The steps of a plan were carried out" in request.messages[0].content:
            return said(last_answer(prompt)[1])
        numbers = numbers_of(prompt)
        checked = [message.content for message in request.messages if isinstance(message, ToolMessage)]
        last = re.search(r"You have (\d+) turns", request.messages[0].content)
        enough = min(CHECKS, int(last[1]) - 1) if last else CHECKS
        if checked and (checked[-1] == "24" or len(checked) >= enough):
            calls = [
                call
                for message in request.messages
                if isinstance(message, AssistantMessage)
                for call in message.tool_calls
            ]
            return said(str(calls[-1].arguments["steps"]))
        answer = "\n".join(map(str, self._solve(numbers, "" if checked else prompt, chance)))
        if any(tool.name == "check" for tool in request.tools):
            call = ToolCall(CallId(f"check-{len(checked) + 1}"), "check", {"steps": answer})
            return ModelResponse("", self.model, (call,), "", "tool_calls", Usage(1, 1, 2), 0.0)
        return said(answer)

    def _solve(self, numbers: Numbers, prompt: str, chance: Random) -> tuple[Step, ...]:
        """Three steps: those of a given approach, or those before the step that somebody objects to."""
        given, against = read_steps(fenced(prompt, "approach")), all_fenced(prompt, "critique|to-mend")
        objected = objection(against)
        if objected is not None:
            given = read_steps(fenced(prompt, r"earlier-answer|result-of-s\d+"))[: objected - 1]
        taken, left = list[Step](), numbers
        for step in given:
            following = step.after(left)
            if following is None:
                break
            taken.append(step)
            left = following
        refused = frozenset(read_steps(" ".join(re.findall(r"\((.*?)\)", against))))
        while len(left) > 1:
            step = self._next(left, chance, refused)
            taken.append(step)
            left = step.after(left) or ()
        return tuple(taken)

    def _next(self, left: Numbers, chance: Random, refused: frozenset[Step] = frozenset()) -> Step:
        possible = [step for step in steps(left) if step not in refused] or list(steps(left))
        good = [step for step in possible if winnable(step.after(left) or ())]
        bad = [step for step in possible if step not in good]
        right = chance.random() < self._skill.step
        return chance.choice((good or bad) if right else (bad or good))

    def _critique(self, prompt: str, chance: Random) -> str:
        numbers, taken = numbers_of(prompt), read_steps(fenced(prompt, "answer"))
        seen = self._fault(numbers, taken, bool(fenced(prompt, "evidence")), chance)
        if seen is None:
            return json.dumps({"issues": [], "score": clipped(chance.gauss(0.95, 0.05)), "satisfied": True})
        score = clipped(chance.gauss(0.2 * seen - 0.1, 0.05))
        return json.dumps({"issues": [issue(taken, seen)], "score": score, "satisfied": False})

    def _reflect(self, prompt: str, chance: Random) -> str:
        """A judgement of the last answer of a plan, by the same skill as a critic's."""
        step_id, answer = last_answer(prompt)
        taken = read_steps(answer)
        seen = self._fault(numbers_of(prompt), taken, bool(fenced(prompt, "evidence")), chance)
        if seen is None:
            return json.dumps({"verdict": "SATISFIED", "confidence": 0.9, "answer_step": step_id})
        return json.dumps({"verdict": "UNSATISFIED", "confidence": 0.9, "missing": [issue(taken, seen)]})

    def _fault(self, numbers: Numbers, taken: Sequence[Step], checked: bool, chance: Random) -> int | None:
        """The number of the step that the model takes for the first wrong one."""
        wrong = first_wrong(numbers, taken)
        if checked or chance.random() < self._skill.critic:
            return wrong
        return None if wrong is not None else chance.randint(1, len(taken))

    def _expand(self, prompt: str, chance: Random) -> str:
        left = play(numbers_of(prompt), read_steps(fenced(prompt, "steps"))) or ()
        if len(left) < 2:
            return json.dumps({"thoughts": ["Nothing is left to do."]})
        found = {str(self._next(left, chance)): None for _ in range(3)}
        return json.dumps({"thoughts": list(found)})

    def _score(self, prompt: str, chance: Random) -> str:
        judged = enumerate(self._judge(prompt, chance), 1)
        scores = [{"candidate": number, "reason": "", "score": clipped(score)} for number, score in judged]
        return json.dumps({"scores": scores})

    def _vote(self, prompt: str, chance: Random) -> str:
        judged = self._judge(prompt, chance)
        best = sorted(range(1, len(judged) + 1), key=lambda number: -judged[number - 1])[:3]
        return json.dumps({"reason": "", "best": [n for n in best if judged[n - 1] > 0.5] or best[:1]})

    def _judge(self, prompt: str, chance: Random) -> list[float]:
        """How promising each candidate seems."""
        numbers, path = numbers_of(prompt), read_steps(fenced(prompt, "steps"))
        lefts = [
            play(numbers, (*path, *read_steps(line))) for line in fenced(prompt, "candidates").splitlines()
        ]
        return [chance.gauss(0.8 if left and winnable(left) else 0.2, self._skill.noise) for left in lefts]


def said(text: str) -> ModelResponse:
    """An answer of text."""
    return ModelResponse(text, "simulated/player", usage=Usage(1, 1, 2), cost_usd=0.0)


def planned(request: ModelRequest, prompt: str) -> str:
    """A plan, or what is added to one: an answer in one go, or with the check where there is one."""
    rules = request.messages[0].content
    first = re.search(r"ids from s(\d+) on", rules)
    instruction = "Find the three steps."
    if first is not None:
        against, mended = fenced(prompt, "missing"), last_answer(prompt)[0]
        if mended:
            instruction = f"Mend {{{{from_step:{mended}}}}}\n<to-mend>\n{against}\n</to-mend>"
    kind = {"type": "composite", "tool_hints": ["check"]} if "- check(" in rules else {"type": "analysis"}
    return json.dumps({"steps": [{"title": "Answer", "instruction": instruction, **kind}]})


def last_answer(prompt: str) -> tuple[str, str]:
    """The last answer among the results of a plan's steps, after the id of its step; empty for none."""
    found = re.findall(r"<(result-of-(s\d+)(?:-[0-9a-f]{6})?)>\n(.*?)\n</\1>", prompt, re.S)
    return next(((step_id, text) for _, step_id, text in reversed(found) if read_steps(text)), ("", ""))


def issue(taken: Sequence[Step], number: int) -> str:
    """Return the comment on a wrong step."""
    step = taken[number - 1] if number <= len(taken) else "none"
    return f"Step {number} ({step}) leaves no way to 24."


def numbers_of(prompt: str) -> Numbers:
    """The numbers of the task."""
    found = re.search(r"Numbers: ([\d ]+)\.", prompt)
    return as_numbers(map(int, found[1].split())) if found else ()


def fenced(prompt: str, name: str) -> str:
    """Return the content of the first fence of that name, which may be a pattern."""
    found = re.search(rf"<((?:{name})(?:-[0-9a-f]{{6}})?)>\n(.*?)\n</\1>", prompt, re.S)
    return found[2] if found else ""


def all_fenced(prompt: str, name: str) -> str:
    """Return the contents of all fences of that name, which may be a pattern."""
    return "\n".join(
        text for _, text in re.findall(rf"<((?:{name})(?:-[0-9a-f]{{6}})?)>\n(.*?)\n</\1>", prompt, re.S)
    )


def objection(critique: str) -> int | None:
    """The number of the step that a critic objects to."""
    found = re.search(r"Step (\d)", critique)
    return int(found[1]) if found else None


def first_wrong(numbers: Numbers, taken: Sequence[Step]) -> int | None:
    """The number of the first step that leaves no way to 24; ``None`` for a solution."""
    for number in range(1, len(taken) + 1):
        if not winnable(play(numbers, taken[:number]) or ()):
            return number
    return None if len(taken) == 3 else len(taken) + 1


def clipped(score: float) -> float:
    """The score within 0 and 1."""
    return min(1.0, max(0.0, score))
