"""Fixtures of all tests."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from functools import cache
from typing import Any

import pytest
import stamina

import tests.support.profiles  # noqa: F401 - sets how hypothesis looks for examples

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell lets its background jobs do
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["XDG_STATE_HOME"] = os.devnull  # what a user has found out about models is no part of a test
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # litellm reaches for the network at import without it
# each client of HTTP reads the certificates of all authorities, which takes longer than most tests
ssl.create_default_context = cache(ssl.create_default_context)

MEMORY = "/dev/shm"
if sys.platform == "linux" and os.access(MEMORY, os.W_OK):
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize > 2**31 and not room.f_flag & os.ST_NOEXEC:
        # the databases of thousands of tests wait for no disk
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio; those that need trio as well say so themselves."""
    return "asyncio"


@pytest.fixture
def place() -> str:
    """The place of a store that its contract needs no file for; a database in system tests."""
    return ":memory:"


@pytest.fixture
def without_backoff() -> Iterator[None]:
    """Calls of models are made again at once."""
    with stamina.set_testing(True, attempts=9, cap=True):
        yield


gc.disable()  # collecting the tests makes many objects and hardly any garbage


LOOK_AGAIN = (
    "reactive_agents.agent.queue_worker",
    "reactive_agents.agent.runs",
    "reactive_agents.cli.runs",
    "reactive_agents.server.api",
    "reactive_agents.server.runs",
    "reactive_agents.studio.app",
)
"""Modules that look at the record of a run again and again, as another process may have changed it."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let no test wait long for a look at a record, nor a garbage collection look through all tests.

    Modules that tests import later are looked through, so that it is done after more new objects than usual.
    """
    for name in LOOK_AGAIN:
        if name.rpartition(".")[0] in sys.modules:
            importlib.import_module(name)._POLL_S = 0.01  # type: ignore[attr-defined]
    leases: Any = importlib.import_module("reactive_agents.adapters.leases")
    leases.DOUBTED_S = 0.0  # tests set the clock forward so that a lease expires
    leases.LeaseRenewal.__init__.__kwdefaults__["beat_s"] = 0.05  # when a run learns of others' orders
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
    if (counter := counter_of_lines(session.config)) is not None:
        counter.pause()


UNCOVERED = (
    "property_tests/",
    "tests/lab/",
    "tests/docs/",
    "tests/test_layout.py",
    "tests/kernel/call_parsing/test_shown_calls.py",
)
"""Tests that run the same lines many times over; the example tests reach those lines as well.

They are covered where the question is which tests run a line, as for mutants. So are the further cases of a
test with parameters, which take a third of the time that counting lines adds.
"""
COUNTS = pytest.StashKey[bool]()
"""Whether the lines count that a test runs."""


def counter_of_lines(config: pytest.Config) -> Any:
    """Return what pytest-cov counts lines with, where the question is how many there are."""
    asks_how_many = config.getoption("cov_source", None) and not config.getoption("cov_context", None)
    return config.pluginmanager.getplugin("_cov").cov_controller if asks_how_many else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count lines within the tests that count: all that pytest does besides would take twice its time."""
    counter = counter_of_lines(item.config) if item.stash[COUNTS] else None
    if counter is None:
        return (yield)
    counter.resume()
    try:
        return (yield)
    finally:
        counter.pause()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their place, and refuse names with an address in memory.

    The processes of a parallel run must agree on all names.
    """
    seen = set[str]()
    for item in items:
        if item.nodeid.startswith("tests/system/"):
            item.add_marker("system")
        test = item.nodeid.partition("[")[0]
        item.stash[COUNTS] = test not in seen and not item.nodeid.startswith(UNCOVERED)
        seen.add(test)
    if changing := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give the parameters of this test ids: {changing[0]}")
