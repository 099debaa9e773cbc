"""What all property tests share."""

from __future__ import annotations

import tests.support.profiles  # noqa: F401 - sets how examples are looked for
