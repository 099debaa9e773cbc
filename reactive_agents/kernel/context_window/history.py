"""The conversation that a run continues, within a share of the model's window.

What does not fit is left out from the oldest on, a whole run of the conversation at a time, so that calls
stay with their results. It is kept as a text that ``recall`` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from attrs import evolve

from reactive_agents.core.conversation import History, conversation_lines
from reactive_agents.core.messages import ToolMessage, UserMessage
from reactive_agents.kernel.context_window.token_estimate import message_size

HISTORY_SHARE = 0.5
"""Of the window, the most that the messages of earlier runs take."""
BYTES_PER_TOKEN = 3
"""Of a conversation, at least; what is longer is cut a little early."""
LONGEST_EARLIER = 50_000
"""Characters of what is left out that ``recall`` reads, the newest ones."""


def history_size(window_tokens: int) -> int:
    """Return the most bytes of earlier messages that a run is shown."""
    return int(window_tokens * HISTORY_SHARE) * BYTES_PER_TOKEN


def fit_history(history: History, size: int) -> History:
    """Return the history with the newest messages, of at most so many bytes.

    It begins with a message of the user. The messages before become part of ``earlier``.
    """
    messages = history.messages
    taken = list(accumulate(map(message_size, reversed(messages))))
    if not taken or taken[-1] <= size:
        return history
    first = next(
        (
            index
            for index, message in enumerate(messages)
            if isinstance(message, UserMessage) and taken[len(messages) - 1 - index] <= size
        ),
        len(messages),
    )
    kept = messages[first:]
    shown = "\n".join(message.content for message in kept if isinstance(message, ToolMessage))
    return evolve(
        history,
        messages=kept,
        results={key: text for key, text in history.results.items() if key in shown},
        earlier=newest_text((history.earlier, "\n".join(conversation_lines(messages[:first])))),
        left_out=history.left_out + first,
    )


def newest_text(texts: Sequence[str]) -> str:
    """Return the end of texts that follow each other, as far as ``recall`` reads it."""
    return "\n".join(filter(None, texts))[-LONGEST_EARLIER:]
