"""Tokens, as providers count them."""

from __future__ import annotations

from attrs import frozen


@frozen
class Usage:
    """Tokens as the provider counted them, never guessed.

    ``reported`` is false when the provider sent no usage: the counts are then 0 because they are unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    reported: bool = True

    def __add__(self, other: Usage) -> Usage:
        """The two together; reported only when both are."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            self.reported and other.reported,
        )
