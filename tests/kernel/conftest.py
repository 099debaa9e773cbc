"""Async tests of this folder run in virtual time."""

from __future__ import annotations

import pytest

from tests.support.virtual_time import Backend, virtual_time


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(getattr(request, "param", "asyncio"))
