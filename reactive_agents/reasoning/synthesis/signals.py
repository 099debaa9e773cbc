"""What can be told about a run at no cost, for the decision whether its transcript is put in short."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.config import ContextTier
from reactive_agents.core.messages import ToolMessage
from reactive_agents.kernel import KernelContext, KernelState
from reactive_agents.kernel.extent import FRAME, at_most, sized
from reactive_agents.kernel.transcript import characters_of
from reactive_agents.kernel.window import usual_window


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
