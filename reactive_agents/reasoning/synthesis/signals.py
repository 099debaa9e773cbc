"""What can be told about a run at no cost, for the decision whether its transcript is put in short."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.config import ContextTier
from reactive_agents.kernel import KernelContext, KernelState

LONGEST_TOKEN = 16
"""Characters. A provider that reports fewer tokens than the transcript has such pieces is not believed."""


@frozen(slots=False)
class SynthesisSignals:
    """Figures that are at hand before each of the model's turns.

    Attributes:
        iteration: turns that the model has taken.
        characters: of the transcript.
        tokens: as the provider counted them for the last turn; else the characters, of which a token has at
            least one, so that a transcript is put in short before it would have to be compacted.
        shortened_to: characters of the transcript when it was last put in short; 0 before.
        history: characters of all turns so far, those in short at their full length.
        window_tokens: what the model's profile says that it can hold.
        idle_turns: turns in a row that brought nothing new.
        novelty: 0 to 1, the share of new words in the last results; ``None`` without results.
    """

    iteration: int
    characters: int
    tokens: int
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
        """The transcript's own characters as a part of the window."""
        return self.characters / self.window_characters

    @property
    def history_share(self) -> float:
        """What all turns so far would take of the window."""
        return self.history / self.window_characters

    @property
    def characters_per_token(self) -> float:
        """What the provider's count comes to; 1 where it has not counted."""
        return max(1.0, self.characters / max(1, self.tokens))

    @property
    def window_characters(self) -> float:
        """The window in characters."""
        return self.window_tokens * self.characters_per_token


def signals_of(state: KernelState, context: KernelContext) -> SynthesisSignals:
    """The signals of a state whose transcript is measured."""
    account, ledger, profile = state.transcript, state.ledger, context.profile
    counted = state.context_tokens
    believed = counted * LONGEST_TOKEN >= account.characters
    return SynthesisSignals(
        iteration=state.iteration,
        characters=account.characters,
        tokens=counted if counted and believed else account.characters,
        shortened_to=account.shortened_to,
        history=account.characters + account.taken_out,
        window_tokens=profile.window_tokens,
        tier=profile.tier,
        idle_turns=ledger.idle_turns,
        novelty=ledger.novelty,
    )
