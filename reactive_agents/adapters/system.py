"""The live clock and the live source of identifiers."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from os import urandom
from pathlib import Path
from threading import Lock

from ulid_transform import bytes_to_ulid

from reactive_agents.core.redaction import Redactor


class SystemClock:
    """The machine's clocks, called directly because every step reads them often.

    Attributes:
        now: returns the time of day in UTC, with its time zone.
        monotonic: returns seconds of ``time.monotonic``, the clock of asyncio.
    """

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)


class UlidSource:
    """ULIDs: 26 characters that sort by time; safe to share between threads.

    The layout is that of the ULID specification (https://github.com/ulid/spec): 48 bits of Unix time in
    milliseconds, then 80 random bits.

    Args:
        time_ns: the time of day, in nanoseconds since 1970.
    """

    def __init__(self, time_ns: Callable[[], int] = time.time_ns) -> None:
        self._time_ns = time_ns
        self._latest = 0
        self._making = Lock()

    def new(self) -> str:
        """Return a new ULID, greater than any before, even when the clock is set back."""
        drawn = self._time_ns() // 1_000_000 << 80 | int.from_bytes(urandom(10))
        with self._making:
            self._latest = made = drawn if drawn > self._latest else self._latest + 1
        return bytes_to_ulid(made.to_bytes(16))


def state_directory(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the directory of the package in the user's state directory.

    Args:
        environment: names and values of the variables that are set.
        platform: as ``sys.platform``.
    """
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.cwd())
    if platform == "win32":
        base = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(environment.get("XDG_STATE_HOME") or home / ".local" / "state")
    return base / "reactive-agents"


# --- redaction of the environment's secrets -------------------------------------------------------------


class EnvironmentRedactor(Redactor):
    """A redactor that knows the secrets in the environment of the process.

    Args:
        patterns: further regular expressions; a group named ``secret`` is the secret, else the whole match.
        environment: variables instead of those of the process, read once at construction.
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
