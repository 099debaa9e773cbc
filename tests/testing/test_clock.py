"""The fake clock moves only when it is told to, and the ids count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from reactive_agents.ports import Clock, IdSource
from reactive_agents.testing import FakeClock, SequentialIds
from reactive_agents.testing.core import START


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock()
    port: Clock = clock
    assert (port.now(), port.now(), port.monotonic()) == (START, START, 0.0)
    clock.advance(90)
    assert (port.now(), port.monotonic()) == (START + timedelta(seconds=90), 90.0)


def test_each_reading_takes_its_step() -> None:
    clock = FakeClock(step_s=0.5)
    assert [clock.monotonic(), clock.monotonic()] == [0.0, 0.5]
    assert clock.now() == START + timedelta(seconds=1)
    assert clock.monotonic() == 1.5


def test_the_start_is_given_in_any_time_zone_and_told_in_utc() -> None:
    start = datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    now = FakeClock(start).now()
    assert (now, now.tzinfo, now.hour) == (start, UTC, 10)


def test_a_clock_has_a_time_zone_and_never_goes_back() -> None:
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(datetime(2026, 5, 1))
    with pytest.raises(ValueError, match="step_s"):
        FakeClock(step_s=-1)
    with pytest.raises(ValueError, match="advance"):
        FakeClock().advance(-0.1)


def test_ids_count_and_sort_by_time() -> None:
    ids = SequentialIds()
    port: IdSource = ids
    made = [port.new() for _ in range(1200)]
    assert made[:2] == ["id-0001", "id-0002"]
    assert made[:999] == sorted(made[:999])
    assert len(set(made)) == 1200
    assert SequentialIds("run-").new() == "run-0001"
