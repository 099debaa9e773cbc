"""How much of a model's window a conversation takes.

One figure is exact, the provider's own, and one bound holds for every tokenizer: a token stands for a byte or
more. So a request surely fits when the provider's last count and the bytes that were added since fit
together; nothing in between is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve, field, frozen

from reactive_agents.core.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.usage import Usage
from reactive_agents.core.values import LIVE, Value, replaced

FRAME = 8
"""Tokens at most that set off a message, a call or a tool from what is around it."""
_LONGEST_TOKEN = 16
"""Bytes. A provider that reports fewer tokens than the text has such pieces reports a wrong count."""


_MOST_PER_TOKEN = 8
"""Characters a token, over a whole prompt, above which a part of it was not read."""
_FEWEST_PER_TOKEN = 2
"""Bytes a token, over what has come since the request before, of a text as it is usual."""
_LEAST_COUNT = 1_024


@frozen(slots=False, eq=False, repr=False)
class TokenEstimate(Value):
    """The known size of a transcript; each figure is 0 while unknown.

    Attributes:
        sized: number of first messages that ``bytes`` covers.
        counted: number of first messages that ``tokens`` covers.
        tokens: upper bound for prefix, tools and counted messages: by the provider or the model's tokenizer,
            and in bytes where neither has counted.
        fixed: bytes of the prefix and the tools.
        fixed_tokens: their tokens, by the provider.
        limit: tokens of the model's window, by the provider's refusal.
        tools: bytes of the tools that ``fixed`` covers.
        read: tokens of the latest request, by the provider.
        read_bytes: bytes of the transcript in that request.
        read_guidance: bytes of the guidance in that request, which is in no later one.
        shown: the tools that ``fixed`` covers; none where the estimate was read from JSON.
    """

    sized: int = 0
    bytes: int = 0
    counted: int = 0
    tokens: int = 0
    fixed: int = 0
    fixed_tokens: int = 0
    limit: int = 0
    tools: int = 0
    read: int = 0
    read_bytes: int = 0
    read_guidance: int = 0
    shown: tuple[ToolDefinition, ...] = field(default=(), eq=False, repr=False, metadata=LIVE)


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def call_size(call: ToolCall) -> int:
    """Return an upper bound of the tokens of a call."""
    given = text_size(call.malformed) if call.malformed else 0
    return FRAME + len(call.name) + text_size(call.id) + text_size(call.arguments_text) + given


def message_size(message: Message) -> int:
    """Return an upper bound of the tokens of a message, as it is sent."""
    size = FRAME + text_size(message.content)
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            size += call_size(call)
        return size
    if isinstance(message, SystemMessage):
        return size
    if isinstance(message, ToolMessage):
        size += text_size(message.call_id) + len(message.tool_name)
    return size + sum([part.tokens for part in message.parts]) if message.parts else size


def fixed_size(prefix: Iterable[Message], tools: Iterable[ToolDefinition]) -> int:
    """Return an upper bound of the tokens at the beginning of every request of a run."""
    return sum(map(message_size, prefix)) + sum([FRAME + tool.prompt_bytes for tool in tools])


def sized(estimate: TokenEstimate, messages: Sequence[Message]) -> tuple[int, int]:
    """Return the bytes of a transcript, and of the part that no token count covers."""
    done, size = estimate.sized, estimate.bytes
    if done > len(messages):  # another caller has rebuilt the transcript
        size = sum(map(message_size, messages))
        return size, size
    added = 0
    for position in range(done, len(messages)):
        piece = message_size(messages[position])
        size += piece
        if position >= estimate.counted:
            added += piece
    return size, added


def at_most(estimate: TokenEstimate, size: int, added: int) -> int:
    """Return an upper bound of a request's tokens, by the last count or by bytes.

    Args:
        size: bytes of the transcript and of the guidance.
        added: bytes of the parts of the request that were not counted.
    """
    whole = (estimate.fixed_tokens or estimate.fixed) + size
    return min(whole, estimate.tokens + added) if estimate.tokens else whole


def without_counts(estimate: TokenEstimate) -> TokenEstimate:
    """Return the estimate without the counts of a transcript that was replaced."""
    return evolve(estimate, sized=0, bytes=0, counted=0, tokens=0, read=0)


def with_fixed_parts(
    estimate: TokenEstimate, prefix: Iterable[Message], tools: Sequence[ToolDefinition]
) -> tuple[TokenEstimate, int]:
    """Return the estimate for these tools, and the bytes of uncounted ones."""
    if estimate.fixed and tools is estimate.shown:
        return estimate, 0
    size = sum([tool.prompt_bytes for tool in tools])
    if not estimate.fixed:  # the first request
        return replaced(estimate, fixed=fixed_size(prefix, tools), tools=size, shown=tuple(tools)), 0
    before = set(map(id, estimate.shown))
    new = [tool for tool in tools if id(tool) not in before]
    if estimate.tools == size and not (new and before):
        return estimate, 0
    fixed = fixed_size(prefix, tools)
    more = fixed_size((), new) if before else max(0, fixed - estimate.fixed)
    tokens = min(estimate.fixed_tokens + more, fixed) if estimate.fixed_tokens else 0
    changes = {"fixed": fixed, "fixed_tokens": tokens, "tools": size, "shown": tuple(tools), "read": 0}
    return replaced(estimate, **changes), more


def unread(
    estimate: TokenEstimate, size: int, characters: Callable[[], int], usage: Usage, *, guidance: int = 0
) -> bool:
    """Return whether the provider read far less than it was sent.

    Some servers drop the oldest part of a prompt that is longer than their window, and report only the tokens
    of the rest. That shows when there are too many characters for each token, or when a request that only
    adds to the one before has no more tokens than that. Other servers count only the tokens that are not in
    their cache, which are those added since: a count that this explains shows nothing.

    Args:
        estimate: as it was when the request was sent.
        size: bytes of the transcript in the request.
        characters: counts the characters of the request; called only if its bytes give reason to.
        usage: as the provider reports it; no server has a window of less than 1,024 tokens.
        guidance: bytes of the guidance in the request.
    """
    tokens = usage.input_tokens
    if not usage.reported or tokens < _LEAST_COUNT:
        return False
    grown = size - estimate.read_bytes
    if estimate.read_bytes and tokens * _FEWEST_PER_TOKEN <= grown:
        return False
    if tokens * _MOST_PER_TOKEN < estimate.fixed + size and tokens * _MOST_PER_TOKEN < characters():
        return True
    if not estimate.read or grown < _LONGEST_TOKEN:
        return False
    # guidance that is gone is a token for each byte at the most
    before = estimate.read - max(0, estimate.read_guidance - guidance)
    return tokens <= before


def answered(
    estimate: TokenEstimate, sent: int, size: int, added: int, usage: Usage, *, guidance: int = 0
) -> TokenEstimate:
    """Return the estimate after an answer.

    Args:
        estimate: the estimate when the request was sent.
        sent: number of messages of the transcript in the request; the answer is the next one.
        size: their bytes.
        added: bytes of the request that the tokens of the estimate do not cover.
        usage: the usage that the provider reports; a count that is too small for the bytes is not used.
        guidance: bytes of the guidance in the request.
    """
    if not usage.reported or usage.total_tokens * _LONGEST_TOKEN < estimate.fixed + size:
        counted, tokens = (sent, estimate.tokens + added) if estimate.tokens else (0, 0)
        first = False
    else:
        counted, tokens = sent + 1, usage.total_tokens
        first = not sent and usage.input_tokens * _LONGEST_TOKEN >= estimate.fixed
    return TokenEstimate(
        sent,
        size,
        counted,
        tokens,
        estimate.fixed,
        usage.input_tokens if first else estimate.fixed_tokens,
        estimate.limit,
        estimate.tools,
        usage.input_tokens if counted > sent else 0,
        size,
        guidance,
        estimate.shown,
    )


@frozen(slots=False, eq=False, repr=False)
class Transcript(Value):
    """Figures of a run's transcript beside its messages.

    Attributes:
        shown_in_part: whether a preview was shown, so that the model is offered ``recall``.
        lost: the sentence about a part of it that the model did not read; empty when it read everything.
        shortened_to: its bytes right after it was last summarized; 0 before, and after turns were dropped.
        taken_out: bytes that summaries and dropped turns have saved so far.
        last_words: the last text of the model, which may be in no message any more.
        failing: calls that had failed when it was last summarized, with errors.
        failing_at: the number of steps then.
    """

    estimate: TokenEstimate = replaced(TokenEstimate())
    shown_in_part: bool = False
    shortened_to: int = 0
    taken_out: int = 0
    last_words: str | None = None
    lost: str = ""
    failing: tuple[tuple[str, str], ...] = ()
    failing_at: int = 0


def transcript_size(messages: Iterable[Message]) -> int:
    """Return the bytes of messages, with those of their calls."""
    return sum(map(message_size, messages))
