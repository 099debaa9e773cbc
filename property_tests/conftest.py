"""Settings of all property tests."""

from __future__ import annotations

import tests.support.profiles  # noqa: F401 - sets how examples are looked for
