"""Context profiles of models, and the size of their windows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TypeAlias

from attrs import asdict, evolve, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core import config, errors
from reactive_agents.core.content import parts_in
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import Message, ToolMessage
from reactive_agents.core.model_settings import UNSET, Unset
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.values import Value, lazy_pattern
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.token_estimate import TokenEstimate, fixed_size, message_size
from reactive_agents.kernel.state import KernelState
from reactive_agents.ports import TokenCounter

_LOCAL_RUNNERS = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile"})
_LOCAL_WORDS = frozenset({"nano", "tiny", "micro"})
_MID_WORDS = frozenset({"mini", "haiku", "flash", "lite", "small", "instant", "fast"})
_SIZE = lazy_pattern(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])")
_LARGEST_LOCAL, _LEAST_LARGE = 15.0, 65.0  # billions of parameters
_FAMILIES: tuple[tuple[str, config.ContextTier], ...] = (
    (r"(?:phi|smollm|tinyllama|ministral|gemma)", "local"),
    (r"claude-(?:instant|[123](?![0-9]))", "large"),
    (r"claude-(?:\w+-)*(?:sonnet|opus)", "frontier"),
    (r"gpt-(?:[5-9]|[1-9]\d)(?!\d)", "frontier"),
    (r"gemini-(?:[\w.]+-)*pro", "frontier"),
    (r"grok-(?:[4-9]|[1-9]\d)", "frontier"),
    (r"o[13](?![a-z0-9])", "frontier"),
    (r"gpt-4(?:o|\.\d|-turbo)", "large"),
    (r"(?:mistral|pixtral)-large", "large"),
    (r"(?:deepseek|kimi|glm|grok|command-a|command-r-plus|nova-pro|nova-premier)", "large"),
    (r"qwen(?:[\d.]*)-(?:max|plus)", "large"),
)
"""Beginnings of names, after which the first that fits counts."""


@cache
def profile_for(model: str) -> config.ContextProfile:
    """Return the profile of a model by its name; ``mid`` for an unknown name.

    Args:
        model: as ``provider/model`` or without the provider. A model on the user's own machine is
            ``local``; then words for small models decide, then the number of parameters, then the family.
    """
    return config.CONTEXT_PROFILES[_tier_of(model.lower())]


def merge_profile(
    baseline: config.ContextProfile,
    overrides: config.ContextProfileOverrides,
    max_tokens: int | Unset | None = UNSET,
) -> config.ContextProfile:
    """Return the baseline, or the profile of the override's tier, with overrides.

    Args:
        max_tokens: the user's upper bound of an answer, before that of the profile.
    """
    if overrides is not config.NO_PROFILE_OVERRIDES and overrides != config.NO_PROFILE_OVERRIDES:
        base = baseline if overrides.tier is None else config.CONTEXT_PROFILES[overrides.tier]
        given = {name: value for name, value in asdict(overrides).items() if value is not None}
        baseline = evolve(base, **given)
    return baseline if max_tokens is UNSET else evolve(baseline, max_answer_tokens=max_tokens)


def profile_under(model: str, settings: RunSettings) -> config.ContextProfile:
    """Return the profile of the model that a run asks, with what its settings say."""
    return merge_profile(profile_for(model), settings.limits_of_model, settings.model_settings.max_tokens)


def _tier_of(name: str) -> config.ContextTier:
    runner, _, _ = name.partition("/")
    words = set(re.split(r"[^a-z0-9.]+", name))
    if runner in _LOCAL_RUNNERS or words & _LOCAL_WORDS:
        return "local"
    sizes = [float(size) * int(experts or 1) for experts, size in _SIZE.findall(name)]
    if sizes and max(sizes) <= _LARGEST_LOCAL:
        return "local"
    if words & _MID_WORDS:
        return "mid"
    if sizes:
        return "large" if max(sizes) >= _LEAST_LARGE else "mid"
    for beginning, tier in _FAMILIES:
        if re.search(rf"(?<![a-z0-9]){beginning}", name):
            return tier
    return "mid"


# --- Whether a request fits the model's window, and what is sent when it does not ---


_MOST_PER_TOKEN = 8
"""Characters a token at the most, over a whole prompt: what has more can be refused without being counted."""


@frozen(eq=False, repr=False)
class Window(Value):
    """The model's window, in tokens.

    ``known``: whether it is configured or listed, so that requests may be refused by it, and not assumed.
    """

    tokens: int
    known: bool


Count: TypeAlias = Callable[[ModelRequest], int | None]
"""The tokens of messages and tools; ``None`` when only their bytes are known."""


def model_window(
    overrides: config.ContextProfileOverrides,
    profile: config.ContextProfile,
    counter: Maybe[TokenCounter],
    model: str | None,
) -> Window:
    """Return the window of a model.

    It is the one of the configuration, else of the provider, else of the profile.

    Args:
        profile: the profile of the model, with the overrides.
        model: ``None`` for the one that answers requests which name none.
    """
    known, asked = overrides.window_tokens, counter.value_or(None)
    if known is None and asked is not None:
        known = asked.window(model)
    return Window(profile.window_tokens if known is None else known, known is not None)


def window_of(context: KernelContext, estimate: TokenEstimate) -> Window:
    """Return the window of a run's model.

    A smaller one that the provider stated when it refused a request has precedence.
    """
    given = context.input
    window = model_window(given.settings.limits_of_model, context.profile, context.counter, given.model)
    return Window(min(window.tokens, estimate.limit), True) if estimate.limit else window


def budget_of(window_tokens: int, max_tokens: int | None) -> int:
    """The tokens that a request may have: the window without what the answer may take.

    Args:
        max_tokens: the upper bound of the answer, of which half the window is set aside at most; ``None``
            sets an eighth of the window aside.
    """
    return window_tokens - (window_tokens // 8 if max_tokens is None else min(max_tokens, window_tokens // 2))


def usual_window(context: KernelContext, window: Window) -> int:
    """Return the window's tokens, or those with the same budget after a short answer.

    So a share of it is reached before the whole budget, however large the answer may be.
    """
    reserved = context.input.max_tokens or context.profile.max_answer_tokens
    if reserved is None or reserved * 8 <= window.tokens:
        return window.tokens
    return max(1, budget_of(window.tokens, reserved) * 8 // 7)


@frozen(eq=False, repr=False)
class FittedRequest(Value):
    """A request that fits.

    Attributes:
        stored: what was taken out and is kept nowhere else, by its key.
        tokens: the most tokens of the request, if those around the transcript were counted; otherwise 0.
    """

    request: ModelRequest
    messages: tuple[Message, ...]
    stored: Mapping[str, str]
    tokens: int = 0


@frozen(eq=False, repr=False)
class RequestFrame(Value):
    """Where the transcript is in a request, and what is known of the rest.

    Attributes:
        prefix: messages before the transcript.
        suffix: messages after it.
        measured: tokens that prefix and tools have at most, when the provider has counted them; else 0.
        refusable: whether a prefix that cannot fit is a failure, or the provider's to judge.
    """

    prefix: int
    suffix: int = 0
    measured: int = 0
    refusable: bool = True


def fit_request(
    request: ModelRequest,
    budget: int,
    count: Count,
    *,
    frame: RequestFrame,
    state: KernelState,
    halve: bool = False,
) -> Result[FittedRequest, errors.ContextOverflow]:
    """The request within the budget, with the transcript compacted when it must be.

    What cannot be counted is taken at a token for each byte. Fails with ``ContextOverflow`` when what every
    request begins with is too large by itself: when it was counted, or when it has more characters than any
    tokenizer could fit. In between the transcript gets a quarter of the budget.

    Args:
        budget: tokens, 1 or more.
        halve: give it half of what it takes now, because the provider refused it.
    """
    end = len(request.messages) - frame.suffix
    before, body, after = (
        request.messages[: frame.prefix],
        request.messages[frame.prefix : end],
        request.messages[end:],
    )

    def cost(message: Message) -> int:
        bound = message_size(message)
        counted = count(evolve(request, messages=(message,), tools=()))
        return bound if counted is None else min(bound, counted)

    around = evolve(request, messages=before + after)
    counted = count(around)
    if counted is not None:
        fixed = counted
    elif frame.measured:
        fixed = frame.measured + sum(map(message_size, after))
    else:
        fixed = fixed_size(around.messages, request.tools)
    if frame.refusable and _too_large(around, fixed, budget, exact=counted is not None):
        return Failure(_overflow(request, fixed, budget, exact=counted is not None))
    room = max(budget - fixed, budget // 4 if counted is None else 0)
    taken = sum(map(cost, body))
    if halve:
        room = min(room, max((fixed + taken) // 2 - fixed, taken // 4))
    from reactive_agents.kernel.context_window.drop import compact  # by runs that outgrow the window

    compacted = compact(
        body,
        room,
        cost,
        goal=room if halve else room * 3 // 4,
        keys=result_keys(state, body),
        scratchpad=state.scratchpad,
    )
    tokens = 0 if counted is None else fixed + compacted.cost
    fitted = evolve(request, messages=before + compacted.messages + after)
    return Success(FittedRequest(fitted, compacted.messages, compacted.stored, tokens))


def _too_large(fixed: ModelRequest, size: int, budget: int, *, exact: bool) -> bool:
    if size <= budget:
        return False
    characters = sum(len(message.content) for message in fixed.messages) + sum(
        len(tool.description) + len(tool.schema_text) for tool in fixed.tools
    )
    characters += sum(part.size for part in parts_in(fixed.messages) if part.media_type.startswith("text/"))
    return exact or characters > _MOST_PER_TOKEN * budget


def _overflow(request: ModelRequest, size: int, budget: int, *, exact: bool) -> errors.ContextOverflow:
    much = f"{size} tokens" if exact else f"{size} bytes"
    return errors.ContextOverflow(
        f"The system prompt, the task and the tools take {much}; the window has room for {budget} tokens. "
        "If the model has more, probe it again or set window_tokens. A longer text can be read by a tool, "
        "such as file-read or that of a DocumentIndex.",
        request.model or "",
        budget,
    )


def result_keys(state: KernelState, messages: Iterable[Message]) -> dict[CallId, str]:
    """Return for each call with a stored result in these messages the key of that."""
    wanted = {message.call_id for message in messages if isinstance(message, ToolMessage)}
    keys: dict[CallId, str] = {}
    for step in reversed(state.steps):
        known = step.metadata
        if known is None or known.call_id is None or known.call_id not in wanted or step.type == "action":
            continue
        wanted.discard(known.call_id)
        if known.result_key is not None:
            keys[known.call_id] = known.result_key
        if not wanted:  # earlier steps are of turns that were dropped long ago
            break
    return dict(reversed(keys.items()))
