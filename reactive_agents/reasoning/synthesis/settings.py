"""What can be told about a run at no cost, for the decision whether its transcript is put in short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.config import ContextTier, ReasoningConfig, SynthesisMode, SynthesisOverrides
from reactive_agents.core.messages import ToolMessage
from reactive_agents.kernel import KernelContext, KernelState
from reactive_agents.kernel.context_window.token_estimate import FRAME, at_most, characters_of, sized
from reactive_agents.kernel.context_window.window import usual_window
from reactive_agents.reasoning.synthesis.notes import SynthesisMaterial


@frozen
class Filling:
    """How much of its window the next request takes at most, by the figures that compaction goes by.

    Attributes:
        tokens: of the request.
        transcript_tokens: of the transcript in it.
        window_tokens: the window for which compaction begins at seven eighths.
    """

    tokens: int
    transcript_tokens: int
    window_tokens: int


def filling_of(state: KernelState, context: KernelContext) -> Filling:
    """The filling before the model's next turn; only messages that are new are looked at."""
    extent = state.extent
    size, added = sized(extent, state.messages)
    tokens = at_most(extent, size, added)
    counted = tokens - extent.fixed_tokens
    return Filling(tokens, size if size < counted else max(0, counted), usual_window(context, extent))


_LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8, at most."""


def is_surely_below(state: KernelState, context: KernelContext, share: float) -> bool:
    """Whether the transcript takes less than a share of the window, as is soon found out for most.

    False says nothing. What the provider has counted is most of it; the results after that have at most four
    bytes a character.
    """
    extent = state.extent
    most = extent.tokens
    if not most:
        return False
    for message in state.messages[extent.counted :]:
        if not isinstance(message, ToolMessage):
            return False
        characters = len(message.content) + len(message.call_id) + len(message.tool_name)
        most += FRAME + _LONGEST_CHARACTER * characters
    return most < share * usual_window(context, extent)


@frozen
class SynthesisSignals:
    """Figures that are at hand before each of the model's turns.

    Attributes:
        iteration: turns that the model has taken.
        characters: of the transcript.
        tokens: of the next request at most: as the provider counted the last turn, and with a token for each
            byte that it has not counted.
        transcript_tokens: of the transcript, in the same way.
        shortened_to: characters of the transcript when it was last put in short; 0 before.
        history: characters of all turns so far, those in short at their full length.
        window_tokens: what the model can hold.
        idle_turns: turns in a row that brought nothing new.
        novelty: 0 to 1, the share of new words in the last results; ``None`` without results.
    """

    iteration: int
    characters: int
    tokens: int
    transcript_tokens: int
    shortened_to: int
    history: int
    window_tokens: int
    tier: ContextTier
    idle_turns: int = 0
    novelty: float | None = None

    @property
    def window_share(self) -> float:
        """The tokens as a part of the window; may exceed 1."""
        return self.tokens / self.window_tokens

    @property
    def transcript_share(self) -> float:
        """The transcript alone as a part of the window."""
        return self.transcript_tokens / self.window_tokens

    @property
    def history_share(self) -> float:
        """What all turns so far would take of the window."""
        return self.history / self.window_characters

    @property
    def characters_per_token(self) -> float:
        """Of the transcript; about 1 where the provider has not counted."""
        return max(1, self.characters) / max(1, self.transcript_tokens)

    @property
    def window_characters(self) -> float:
        """The window in characters."""
        return self.window_tokens * self.characters_per_token


def signals_of(state: KernelState, context: KernelContext) -> SynthesisSignals:
    """The signals of a state."""
    account, ledger, filling = state.transcript, state.ledger, filling_of(state, context)
    characters = characters_of(state.messages)
    return SynthesisSignals(
        iteration=state.iteration,
        characters=characters,
        tokens=filling.tokens,
        transcript_tokens=filling.transcript_tokens,
        shortened_to=account.shortened_to,
        history=characters + account.taken_out,
        window_tokens=filling.window_tokens,
        tier=context.profile.tier,
        idle_turns=ledger.idle_turns,
        novelty=ledger.novelty,
    )


# --- Whether a transcript is put in short before the next turn, and how ---


LEAST_SHARE = 0.25
"""Of the window, the transcript below which nothing is put in short in any mode."""
FAST_SHARE = 0.5
"""Of the window, from where on ``auto`` puts in short."""
DEEP_SHARE = 0.75
"""Of the window, the history of the run from where on ``auto`` asks a model, where the model is large."""
GROWTH = 1.5
"""What the transcript must have grown to since the last time, as a multiple."""
LATE_SHARE = 0.75
"""Of the window, from where on it need not have grown that much: it would have to be compacted soon."""
LATE_GROWTH = 1.1
"""What the transcript must have grown to then."""

SynthesisMethod: TypeAlias = Literal["fast", "deep", "custom"]


@frozen
class Choice:
    """How the transcript is put in short, and why."""

    method: SynthesisMethod
    reason: str


def choose(mode: SynthesisMode, signals: SynthesisSignals) -> Choice | None:
    """The method, or ``None`` when the transcript stays as it is."""
    if mode == "off" or signals.transcript_share < LEAST_SHARE:
        return None
    late = signals.window_share >= LATE_SHARE
    if signals.characters < (LATE_GROWTH if late else GROWTH) * signals.shortened_to:
        return None
    if mode == "auto" and signals.window_share < FAST_SHARE:
        return None
    share = f"The transcript takes {signals.window_share:.0%} of the window"
    if mode != "auto":
        return Choice(mode, f"{share}, and {mode} is configured.")
    if signals.tier in ("large", "frontier") and signals.history_share >= DEEP_SHARE:
        return Choice("deep", f"{share}, and the whole run would take {signals.history_share:.0%}.")
    return Choice("fast", f"{share}.")


# --- How a strategy's transcript is put in short: its own settings before those of all strategies ---


SynthesisFunction: TypeAlias = Callable[[SynthesisMaterial], str | Awaitable[str]]
"""What earlier turns come to, as text; sync or async. It fails by raising, and with what is no text."""

GIVEN = ""
"""The name of the function that was given as such, and not by its name."""

_NONE_OF_ITS_OWN = SynthesisOverrides()


@frozen
class SynthesisSettings:
    """What the configuration comes to for one strategy.

    Attributes:
        model: of ``deep``, as ``provider/model``; ``None`` takes the run's.
        function: of ``custom``; without one, ``fast`` stands in.
    """

    mode: SynthesisMode = "auto"
    model: str | None = None
    temperature: float = 0.0
    function: SynthesisFunction | None = None


def overrides_of(config: ReasoningConfig, strategy: str) -> SynthesisOverrides:
    """The settings of a strategy's own; none for strategies that have no table in the configuration."""
    tables: dict[str, SynthesisOverrides] = {
        "reactive": config.strategies.reactive,
        "plan-execute-reflect": config.strategies.plan_execute,
        "tree-of-thought": config.strategies.tree_of_thought,
        "reflexion": config.strategies.reflexion,
    }
    return tables.get(strategy.replace("_", "-"), _NONE_OF_ITS_OWN)


