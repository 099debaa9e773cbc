"""Kinds of slips of weak models: what a model does in place of the turn that it ought to take.

Sentences are put together from parts, and the families that are held back use other parts than those for
tuning, so that a rule that knows the sentences of one half fails on the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from tests.lab.tasks import Half, LabTask
from tests.support.openai_server import Answer, Call


@frozen
class Turn:
    """Return the next turn of a careful model.

    Attributes:
        calls: the calls that it would make; empty when it would answer.
        answer: the answer, if it would give one.
        by_tool: whether the tool ``final-answer`` is offered.
        earlier: the calls that were made before in this run.
        failed: whether the last result is an error.
        seen: evidence that was found, to be quoted.
        offered: names of the tools that are offered.
    """

    task: LabTask
    half: Half
    calls: tuple[Call, ...]
    answer: str
    by_tool: bool
    earlier: tuple[Call, ...] = ()
    failed: bool = False
    seen: tuple[str, ...] = ()
    offered: frozenset[str] = frozenset()


Slip: TypeAlias = Callable[[Turn, random.Random], Answer | None]
"""The slipped turn, or ``None`` where this slip cannot happen."""


def deliver(answer: str, *, by_tool: bool, content: str = "") -> Answer:
    """Return a turn that delivers an answer, with ``final-answer`` or as text."""
    if by_tool:
        return Answer(content or None, (Call("final-answer", {"answer": answer}, "call-end"),))
    return Answer(answer)


# --- sentences ------------------------------------------------------------------------------------------

_PARTS: Mapping[Half, Mapping[str, tuple[str, ...]]] = {
    "tuning": {
        "lead": ("Next, ", "First ", "Okay. ", "", "To answer this, ", "Sure! "),
        "will": ("I will use", "I'll call", "let me look with", "I need to ask", "I am going to check with"),
        "then": ("", " to find that out.", " now.", " and then give the answer.", " for it.."),
        "offer": ("Shall I look that up with {tool}?", "Would you like me to call {tool}?"),
        "would": ("I would use {tool} for that.", "One could call {tool} here."),
        "found": ("So far: {seen}. ", "I found {seen}. ", "{seen}. "),
        "sum": ("Now I can put this together.", "With this I will work out the result.", "Let me add it up."),
        "give_up": ("The tool reported an error, so I stop here.", "Unfortunately {tool} does not work."),
    },
    "held-back": {
        "lead": ("Alright, ", "Step 1: ", "Good question. ", "My plan: ", "Thinking about it, "),
        "will": (
            "querying",
            "the next thing is a request to",
            "time to consult",
            "we should invoke",
            "going for",
        ),
        "then": ("", ", one moment please", " - results to follow", " before anything else", "…"),
        "offer": ("Do you want {tool} to be consulted?", "May I go ahead with {tool}?"),
        "would": ("The right approach is a look into {tool}.", "{tool} ought to know."),
        "found": ("Noted: {seen}. ", "{seen} - got it. ", "We now have {seen}; "),
        "sum": ("The comparison comes in the following message.", "Preparing the summary", "Compiling this."),
        "give_up": ("Since {tool} failed, nothing more can be done.", "{tool} is broken, sorry."),
    },
}


def _part(turn: Turn, rng: random.Random, name: str) -> str:
    tool = turn.calls[0].name if turn.calls else "final-answer"
    seen = "; ".join(turn.seen) or "nothing yet"
    return rng.choice(_PARTS[turn.half][name]).format(tool=tool, seen=seen)


def _announcement(turn: Turn, rng: random.Random) -> str:
    tool = turn.calls[0].name if turn.calls else "the results"
    text = f"{_part(turn, rng, 'lead')}{_part(turn, rng, 'will')} {tool}{_part(turn, rng, 'then')}"
    return text[0].upper() + text[1:]


# --- turns without a call -------------------------------------------------------------------------------


def announces(turn: Turn, rng: random.Random) -> Answer | None:
    """Announce the call, and do not make it."""
    return Answer(_announcement(turn, rng)) if turn.calls else None


def announces_with_findings(turn: Turn, rng: random.Random) -> Answer | None:
    """Tell what was found, and announce the next call."""
    if not (turn.calls and turn.seen):
        return None
    return Answer(_part(turn, rng, "found") + _announcement(turn, rng))


def offers(turn: Turn, rng: random.Random) -> Answer | None:
    """Ask whether to go on."""
    return Answer(_part(turn, rng, "offer")) if turn.calls else None


def muses(turn: Turn, rng: random.Random) -> Answer | None:
    """Say what one would do."""
    return Answer(_part(turn, rng, "would")) if turn.calls else None


def announces_the_answer(turn: Turn, rng: random.Random) -> Answer | None:
    """Say that the answer comes, and do not give it."""
    if turn.calls or not turn.task.tools:
        return None
    return Answer((_part(turn, rng, "found") if turn.seen else "") + _part(turn, rng, "sum"))


def says_nothing(turn: Turn, rng: random.Random) -> Answer | None:
    """Give an empty reply."""
    return Answer("")


def is_cut_off(turn: Turn, rng: random.Random) -> Answer | None:
    """Reach the output limit in the middle of a sentence."""
    text = _announcement(turn, rng) if turn.calls else turn.answer
    return Answer(text[: max(8, len(text) // 2)], finish_reason="length")


# --- answers that come too early ------------------------------------------------------------------------


def answers_early(turn: Turn, rng: random.Random) -> Answer | None:
    """Answer without having done the work, with an invented figure."""
    if not turn.calls:
        return None
    return deliver(turn.task.wrong, by_tool=turn.by_tool and rng.random() < 0.6)


def claims_to_have_done_it(turn: Turn, rng: random.Random) -> Answer | None:
    """Announce a call, report its result, and answer with what was made up."""
    if not turn.calls:
        return None
    made_up = f"{_announcement(turn, rng)}\nObservation: done.\nFinal Answer: {turn.task.wrong}"
    return Answer(made_up)


def gives_up_after_an_error(turn: Turn, rng: random.Random) -> Answer | None:
    """Stop at the first error of a tool."""
    if not (turn.calls and turn.failed):
        return None
    return deliver(_part(turn, rng, "give_up"), by_tool=turn.by_tool and rng.random() < 0.5)


# --- calls that are wrong -------------------------------------------------------------------------------


def _arguments(call: Call) -> dict[str, Any]:
    return dict(call.arguments) if isinstance(call.arguments, Mapping) else dict(json.loads(call.arguments))


def writes_the_call(turn: Turn, rng: random.Random) -> Answer | None:
    """Write the call as text, in one of the formats of open models."""
    if not turn.calls:
        return None
    call = turn.calls[0]
    arguments = _arguments(call)
    body = json.dumps({"name": call.name, "arguments": arguments})
    python = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    forms = (
        f"<tool_call>\n{body}\n</tool_call>",
        f"```json\n{body}\n```",
        body,
        f"[{call.name}({python})]",
        f"<function={call.name}>{json.dumps(arguments)}</function>",
        f"Action: {call.name}\nAction Input: {json.dumps(arguments)}",
    )
    lead = _announcement(turn, rng) + "\n" if rng.random() < 0.5 else ""
    return Answer(lead + rng.choice(forms))


def breaks_off_the_call(turn: Turn, rng: random.Random) -> Answer | None:
    """Write a call as text, and break off in it."""
    if not turn.calls:
        return None
    body = json.dumps({"name": turn.calls[0].name, "arguments": _arguments(turn.calls[0])})
    return Answer(f"<tool_call>\n{body[: len(body) * 2 // 3]}", finish_reason=rng.choice(("stop", "length")))


def calls_an_unknown_tool(turn: Turn, rng: random.Random) -> Answer | None:
    """Call a tool that does not exist, natively or as text."""
    if not turn.calls:
        return None
    name = rng.choice(("search_database", "lookup", "get_info", "python"))
    arguments = _arguments(turn.calls[0])
    if rng.random() < 0.5:
        return Answer(None, (Call(name, arguments, f"call-{rng.randrange(10**6)}"),))
    return Answer(f"Calling tool: {json.dumps({'name': name, 'arguments': arguments})}")


def forgets_an_argument(turn: Turn, rng: random.Random) -> Answer | None:
    """Leave out a required argument."""
    if not turn.calls:
        return None
    arguments = _arguments(turn.calls[0])
    arguments.pop(rng.choice(list(arguments)))
    return Answer(None, (evolve(turn.calls[0], arguments=arguments), *turn.calls[1:]))


def gives_wrong_types(turn: Turn, rng: random.Random) -> Answer | None:
    """Give numbers as texts, and objects as texts of JSON."""
    if not turn.calls:
        return None
    arguments = _arguments(turn.calls[0])
    wrong = {
        name: json.dumps(value) if isinstance(value, list | dict) else str(value)
        for name, value in arguments.items()
    }
    return (
        None
        if wrong == arguments
        else Answer(None, (evolve(turn.calls[0], arguments=wrong), *turn.calls[1:]))
    )


def gives_whole_numbers(turn: Turn, rng: random.Random) -> Answer | None:
    """Give an int where a float is due."""
    if not turn.calls:
        return None
    arguments = _arguments(turn.calls[0])
    wrong = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in arguments.items()
    }
    if all(type(wrong[name]) is type(value) for name, value in arguments.items()):
        return None
    return Answer(None, (evolve(turn.calls[0], arguments=wrong), *turn.calls[1:]))


def asks_for_several_at_once(turn: Turn, rng: random.Random) -> Answer | None:
    """Make one call for several things, in place of one for each."""
    if not turn.calls:
        return None
    call = turn.calls[0]
    alike = [dict(work.arguments) for work in turn.task.work if work.tool == call.name]
    if len(alike) < 2 or not all(isinstance(value, str) for each in alike for value in each.values()):
        return None
    together = {name: ", ".join(each[name] for each in alike) for name in alike[0]}
    return Answer(None, (evolve(call, arguments=together),))


def breaks_the_json(turn: Turn, rng: random.Random) -> Answer | None:
    """Give arguments that are not quite JSON."""
    if not turn.calls:
        return None
    text = json.dumps(_arguments(turn.calls[0]))
    broken = rng.choice((text[:-1], text.replace('"', "'"), text[:-1] + ",}", f"```json\n{text}\n```"))
    return Answer(None, (evolve(turn.calls[0], arguments=broken),))


def repeats_itself(turn: Turn, rng: random.Random) -> Answer | None:
    """Make a call again that was made before."""
    if not turn.earlier:
        return None
    return Answer(None, (evolve(rng.choice(turn.earlier), id=f"call-{rng.randrange(10**6)}"),))


def answers_beside_calls(turn: Turn, rng: random.Random) -> Answer | None:
    """Deliver an answer in the same turn as the calls that it ought to rest on."""
    if not (turn.calls and turn.by_tool):
        return None
    end = Call("final-answer", {"answer": turn.task.wrong}, "call-end")
    return Answer(None, (*turn.calls, end))


def takes_a_tool_it_should_not(turn: Turn, rng: random.Random) -> Answer | None:
    """Call a tool although none fits."""
    if turn.task.work or not turn.task.tools:
        return None
    definition = turn.task.tools[0].definition
    names = definition.parameters.get("properties", {})
    arguments = dict.fromkeys(names, "window") if isinstance(names, dict) else {}
    return Answer(None, (Call(definition.name, arguments, f"call-{rng.randrange(10**6)}"),))


SLIPS: Mapping[str, Slip] = {
    slip.__name__.replace("_", " "): slip
    for slip in (
        announces,
        announces_with_findings,
        announces_the_answer,
        offers,
        muses,
        says_nothing,
        is_cut_off,
        answers_early,
        claims_to_have_done_it,
        gives_up_after_an_error,
        writes_the_call,
        breaks_off_the_call,
        calls_an_unknown_tool,
        forgets_an_argument,
        gives_wrong_types,
        gives_whole_numbers,
        asks_for_several_at_once,
        breaks_the_json,
        repeats_itself,
        answers_beside_calls,
        takes_a_tool_it_should_not,
    )
}
"""All kinds of slips, by their names in reports."""


@frozen
class Profile:
    """How a simulated model behaves.

    Attributes:
        rate: the share of turns that slip, 0 to 1.
        kinds: the kinds that occur, all of them alike.
        heeds: how much rarer a slip is in the turn after the model was told something, 0 to 1.
        answers_by_text: the share of right answers given as text although ``final-answer`` is offered.
        in_parallel: whether independent calls are made in one turn.
    """

    name: str
    rate: float
    kinds: frozenset[str] = field(default=frozenset(SLIPS))
    heeds: float = 0.6
    answers_by_text: float = 0.35
    in_parallel: bool = False


CAPABLE = Profile("capable", 0.0, answers_by_text=0.1, in_parallel=True)
BY_TEXT = evolve(CAPABLE, name="capable, answers by text", answers_by_text=1.0)
WEAK = Profile("weak", 0.5)


def of_one_kind(kind: str, rate: float = 0.5) -> Profile:
    """Return a profile that slips in one way only."""
    return Profile(f"only: {kind}", rate, frozenset({kind}))
