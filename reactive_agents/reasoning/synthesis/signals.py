"""What can be told about a run at no cost, for the decision whether its transcript is put in short."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.config import ContextTier
from reactive_agents.kernel import KernelContext, KernelState

CHARACTERS_PER_TOKEN = 4
"""What a token is taken for where the provider has not counted."""


@frozen(slots=False)
class SynthesisSignals:
    """Figures that are at hand before each of the model's turns.

    Attributes:
        iteration: turns that the model has taken.
        characters: of the transcript.
        tokens: as the provider counted them for the last turn, or by the characters where that is more.
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
        return self.characters / (self.window_tokens * CHARACTERS_PER_TOKEN)

    @property
    def history_share(self) -> float:
        """What all turns so far would take of the window."""
        return self.history / (self.window_tokens * CHARACTERS_PER_TOKEN)


def signals_of(state: KernelState, context: KernelContext) -> SynthesisSignals:
    """The signals of a state whose transcript is measured."""
    account, ledger, profile = state.transcript, state.ledger, context.profile
    return SynthesisSignals(
        iteration=state.iteration,
        characters=account.characters,
        tokens=max(state.context_tokens, account.characters // CHARACTERS_PER_TOKEN),
        shortened_to=account.shortened_to,
        history=account.characters + account.taken_out,
        window_tokens=profile.window_tokens,
        tier=profile.tier,
        idle_turns=ledger.idle_turns,
        novelty=ledger.novelty,
    )
