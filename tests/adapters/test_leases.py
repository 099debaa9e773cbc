"""What a process holds is renewed as long as it holds it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping

import pytest

from reactive_agents.adapters.leases import LeaseRenewal
from tests.support.fakes import refuse_thread


def test_leases_are_renewed_after_the_system_gave_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, known = threading.Event(), list[set[str]]()

    async def renew(held: Mapping[str, None]) -> None:
        known.append(set(held))
        renewed.set()

    leases: LeaseRenewal[None] = LeaseRenewal("leases", renew, beat_s=0.001)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            leases.hold("refused", None)
    leases.hold("held", None)
    assert renewed.wait(60)
    leases.let_go_of_all()
    assert known[0] == {"held"}


def test_a_forked_process_does_not_wait_for_what_its_parent_holds() -> None:
    async def renew(held: Mapping[str, None]) -> None:
        """Renew nothing."""

    leases: LeaseRenewal[None] = LeaseRenewal("leases", renew)
    leases.hold("held", None)
    with leases._changing:
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # which ends it where it waits
            leases.let_go("held")
            leases.let_go_of_all()
            os._exit(0)
    _, status = os.waitpid(child, 0)
    leases.let_go_of_all()
    assert status == 0
