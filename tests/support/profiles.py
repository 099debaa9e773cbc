"""How hypothesis looks for examples: the same in every run of the suite, anew in ``make explore``."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeatable")
settings.load_profile(PROFILE)


def for_each_class(count: int) -> int:
    """Examples for a law that is checked for each of hundreds of classes; a third where they never change."""
    return count if PROFILE == "explore" else max(3, count // 3)
