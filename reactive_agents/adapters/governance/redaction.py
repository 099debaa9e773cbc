"""Redaction with what this process knows: the secrets of its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from reactive_agents.core import redaction


class Redactor(redaction.Redactor):
    """A :class:`reactive_agents.core.redaction.Redactor` that knows the environment of the process.

    Args:
        patterns: further regular expressions; a group named ``secret`` is the secret, else the whole match.
        environment: variables in the place of those of the process; read once, now.
        secrets: further values to look for, such as a configured key.

    Raises:
        ValueError: a pattern is no regular expression.
    """

    def __init__(
        self,
        patterns: Iterable[str | re.Pattern[str]] = (),
        environment: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        super().__init__(patterns, os.environ if environment is None else environment, secrets)
