"""What a process holds is renewed as long as it holds it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from reactive_agents.adapters import leases
from reactive_agents.adapters.leases import LeaseClock, LeaseRenewal, is_gone, new_holder, this_machine
from reactive_agents.testing import FakeClock
from tests.support.fakes import refuse_thread
from tests.support.waiting import until_blocking


def test_leases_are_renewed_after_the_system_gave_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, known = threading.Event(), list[set[str]]()

    async def renew(held: Mapping[str, None]) -> None:
        known.append(set(held))
        renewed.set()

    renewal: LeaseRenewal[None] = LeaseRenewal("leases", renew, beat_s=0.001)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            renewal.hold("refused", None)
    renewal.hold("held", None)
    assert renewed.wait(60)
    renewal.let_go_of_all()
    assert known[0] == {"held"}


def test_what_is_held_on_an_event_loop_that_was_closed_is_renewed_no_more() -> None:
    """Its tasks can never let it go."""
    renewed = list[set[str]]()
    seen = threading.Semaphore(0)

    async def renew(held: Mapping[str, None]) -> None:
        renewed.append(set(held))
        seen.release()

    renewal: LeaseRenewal[None] = LeaseRenewal("leases", renew, beat_s=0.001)

    async def hold(key: str) -> None:
        renewal.hold(key, None)

    closed = asyncio.new_event_loop()
    closed.run_until_complete(hold("left"))
    renewal.hold("kept", None)
    assert seen.acquire(timeout=60)
    assert "left" in renewed[0]
    closed.close()
    while seen.acquire(blocking=False):
        """Those from before the loop was closed."""
    for _ in range(3):
        assert seen.acquire(timeout=60)
    renewal.let_go_of_all()
    assert renewed[-1] == {"kept"}


def test_a_forked_process_does_not_wait_for_what_its_parent_holds() -> None:
    async def renew(held: Mapping[str, None]) -> None:
        """Renew nothing."""

    renewal: LeaseRenewal[None] = LeaseRenewal("leases", renew)
    renewal.hold("held", None)
    with renewal._changing:
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # which ends it where it waits
            renewal.let_go("held")
            renewal.let_go_of_all()
            os._exit(0)
    _, status = os.waitpid(child, 0)
    renewal.let_go_of_all()
    assert status == 0


def test_what_was_given_up_is_forgotten_when_its_lease_has_surely_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = leases.new_holder(), leases.new_holder()
    leases.give_up(first)
    assert leases.is_gone(first)
    monkeypatch.setattr(leases, "_REMEMBERED_S", -1.0)
    leases.give_up(second)
    assert not leases.is_gone(first)
    assert leases.is_gone(second)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process is told by its start")
def test_a_holder_is_gone_with_its_process_also_where_another_one_has_its_number() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        started = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        holder = f"f00 {this_machine()} {process.pid} {started}"
        assert not is_gone(holder)
        assert is_gone(f"f00 {this_machine()} {process.pid} {int(started) - 1}"), "it began before this one"
        assert not is_gone(f"f00 elsewhere {process.pid} {int(started) - 1}"), "its lease has to expire"
        process.kill()
        until_blocking(lambda: stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z")
        assert is_gone(holder), "nobody has waited for it, but it has ended"
    assert is_gone(holder)
    assert not is_gone(new_holder())


def test_on_windows_no_process_gets_a_signal_to_see_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "kill", lambda *of: sent.append(of))
    assert not is_gone(f"f00 {this_machine()} {os.getppid()} 7")
    assert not sent


def test_a_clock_that_jumps_ahead_is_believed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is paused, wakes for a moment, and is paused again: each time all leases have expired."""
    machine, paused_s = FakeClock(), 0.0
    monkeypatch.setattr(leases, "DOUBTED_S", 15.0)
    clock = LeaseClock(machine)

    def judged_by() -> float:
        passed_s = machine.monotonic()
        return round(clock.at(int((passed_s + paused_s) * 1e6)) / 1e6 - passed_s, 3)

    assert judged_by() == 0.0
    for _ in range(3):
        paused_s += 3_600.0
        assert judged_by() == 0.0
        machine.advance(14)
        assert judged_by() == 0.0
    machine.advance(1)
    assert judged_by() == paused_s
    paused_s -= 1_800.0  # set back
    assert judged_by() == paused_s
    paused_s += 0.5  # it creeps
    assert judged_by() == paused_s
    paused_s += 60.0
    assert judged_by() == paused_s - 60.0
    paused_s -= 60.0  # set back at once
    assert judged_by() == paused_s
