"""A persona whose processes are killed at random moments loses, doubles and mixes up nothing.

``PERSONA_KILLS=100`` makes the kills of the table in `docs/personas.md`, for each setting. A process is
killed every half second here, many just as they begin.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_agents.core.config import is_postgres

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PERSONA_KILLS", "6"))
EVENTS, ROOMS = max(60, 8 * KILLS), 12
CONFIG = """
name = "ada"
memory = "{memory}"
reasoning = {reasoning}
[model]
model = "offline"
[engagement]
max_events = 1000
[[domains]]
name = "chat"
[domains.agent]
reasoning = {{}}
"""


def ids() -> list[tuple[str, str]]:
    """Room and id of each event; the ids are unique in their rooms alone."""
    return [(f"room-{number % ROOMS}", f"e{number // ROOMS}") for number in range(EVENTS)]


# --- the processes that are killed; each is a fork, so that it begins at once -----------------------------


def work_in_python(folder: Path) -> None:
    """Submit what the source has no acknowledgement of, and work until all is done."""
    import anyio

    from reactive_agents import Personas
    from reactive_agents.core.ids import ContextId, EventId
    from reactive_agents.core.personas import DomainEvent
    from reactive_agents.effects import attempt
    from reactive_agents.testing import ScriptedLLM, forever, say
    from reactive_agents.testing.core import START
    from tests.support.personas import EVALUATING, PLANNING, assessed, planned

    platform = os.open(folder / "platform", os.O_APPEND | os.O_WRONLY | os.O_CREAT)
    source = os.open(folder / "taken", os.O_APPEND | os.O_WRONLY | os.O_CREAT)
    taken = set((folder / "taken").read_text().split())

    async def deliver(event: DomainEvent, text: str, key: str) -> None:
        line = {"room": event.context_id, "id": event.id, "key": key, "text": text}
        os.write(platform, f"{json.dumps(line)}\n".encode())
        await anyio.sleep(0.001)  # the answer of the platform is on its way

    async def live() -> None:
        llm = ScriptedLLM(
            forever(planned("Look.", "Answer.", when=PLANNING)),
            forever(say("Seen.", when="Look.\n", delay=0.01)),
            forever(say("So.", when="Answer.\n", delay=0.01)),
            forever(assessed("Look first.", when=EVALUATING)),
        )
        described = Personas.create("Ada").with_memory((folder / "memory").read_text()).with_llm(llm)
        described = described.with_options(engagement={"max_events": 1000}, inbox={"capacity": 1000})
        async with described.with_domain("chat", deliver=deliver).build() as ada, ada.inbox() as inbox:
            for room, name in ids():
                if f"{room}/{name}" not in taken:
                    event = DomainEvent(EventId(name), ContextId(room), "Bob", f"Tell me of {name}.", START)
                    (await attempt(inbox.submit("chat", event))).unwrap()
                    os.write(source, f"{room}/{name}\n".encode())

    anyio.run(live)


def work_on_the_command_line(folder: Path) -> None:
    """Run the command on the lines for which the source has seen no outcome."""
    from reactive_agents.cli.app import app

    done = {(each["room"]["context_id"], each["event_id"]) for each in printed(folder)}
    lines = [
        json.dumps({"content": f"Tell me of {name}.", "context": room, "id": name})
        for room, name in ids()
        if (room, name) not in done
    ]
    (folder / "input").write_text("".join(f"{line}\n" for line in lines))
    os.dup2(os.open(folder / "input", os.O_RDONLY), 0)
    os.dup2(os.open(folder / "platform", os.O_APPEND | os.O_WRONLY | os.O_CREAT), 1)
    try:
        app(["persona", "run", str(folder / "ada.toml"), "--json"])
    except SystemExit as ended:
        if ended.code:
            raise


def printed(folder: Path) -> list[dict[str, Any]]:
    """What reached the platform; a process may have been killed in the middle of a line."""
    path, found = folder / "platform", []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


PROGRAMS: dict[str, Callable[[Path], None]] = {
    "python": work_in_python,
    "cli": work_on_the_command_line,
}


def main(program: str, folder: Path, kills: int, processes: int) -> None:
    """Start processes and kill them at random moments; then let them end."""
    import reactive_agents.cli.persona  # noqa: F401 - what is imported here, each fork has
    import tests.support.personas  # noqa: F401

    chance, under_way, made = random.Random(7), list[int](), 0
    platform = folder / "platform"
    platform.touch()
    while made < kills:
        while len(under_way) < processes:
            under_way.append(started(program, folder))
        size, patience = platform.stat().st_size, time.monotonic() + 30
        while platform.stat().st_size == size and time.monotonic() < patience:  # it begins to work
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.3))
        pid = under_way.pop(chance.randrange(len(under_way)))
        if os.waitpid(pid, os.WNOHANG)[0]:
            break  # it has done everything
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        made += 1
    for pid in under_way:
        os.waitpid(pid, 0)
    _, status = os.waitpid(started(program, folder), 0)
    print(json.dumps({"kills": made, "status": status}))


def started(program: str, folder: Path) -> int:
    """Start a process and return its id."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            PROGRAMS[program](folder)
            status = 0
        finally:
            os._exit(status)
    return pid


# --- the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "processes", "evaluation"),
    [("python", 3, "after"), ("cli", 1, "after")]
    + [("python", 1, "after"), ("cli", 1, "off")] * ("PERSONA_KILLS" in os.environ),
)
def test_nothing_is_lost_doubled_or_out_of_order(
    tmp_path: Path, program: str, processes: int, evaluation: str
) -> None:
    play(tmp_path, str(tmp_path / "ada.db"), program, processes, evaluation=evaluation)


def play(folder: Path, memory: str, program: str, processes: int, *, evaluation: str = "after") -> None:
    """Kill the processes of a persona with its memory in a file or a database."""
    config = CONFIG.format(memory=memory, reasoning=str(evaluation != "off").lower())
    (folder / "ada.toml").write_text(config)
    (folder / "memory").write_text(memory)
    (folder / "taken").touch()
    module = "tests.system.test_persona_kills"
    ran = subprocess.run(
        [sys.executable, "-m", module, program, folder, str(KILLS), str(processes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "REACTIVE_AGENTS_RUN_LOG": "off", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["status"] == 0, ran.stderr
    delivered = printed(folder)
    if program == "cli":
        places = [(each["room"]["context_id"], each["event_id"]) for each in delivered]
        keys = {place: {place} for place in places}
    else:
        places = [(each["room"], each["id"]) for each in delivered]
        keys = defaultdict(set)
        for each in delivered:
            keys[each["room"], each["id"]].add(each["key"])
    first = list(dict.fromkeys(places))
    lost = set(ids()) - set(first)
    doubled = [place for place, known in keys.items() if len(known) > 1]
    again = sum(count - 1 for count in Counter(places).values())
    by_room: dict[str, list[int]] = defaultdict(list)
    for room, name in first:
        by_room[room].append(int(name[1:]))
    kept = "Postgres" if is_postgres(memory) else "a file"
    setting = (
        f"{kept}, {program} x {processes}, evaluation {evaluation}: {report['kills']} kills, {EVENTS} events"
    )
    print(f"{setting}, lost {len(lost)}, doubled {len(doubled)}, sent again with the same key {again}")
    assert (lost, doubled) == (set(), [])
    assert all(numbers == sorted(numbers) for numbers in by_room.values())
    assert report["kills"] >= 3


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
