"""How hypothesis looks for examples: the same few in every run of the suite, new ones in ``make explore``.

No example has a deadline: how long one takes depends on the machine, and says nothing about the law.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("repeatable", max_examples=15, derandomize=True, database=None, **_COMMON)
settings.register_profile("explore", max_examples=1_000, print_blob=True, **_COMMON)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeatable")
settings.load_profile(PROFILE)


def examples(count: int) -> settings:
    """So many examples in the suite, where they never change, and 50 times as many in ``make explore``."""
    return settings(max_examples=50 * count if PROFILE == "explore" else count)
