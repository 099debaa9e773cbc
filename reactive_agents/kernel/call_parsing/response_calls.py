"""The calls of a model's response: native ones, or calls written as text.

Parsing and repair are imported for the first response that may need them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread
from attrs import evolve, frozen

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.redaction import joined_texts
from reactive_agents.core.tools import FINAL_ANSWER, RESERVED_NAMES, ToolDefinition
from reactive_agents.core.values import Value, lazy_pattern
from reactive_agents.kernel.call_parsing.argument_schema import fits_exactly, properties_of, required_of

if TYPE_CHECKING:
    from reactive_agents.kernel.call_parsing.json_calls import ParsedCall


MOST_CALLS = 128
"""Maximum calls of a turn that are run; of more in a text, one is kept, to be refused."""
_MUCH_SHOWN = 20_000
"""Characters."""


@frozen(eq=False, repr=False)
class Authorship(Value):
    """The facts that decide whether a call in a text counts as made by the model.

    Attributes:
        shown: returns the texts of others that were shown to the model in this run.
        outside: returns those of them that are not from the user.
        approves: whether there is an approver for calls of harmful tools.
        guarded: whether a call of any tool in a text needs approval.
    """

    shown: Callable[[], Sequence[str]]
    outside: Callable[[], Sequence[str]] = tuple
    approves: bool = False
    guarded: bool = False


@frozen(eq=False, repr=False)
class WrittenCalls(Value):
    """The calls of a text; ``unmade``: the tool of the first that is not run, if any."""

    calls: tuple[ToolCall, ...] = ()
    unmade: str = ""
    prose: str = ""
    thinking: str = ""


def may_hold_calls(text: str) -> bool:
    """Return whether a text has any sign of a call or of thinking."""
    return "{" in text or "[" in text or "<" in text or "(" in text or "Action" in text


_MAY_BE_MARKED = lazy_pattern(r"[<\[◁]|\A\s*(?:analysis\w|Thought:|Here is my thought)")


def without_marks(text: str) -> tuple[str, str]:
    """Return a text without marks of a chat template, and its thinking."""
    if _MAY_BE_MARKED.search(text) is None:
        return text, ""
    from reactive_agents.kernel.call_parsing.parser import split_thinking

    return split_thinking(text)


async def calls_of(
    response: ModelResponse, definitions: Sequence[ToolDefinition], author: Callable[[], Authorship]
) -> tuple[ModelResponse, str]:
    """Call :func:`read_calls`, in a thread if many texts were shown.

    A call is compared with many readings of all of them, which takes seconds for a megabyte.
    """
    if response.tool_calls or not may_hold_calls(response.content):
        return read_calls(response, definitions, author)
    if sum(map(len, author().shown())) < _MUCH_SHOWN:
        return read_calls(response, definitions, author)
    return await anyio.to_thread.run_sync(read_calls, response, definitions, author, abandon_on_cancel=True)


def read_calls(
    response: ModelResponse, definitions: Sequence[ToolDefinition], author: Callable[[], Authorship]
) -> tuple[ModelResponse, str]:
    """Return the response with repaired calls, or with those of its text.

    Thinking blocks in the text become thinking. The second value is the tool of a call in the text that is
    not run.

    Args:
        author: called for a text that may have a call.
    """
    unmade, cut_off = "", response.finish_reason == "length"
    if not response.tool_calls and not response.content.strip() and may_hold_calls(response.thinking):
        thought = written_calls(response.thinking, definitions, author(), cut_off=cut_off)
        if thought.calls:  # which ended the turn
            response = evolve(
                response, thinking=thought.prose, tool_calls=thought.calls, finish_reason="tool_calls"
            )
    if not response.tool_calls and may_hold_calls(response.content):
        written = written_calls(response.content, definitions, author(), cut_off=cut_off)
        unmade = written.unmade
        if written.calls or written.thinking:
            thinking = "\n\n".join(part for part in (response.thinking, written.thinking) if part)
            finish = "tool_calls" if written.calls else response.finish_reason
            response = evolve(
                response,
                content=written.prose,
                thinking=thinking,
                tool_calls=written.calls,
                finish_reason=finish,
            )
    if not unmade and not response.tool_calls:
        response, unmade = _with_answer(response, definitions, author)
    for call in response.tool_calls:
        if not fits_exactly(call, definitions):
            repaired = tuple(
                each if cut_off and each.malformed else _repaired(each, definitions)
                for each in response.tool_calls
            )
            return evolve(response, tool_calls=repaired), unmade
    return response, unmade


def _with_answer(
    response: ModelResponse, definitions: Sequence[ToolDefinition], author: Callable[[], Authorship]
) -> tuple[ModelResponse, str]:
    """Return the response with the answer of a ``final-answer`` in its text.

    A call that was shown to the model does not count.
    """
    text = response.content
    if "final-answer" not in text.casefold().replace("_", "-"):
        return response, ""
    from reactive_agents.kernel.call_parsing.spelled_calls import spelled_answer

    arguments = spelled_answer(text, whole=False)
    if arguments is None or not any(each.name == FINAL_ANSWER for each in definitions):
        return response, ""
    note = "The call was written as text (spelled)."
    call = ToolCall(CallId(""), FINAL_ANSWER, arguments, repairs=(note,), written=True)
    if _is_shown(call, definitions, author()):
        return response, FINAL_ANSWER
    return evolve(response, content="", tool_calls=(call,), finish_reason="tool_calls"), ""


def written_calls(
    text: str, definitions: Sequence[ToolDefinition], author: Authorship, *, cut_off: bool = False
) -> WrittenCalls:
    """Return the calls that the model made in its text: all of them, or none.

    None if the text only shows them, if one of them was shown to the model in this run, or if one is of a
    tool that does harm or delivers the result and there is no approver.

    Args:
        cut_off: whether the text reached the output limit. Broken JSON at its end may then lack arguments.
    """
    from reactive_agents.kernel.call_parsing.parser import parse_calls

    parsed = parse_calls(text, [definition.name for definition in definitions])
    if any(each.source == "name-line" and not _has_parameters(each, definitions) for each in parsed.calls):
        parsed = parse_calls(text, ())  # a heading and data
    calls = tuple(map(_to_tool_call, parsed.calls[: MOST_CALLS + 1]))
    guarded = {
        each.name
        for each in definitions
        if needs_care(each) or (author.guarded and each.name not in RESERVED_NAMES)
    }
    whole = parsed.made and not (cut_off and parsed.calls and parsed.calls[-1].repaired)
    made = whole and (author.approves or all(call.name not in guarded for call in calls))
    if not calls or (made and not any(_is_shown(call, definitions, author) for call in calls)):
        return WrittenCalls(calls, "", parsed.prose, parsed.thinking)
    return WrittenCalls((), calls[0].name, parse_calls(text, ()).prose, parsed.thinking)


def _has_parameters(call: ParsedCall, definitions: Sequence[ToolDefinition]) -> bool:
    schema = next(each.parameters for each in definitions if each.name == call.name)
    return required_of(schema) <= call.arguments.keys() <= properties_of(schema).keys()


def _is_shown(call: ToolCall, definitions: Sequence[ToolDefinition], author: Authorship) -> bool:
    """Return whether a call occurs in texts of others or definitions of other tools."""
    from reactive_agents.kernel.call_parsing.shown_calls import is_shown

    others = [each for each in definitions if each.name != call.name]  # each server has its own
    told = [f"{each.description}\n{joined_texts(each.parameters)}" for each in others]
    return is_shown(call, (*author.shown(), *told), author.outside())


def needs_care(definition: ToolDefinition) -> bool:
    """Return whether a call of the tool in a text always needs approval."""
    return definition.risk == "high" or definition.requires_approval or definition.output


def _to_tool_call(parsed: ParsedCall) -> ToolCall:
    repaired = ", its JSON repaired" if parsed.repaired else ""
    note = f"The call was written as text ({parsed.source}{repaired})."
    return ToolCall(CallId(""), parsed.name, parsed.arguments, repairs=(note,), written=True)


def _repaired(call: ToolCall, definitions: Sequence[ToolDefinition]) -> ToolCall:
    from reactive_agents.kernel.call_parsing.repair import repair_call

    repaired = repair_call(call, definitions)
    if not repaired.repairs:
        return call
    return evolve(repaired.call, repairs=(*call.repairs, *repaired.repairs))
