"""The log of the package holds no secrets, tracebacks included."""

from __future__ import annotations

import gc
import logging

import pytest

from reactive_agents.adapters.telemetry.event_bus import LocalEventBus, redact_log
from reactive_agents.core.redaction import Redactor

LOG = logging.getLogger("reactive_agents")


def test_messages_arguments_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    other, redactor = Redactor(), Redactor(secrets=["crocus-bulb"])
    redact_log(other)  # of another agent, which does not know the secret
    redact_log(redactor)
    LOG.error("It is %s, %d times.", "a crocus-bulb", 3)
    try:
        raise ValueError("no crocus-bulb")
    except ValueError:
        LOG.exception("That failed.")
    LOG.error("nothing %s", "special")
    assert "crocus-bulb" not in caplog.text
    assert "It is a [redacted:known], 3 times." in caplog.text
    assert "ValueError: no [redacted:known]" in caplog.text
    assert caplog.records[2].args == ("special",)
    assert all("crocus-bulb" not in repr(record.__dict__) for record in caplog.records)


def test_a_text_from_outside_makes_no_record_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Redactor(), Redactor()  # as of two agents
    redact_log(first)
    redact_log(second)
    forged = "no\nERROR reactive_agents The disk is full.\r\x1b[31m\x1b]0;title\x07\u2028WARNING x \u202e"
    LOG.error("It said: %s", forged)
    try:
        raise ValueError(forged)
    except ValueError:
        LOG.exception("That failed.")
    heads = [line for line in caplog.text.splitlines() if not line.startswith("  ")]
    assert [line.partition(" ")[0] for line in heads] == ["ERROR", "ERROR"]
    assert caplog.messages[0] == "It said: no\n  ERROR reactive_agents The disk is full.]0;titleWARNING x "
    assert not {"\x1b", "\x07", "\r", "\u2028", "\u202e"} & set(caplog.text)


def test_the_log_is_redacted_while_a_redactor_exists(caplog: pytest.LogCaptureFixture) -> None:
    redactor = Redactor(secrets=["crocus-bulb"])
    redact_log(redactor)
    filters = len(LOG.filters)
    for _ in range(5):
        redact_log(Redactor())  # as of agents that are built for one request each
    assert len(LOG.filters) == filters
    LOG.error("a crocus-bulb")
    del redactor
    gc.collect()
    LOG.error("a crocus-bulb")
    assert caplog.messages == ["a [redacted:known]", "a crocus-bulb"]


def test_a_bus_without_a_redactor_hands_events_on_as_they_are() -> None:
    assert LocalEventBus()._redacted is None
