"""Values that are given to a memory."""

from __future__ import annotations

from datetime import datetime

import pytest

from reactive_agents.core.memory import ForgetOlder


def test_nothing_is_forgotten_by_a_moment_that_may_be_any_of_several() -> None:
    with pytest.raises(ValueError, match=r"'before' must be a time with a time zone: 2026-01-01T"):
        ForgetOlder(datetime(2026, 1, 1))
