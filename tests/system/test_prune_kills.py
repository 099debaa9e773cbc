"""Processes that delete old records, and are killed at it, leave what is newer, and a valid audit log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, verify
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.postgres import running_server

ROOT, ROUND = Path(__file__).parents[2], 40
KILLS = int(os.environ.get("PRUNE_KILLS", "6"))
AGENT = AgentId("a")
STORES = ("audit", "cost", "sessions")
"""The stores in the order in which the program prunes them."""

PROGRAM = """
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
import anyio
from reactive_agents.adapters.governance import audit_log, cost_tracker
from reactive_agents.adapters.memory import sessions
from reactive_agents.core.conversation import SessionKey, SessionTurn
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.messages import AssistantMessage, UserMessage
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock

audit_log._MOST_PRUNED = cost_tracker._DELETED_AT_ONCE = sessions._DELETED_AT_ONCE = 3
place, child, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent, task = AgentId("a"), TaskId("t")

def on_day(number):
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=10 * child + number)

def stores(day):
    clock = FakeClock(on_day(day))
    made = (audit_log.SqliteAuditLog, cost_tracker.SqliteCostTracker, sessions.SqliteSessions)
    return clock, *(each(place, clock=clock) for each in made)

async def fill(day, names):
    clock, log, costs, stored = stores(day)
    for name in names:
        run, key = RunId(name), SessionKey(agent, SessionId(name))
        done = SessionTurn(run, (UserMessage("Hello."), AssistantMessage("Hello.")), "")
        (await attempt(stored.begin(key, run, size=10, earlier=0))).unwrap()
        (await attempt(stored.end(key, run, done))).unwrap()
        entry = AuditEntry(run, task, agent, "run", "completed", "It went.", clock.now())
        (await attempt(log.append(entry))).unwrap()
        spent = SpendingRecord(run, task, agent, (RunUsage("m", Usage(1, 1, 2), 0.5, 1),), clock.now())
        (await attempt(costs.record(spent))).unwrap()

def ends_at(write, batches):
    async def counted(operation, *args, **options):
        done = await write(operation, *args, **options)
        batches.append(operation)
        if batches.count("prune") == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return counted

async def main():
    await fill(0, [f"old-{child}-{number}" for number in range(count)])
    await fill(8, [f"new-{child}"])
    print("filled", flush=True)
    for number, store in enumerate(stores(9)[1:]):
        if str(number) in sys.argv[4:]:
            store._file.write = ends_at(store._file.write, [])
        print("prunes", flush=True)
        (await attempt(store.prune(on_day(5)))).unwrap()
    print("pruned", flush=True)

anyio.run(main)
"""


@pytest.fixture(scope="module", params=["a file", "a server"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "a file":
        yield str(tmp_path_factory.mktemp("prune") / "all.db")
        return
    with running_server() as server:
        yield server.new()


def killed(place: str, child: int, chance: random.Random) -> None:
    """Fill the place, begin to prune, and be killed.

    Every second process ends between two transactions of one of the stores, the others after one of the
    reports and a moment.
    """
    arguments = (sys.executable, "-c", PROGRAM, place, str(child), str(ROUND))
    if child % 2:
        ended = subprocess.run(
            (*arguments, str(child // 2 % len(STORES))), cwd=ROOT, timeout=100, check=False
        )
        assert ended.returncode == -signal.SIGKILL
        return
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(chance.randint(2, 4)):
            assert process.stdout.readline(), "it failed by itself"
        try:
            process.wait(chance.random() * 0.1)
        except subprocess.TimeoutExpired:
            process.kill()


async def left(place: str, child: int) -> dict[str, set[str]]:
    """Return the names of what each of the stores still has."""
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=10 * child + 9))
    stored = SqliteSessions(place, clock=clock)
    log, costs = SqliteAuditLog(place, clock=clock), SqliteCostTracker(place, clock=clock)
    entries = (await attempt(log.read(limit=1_000))).unwrap()
    runs = (await attempt(costs.totals("run"))).unwrap()
    models = (await attempt(costs.totals("model"))).unwrap()
    assert sum(each.runs for each in models) == len(runs), "a run is there with its models or not at all"
    named = (await attempt(stored.sessions(AGENT))).unwrap()
    assert all(each.turns == 1 for each in named), "a session is there with its turns or not at all"
    appended = AuditEntry(RunId("after"), TaskId("t"), AGENT, "run", "completed", "It went.", clock.now())
    (await attempt(log.append(appended))).unwrap()
    for store in (stored, log, costs):
        await store.aclose()
    return {
        "audit": {str(each.entry.run_id) for each in entries if each.entry.action == "run"},
        "cost": {each.name for each in runs},
        "sessions": {str(each.session) for each in named},
    }


def test_what_is_newer_stays_and_the_log_is_valid(place: str) -> None:
    chance, partly = random.Random(7), Counter[str]()
    old: dict[str, set[str]] = {store: set() for store in STORES}
    for child in range(KILLS):
        killed(place, child, chance)
        verify(place).unwrap()
        for store, names in anyio.run(left, place, child).items():
            assert f"new-{child}" in names, store
            before = old[store] | {f"old-{child}-{number}" for number in range(ROUND)}
            old[store] = names & before
            partly[store] += 0 < len(old[store]) < len(before)
        verify(place).unwrap()
    assert all(partly[store] for store in STORES), "no process was killed while it pruned a store"
    subprocess.run((sys.executable, "-c", PROGRAM, place, str(KILLS), "0"), cwd=ROOT, check=True, timeout=100)
    for store, names in anyio.run(left, place, KILLS).items():
        assert names == {f"new-{KILLS}"}, store
