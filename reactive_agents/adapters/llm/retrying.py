"""When a refused request is sent again, and after how long."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from reactive_agents.adapters.llm.refusals import Refusal

if TYPE_CHECKING:
    from stamina import Attempt

_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 8.0
_JITTER_S: Final = 0.2


# without a handler, and when the user set none, each retry would print a bare line to the terminal
logging.getLogger("stamina").addHandler(logging.NullHandler())


class Refused(Exception):
    """Carries a refusal through the retry loop; never leaves the adapter."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.error.message)
        self.refusal = refusal


def attempts(*, at_most: int, longest_wait_s: float) -> AsyncIterator[Attempt]:
    """The attempts to ask one model, with growing waits between them.

    Raise :class:`Refused` within an attempt for the next; it comes out of the last one, and of one that is
    not worth repeating.

    Args:
        at_most: requests to send, 1 or more.
        longest_wait_s: a provider that asks for a longer wait, in seconds, is given up.
    """

    import stamina  # here, so that importing the adapter stays cheap

    def wait(error: Exception) -> bool | float:
        if not isinstance(error, Refused) or not error.refusal.retry:
            return False
        asked = error.refusal.retry_after_s
        if asked is None:
            return True
        return asked if asked <= longest_wait_s else False

    context = stamina.retry_context(
        on=wait,
        attempts=at_most,
        timeout=None,
        wait_initial=_FIRST_WAIT_S,
        wait_max=_LONGEST_WAIT_S,
        wait_jitter=_JITTER_S,
    )
    return aiter(context)
