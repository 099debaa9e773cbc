"""System tests skip nothing: where what one needs is missing, it fails and says what that is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"A system test skips nothing; missing: {reason}"
    return report


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium; of a module, since its loop is that of the thread as long as it is open."""
    from tests.support.chromium import chromium  # by tests of pages

    with chromium() as opened:
        yield opened
