"""What a process holds is renewed as long as it holds it."""

from __future__ import annotations

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