def synthesis_settings(
    config: ReasoningConfig, strategy: str, functions: Mapping[str, SynthesisFunction]
) -> SynthesisSettings:
    """Each field as the strategy sets it, else as the configuration does for all strategies.

    Args:
        strategy: its registered name; ``adaptive`` and strategies of one's own have no fields of their own.
        functions: by the names that ``synthesis_strategy`` has for them.
    """
    own = overrides_of(config, strategy)
    temperature = own.synthesis_temperature
    return SynthesisSettings(
        mode=own.synthesis or config.synthesis,
        model=model_of(config, own),
        temperature=config.synthesis_temperature if temperature is None else temperature,
        function=function_of(config, own, functions),
    )


def model_of(config: ReasoningConfig, own: SynthesisOverrides) -> str | None:
    """The model of ``deep`` with its provider; a strategy's own full name needs no provider."""
    model = own.synthesis_model or config.synthesis_model
    if own.synthesis_model and "/" in own.synthesis_model and own.synthesis_provider is None:
        return model
    provider = own.synthesis_provider or config.synthesis_provider
    if not model or not provider or model.startswith(f"{provider}/"):
        return model
    return f"{provider}/{model}"


def function_of(
    config: ReasoningConfig, own: SynthesisOverrides, functions: Mapping[str, SynthesisFunction]
) -> SynthesisFunction | None:
    """The function of ``custom``: the strategy's own, else the one that was given, else the one for all."""
    if own.synthesis_strategy:
        return functions.get(own.synthesis_strategy)
    return functions.get(GIVEN) or functions.get(config.synthesis_strategy or GIVEN)
