"""A model that is played: it knows how its tasks are done, slips at a stated rate, and sees only its request.

What it has done it reads from the messages that it is shown, as a real model does: a result that is not
shown is not known. Told that something was wrong, it slips less often in the next turn.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.lab.slips import SLIPS, Profile, Turn, deliver
from tests.lab.structured import fill_in, schema_of_form
from tests.lab.tasks import Family, LabTask, Work
from tests.support.openai_server import Answer, Call

_ERROR = re.compile(r"\b(?:failed|error|not valid|did not answer|no tool|refused)\b", re.I)


class SimulatedModel:
    """Answers chat requests about known tasks.

    Args:
        tasks: the tasks that it may be asked about, with their families.
        profile: how it behaves.
        seed: of its slips; the same seed gives the same run.

    Attributes:
        slips: how often each kind of slip was made.
        asked: requests by task.
        prompt_tokens: tokens of the requests by task, tools included, one for four characters.
    """

    def __init__(self, tasks: Iterable[tuple[Family, LabTask]], profile: Profile, *, seed: int = 0) -> None:
        self._tasks = tuple(tasks)
        self._profile = profile
        self._seed = seed
        self._lock = threading.Lock()
        self.slips: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.prompt_tokens: Counter[str] = Counter()

    def reply(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to the body of a chat request."""
        messages = [_plain(message) for message in request["messages"]]
        shown = "\n".join(text for _, text in messages)
        family, task = self._task_in(shown)
        tokens = size_of(request["messages"], request.get("tools", []))
        with self._lock:
            self.asked[task.id] += 1
            self.prompt_tokens[task.id] += tokens
            rng = random.Random(f"{self._seed}/{task.id}/{self.asked[task.id]}")
        if schema := _schema_of(request):
            answer = fill_in(schema, task, shown, rng, careful=rng.random() >= self._profile.rate)
        else:
            answer = self._turn(family, task, request, messages, rng)
        written = len(answer.content or "") // 4 + 20 * len(answer.calls)
        return Answer(answer.content, answer.calls, "", (tokens, written), answer.finish_reason)

    def _turn(
        self,
        family: Family,
        task: LabTask,
        request: Mapping[str, Any],
        messages: list[tuple[str, str]],
        rng: random.Random,
    ) -> Answer:
        profile = self._profile
        offered = frozenset(each["function"]["name"] for each in request.get("tools", ()))
        others = "\n".join(text for role, text in messages if role != "assistant")
        earlier = _calls_in(request["messages"])
        step = _step_of_a_plan(task, messages)
        answered = task.answer in others  # a step before this one has come to it
        done = [work for work in step or task.work if (answered and not step) or work.evidence in others]
        open_work = [work for work in step or task.work if work not in done]
        answer = "; ".join(work.evidence for work in step) if step else task.answer
        now = _next(open_work, offered, others, earlier, in_parallel=profile.in_parallel)
        by_tool = "final-answer" in offered
        turn = Turn(
            task=task,
            half=family.half,
            calls=tuple(Call(w.tool, dict(w.arguments), f"call-{rng.randrange(10**6)}") for w in now),
            answer=answer if not open_work else _what_there_is(task, done, rng),
            by_tool=by_tool,
            earlier=earlier,
            failed=_has_failed(messages),
            seen=tuple(work.evidence for work in done),
            offered=offered,
        )
        told = _is_told(request["messages"])
        rate = profile.rate * (1 - profile.heeds) if told else profile.rate
        if rng.random() < rate:
            for kind in rng.sample(sorted(profile.kinds), len(profile.kinds)):
                slipped = SLIPS[kind](turn, rng)
                if slipped is not None:
                    with self._lock:
                        self.slips[kind] += 1
                    return slipped
        if turn.calls:
            return Answer(None, turn.calls)
        if open_work and turn.answer != task.wrong and "could_not" in json.dumps(request.get("tools", [])):
            missing = {"answer": turn.answer, "could_not": "Not everything was found in time."}
            return Answer(None, (Call("final-answer", missing, "call-end"),))
        delivered = by_tool and (told or rng.random() >= profile.answers_by_text)
        if delivered and not task.can_be_done and "could_not" in json.dumps(request.get("tools", [])):
            why = {"answer": turn.answer, "could_not": f"{turn.answer} An entry for it would be needed."}
            return Answer(None, (Call("final-answer", why, "call-end"),))
        return deliver(turn.answer, by_tool=delivered)

    def _task_in(self, shown: str) -> tuple[Family, LabTask]:
        for family, task in self._tasks:
            if task.text in shown or json.dumps(task.text)[1:-1] in shown:
                return family, task
        raise LookupError(f"no task of the laboratory in: {shown[:500]}")


def size_of(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> int:
    """Return the prompt tokens of a request, one for four characters."""
    texts = sum(len(_plain(message)[1]) + 1 for message in messages)
    called = sum(len(json.dumps(calls)) for message in messages if (calls := message.get("tool_calls")))
    return (texts + called + (len(json.dumps(tools)) if tools else 0)) // 4


def _step_of_a_plan(task: LabTask, messages: list[tuple[str, str]]) -> tuple[Work, ...]:
    """Return the calls that a request for one step of a plan is about; none for the task itself."""
    request = next((text for role, text in messages if role == "user"), "")
    if request.startswith(task.text):
        return ()
    head = request.partition("\n\n")[0]
    return tuple(w for w in task.work if f"{w.tool} with {json.dumps(dict(w.arguments))}" in head)


def _plain(message: Mapping[str, Any]) -> tuple[str, str]:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return message["role"], content


def _calls_in(messages: list[Mapping[str, Any]]) -> tuple[Call, ...]:
    return tuple(
        Call(call["function"]["name"], call["function"]["arguments"], call["id"])
        for message in messages
        for call in message.get("tool_calls") or ()
        if call["function"]["name"] != "final-answer"
    )


def _has_failed(messages: list[tuple[str, str]]) -> bool:
    """Whether the last result is an error; guidance may stand behind it."""
    last = next((each for each in reversed(messages) if each[0] != "user"), ("", ""))
    return last[0] == "tool" and bool(_ERROR.search(last[1]))


def _is_told(messages: list[Mapping[str, Any]]) -> bool:
    """Whether somebody speaks to the model after its last turn."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            return False
        if message["role"] in ("user", "system"):
            return any(each["role"] == "assistant" for each in messages)
    return False


def _next(
    open_work: list[Work],
    offered: frozenset[str],
    shown: str,
    earlier: tuple[Call, ...],
    *,
    in_parallel: bool,
) -> list[Work]:
    """Return the calls of a careful model: those of the earliest stage that can be made now."""
    if not open_work:
        return []
    stage = min(work.stage for work in open_work)
    ready = [work for work in open_work if work.stage == stage and work.tool in offered]
    key = re.search(r'recall\(key="([^"]+)"', shown)
    if key and "recall" in offered and any(call.name == work.tool for work in ready for call in earlier):
        name = str(next(iter(ready[0].arguments.values())))
        return [Work("recall", {"key": key.group(1), "search": name}, ready[0].evidence)]
    return ready if in_parallel else ready[:1]


def _what_there_is(task: LabTask, done: list[Work], rng: random.Random) -> str:
    """Return the answer of a model that is not done and can make no call: honest more often than not."""
    if rng.random() < 0.3:
        return task.wrong
    found = "; ".join(work.evidence for work in done) or "nothing"
    return f"I could not finish this. What I found: {found}. The rest is missing."


def _schema_of(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON Schema that a request asks for, by its format or within its instructions."""
    form = request.get("response_format") or {}
    schema = (form.get("json_schema") or {}).get("schema")
    if isinstance(schema, Mapping):
        return schema
    if request.get("tools"):
        return None
    for role, text in map(_plain, request["messages"]):
        if role == "system" and "JSON value of this form" in text:
            return schema_of_form(text.partition("JSON value of this form")[2].partition("\n")[2])
        for start in re.finditer(r'\{"', text if role == "system" else ""):
            try:
                value, _ = json.JSONDecoder().raw_decode(text, start.start())
            except ValueError:
                continue
            if isinstance(value, dict) and {"properties", "$defs", "items"} & value.keys():
                return value
    return None
