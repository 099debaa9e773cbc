"""The commands that see to the work of a persona: inbox, outbox, plans, explanations and deletion."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents.adapters.memory import persona_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.cli import persona_records
from reactive_agents.core.channels import Reaction
from reactive_agents.core.errors import RateLimited
from reactive_agents.core.persona_events import PersonaStepStarted
from reactive_agents.core.personas import DeliveryPolicy, DomainEvent
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, FakeTools, ScriptedLLM, answer, call, fail, forever, say
from tests.support.command_line import command
from tests.support.personas import PersonaBench, an_event, assessed, persona_bench, planned


def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


class Closed:
    """A channel that is closed at first."""

    def __init__(self) -> None:
        self.is_open = False
        self.sent: list[str] = []

    async def post(self, event: DomainEvent, text: str, key: str) -> str:
        if not self.is_open:
            raise ConnectionError("the room is closed")
        self.sent.append(text)
        return f"m{len(self.sent)}"


def with_bench(path: Path, work: Any, llm: ScriptedLLM, **options: Any) -> Any:
    async def live() -> Any:
        store = SqlitePersonaStore(path, clock=(clock := FakeClock(datetime.now(UTC), step_s=0.001)))
        try:
            policy = DeliveryPolicy(backoff_s=0.0001)
            return await work(persona_bench(llm, store=store, clock=clock, delivery=policy, **options))
        finally:
            await store.aclose()

    return anyio.run(live)


def place(path: Path) -> tuple[Any, ...]:
    return ("--persona", "ada", "--memory", path)


@pytest.mark.parametrize("memory", ["none.db", "a" * 5000])
def test_a_memory_that_is_not_there_is_bad_usage(memory: str) -> None:
    refused = command("persona", "plans", "list", "--memory", memory)
    assert refused.exit_code == 2
    assert "expected a memory file that exists" in refused.stderr


def test_a_dead_letter_is_listed_and_sent_after_a_retry(tmp_path: Path) -> None:
    path, channel = tmp_path / "ada.db", Closed()
    options = {"deliver": channel.post, "reasoning": False}

    async def fail(bench: PersonaBench) -> None:
        assert (await bench.process()).status == "failed"

    with_bench(path, fail, ScriptedLLM(forever(say("So."))), **options)
    assert command("persona", "inbox", "list", *place(path)).stdout == ""
    (row,) = command("persona", "outbox", "list", "--dead", *place(path)).stdout.splitlines()
    number, state, room, key, _, reason, text = row.split("\t")
    assert (state, room, key, text) == ("dead", "general", "event-1#answer", "So.")
    assert "the room is closed" in reason
    assert command("persona", "outbox", "retry", number, *place(path)).stdout == f"tried again: {number}\n"
    channel.is_open = True

    async def go_on(bench: PersonaBench) -> None:
        assert (await attempt(bench.persona.resume())).unwrap() == ()

    with_bench(path, go_on, ScriptedLLM(), **options)
    assert channel.sent == ["So."]
    (sent,) = json.loads(command("persona", "outbox", "list", "--all", "--json", *place(path)).stdout)
    assert (sent["status"], sent["message_id"]) == ("done", "m1")
    refused = command("persona", "outbox", "retry", number, *place(path))
    assert (refused.exit_code, refused.stderr) == (1, f"error: There is no message to retry '{number}'.\n")
    by_message = command("explain", "--message", "m1", *place(path)).stdout
    assert "event\tBob in chat/general: What is React?" in by_message
    assert "sent as m1" in by_message


def test_an_evaluation_that_failed_is_listed_and_made_after_a_retry(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def fail(bench: PersonaBench) -> None:
        assert (await bench.process()).evaluation is None
        for _ in range(2):
            bench.clock.advance(1)
            await attempt(bench.persona.resume())

    with_bench(path, fail, ScriptedLLM(planned("Say it."), forever(say("So."))))
    (row,) = command("persona", "evaluations", "list", *place(path)).stdout.splitlines()
    number, state, room, *_, text = row.split("\t")
    assert (state, room, text) == ("dead", "general", "What is React?")
    assert command("persona", "evaluations", "retry", number, *place(path)).exit_code == 0

    async def go_on(bench: PersonaBench) -> None:
        await attempt(bench.persona.resume())

    with_bench(path, go_on, ScriptedLLM(assessed("Say it.")))
    assert command("persona", "evaluations", "list", *place(path)).stdout == ""
    (learned,) = json.loads(command("learnings", "--json", *place(path)).stdout)
    assert learned["pattern"] == "Say it."


def test_a_reminder_is_listed_with_its_day_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def remind(bench: PersonaBench) -> None:
        due = datetime(2099, 2, 1, 9, tzinfo=UTC)
        (await attempt(bench.persona.schedule("chat", an_event("Call Eve."), due))).unwrap()

    with_bench(path, remind, ScriptedLLM())
    (row,) = command("persona", "schedules", "list", *place(path)).stdout.splitlines()
    number, state, room, *_, text = row.split("\t")
    assert (state, room, text) == ("due 2099-02-01 09:00:00", "general", "Call Eve.")
    assert command("persona", "schedules", "drop", number, *place(path)).exit_code == 0
    assert command("persona", "schedules", "list", *place(path)).stdout == ""


def test_an_event_that_waits_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def wait(bench: PersonaBench) -> None:
        event = an_event()
        await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))

    with_bench(path, wait, ScriptedLLM())
    assert "Drop an event permanently" in command("persona", "inbox", "--help").stdout
    (row,) = command("persona", "inbox", "list", *place(path)).stdout.splitlines()
    assert row.split("\t")[1:4] == ["waiting", "general", "event-1"]
    assert command("persona", "inbox", "drop", row.split("\t")[0], *place(path)).exit_code == 0

    async def resume(bench: PersonaBench) -> None:
        assert (await attempt(bench.persona.resume())).unwrap() == ()

    with_bench(path, resume, ScriptedLLM())


def test_an_order_reads_its_item_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "ada.db", []

    async def wait(bench: PersonaBench) -> None:
        for number in range(5):
            event = an_event(name=f"event-{number}")
            await attempt(bench.store.add_event(bench.persona.room_of("chat", event), event))

    with_bench(path, wait, ScriptedLLM())
    one = command("persona", "inbox", "list", *place(path)).stdout.splitlines()[2]
    item_of = persona_store.item_of
    monkeypatch.setattr(persona_store, "item_of", lambda row: read.append(item_of(row)) or read[-1])
    assert command("persona", "inbox", "drop", one.split("\t")[0], *place(path)).exit_code == 0
    assert [each.key for each in read] == ["event-2"]
    assert command("persona", "inbox", "drop", "9", *place(path)).exit_code == 1
    assert command("persona", "outbox", "drop", one.split("\t")[0], *place(path)).exit_code == 1


def test_a_plan_is_cancelled_while_it_is_executed_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def cancelled(bench: PersonaBench) -> str:
        def cancel(event: object) -> None:
            if isinstance(event, PersonaStepStarted):  # in another thread, as in another process
                order = ("persona", "plans", "cancel", event.plan_id, *place(path))
                with ThreadPoolExecutor(1) as threads:
                    done = threads.submit(command, *order).result()
                assert done.stdout == f"cancelled: {event.plan_id}\n"

        bench.persona.services.events.subscribe(cancel)
        return (await bench.process()).reason

    llm = ScriptedLLM(planned("Hold.", "Send it."), say("Held.", when="Hold.\n"))
    reason = with_bench(path, cancelled, llm)
    assert reason == "It was cancelled."
    (row,) = command("persona", "plans", "list", "--context", "general", *place(path)).stdout.splitlines()
    plan_id, status, room, *_ = row.split("\t")
    assert (status, room) == ("abandoned", "general")
    shown = command("persona", "plans", "show", plan_id, *place(path)).stdout
    assert "s2\tskipped\tSend it." in shown
    assert command("persona", "plans", "list", "--context", "other", *place(path)).stdout == ""
    assert command("persona", "plans", "list", "--until", "2020-01-01", *place(path)).stdout == ""
    assert command("persona", "plans", "cancel", plan_id, *place(path)).exit_code == 1
    assert command("persona", "plans", "retry", plan_id, *place(path)).exit_code == 0

    async def again(bench: PersonaBench) -> None:
        (outcome,) = (await attempt(bench.persona.resume())).unwrap()
        assert (outcome.status, outcome.answer) == ("completed", "So.")

    with_bench(path, again, ScriptedLLM(planned("Answer."), say("So.", when="Answer."), assessed()))


@pytest.fixture
def refunded(tmp_path: Path) -> Path:
    path = tmp_path / "ada.db"
    llm = ScriptedLLM(
        planned("Refund it."),
        call("refund", order="order-4711"),
        answer("It is refunded."),
        assessed("Refund first."),
    )

    async def process(bench: PersonaBench) -> None:
        await bench.process("Refund my order.", user="u1")
        await bench.process("Nice.", "event-2", author="Ada")

    with_bench(path, process, llm, tools=FakeTools({"refund": refund}))
    return path


def test_an_explanation_has_tool_calls_costs_and_declined_events(refunded: Path) -> None:
    told = command("explain", "--event", "event-1", *place(refunded)).stdout
    lines = [line.split("\t", 1)[1] for line in told.splitlines()]
    (tool,) = [line for line in lines if line.startswith("tool\trefund")]
    assert "4711" in tool
    assert "(worked): " in tool
    assert "refunded order-4711" in tool
    assert any(line.startswith("cost\ts1: ") for line in lines)
    declined = command("explain", "--event", "event-2", *place(refunded)).stdout
    assert "engagement\tDeclined: The persona is its author." in declined
    assert (
        command("explain", "--event", "event-9", *place(refunded)).stderr
        == "error: There is no event 'event-9'.\n"
    )
    assert command("explain", *place(refunded)).exit_code == 2


def test_events_of_one_id_are_explained_by_their_rooms(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def process(bench: PersonaBench) -> None:
        for context in ("general", "other"):
            await bench.process("Nice.", "event-1", author="Ada", context=context)

    with_bench(path, process, ScriptedLLM())
    both = command("explain", "--event", "event-1", *place(path)).stdout
    one, other = both.split("\n\n")
    assert one.startswith("room: ada/chat/general\n")
    assert other.startswith("room: ada/chat/other\n")
    assert [part.count("event\tAda in chat/") for part in (one, other)] == [1, 1]
    alone = command("explain", "--event", "event-1", "--context", "other", *place(path)).stdout
    assert alone == other.partition("\n")[2]
    lines = json.loads(command("explain", "--event", "event-1", "--json", *place(path)).stdout)
    assert {line["room"] for line in lines} == {"ada/chat/general", "ada/chat/other"}


def test_an_explanation_has_what_the_plan_was_shown(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"

    async def process(bench: PersonaBench) -> None:
        await bench.process("Refund my order.")
        await bench.process("And the other one?", "event-2")

    plan = planned("Look.", goal="He has it.")
    llm = ScriptedLLM(
        plan, say("No."), assessed("Refund it at once.", met=False), plan, say("No."), assessed()
    )
    with_bench(path, process, llm)
    told = command("explain", "--event", "event-2", *place(path)).stdout
    assert "\tsaw\t1 earlier event(s) of the room with their answers, the last: event-1\n" in told
    assert "\tknew\t2 note(s) on the room\n" in told
    assert "\tlearnings\twarned of: Refund it at once. (confidence 0.33)\n" in told


def test_a_message_is_explained_however_much_came_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, channel = tmp_path / "ada.db", Closed()
    channel.is_open = True

    async def process(bench: PersonaBench) -> None:
        for number in range(4):
            await bench.process("Hello.", f"event-{number}")

    with_bench(path, process, ScriptedLLM(forever(say("So."))), deliver=channel.post, reasoning=False)
    monkeypatch.setattr(persona_records, "_MOST_ITEMS", 3)
    told = command("explain", "--message", "m1", *place(path)).stdout
    assert "event\tBob in chat/general: Hello." in told
    assert "sent as m1" in told


def test_the_opinions_of_an_answer_are_explained_with_it(tmp_path: Path) -> None:
    path, channel = tmp_path / "ada.db", Closed()
    channel.is_open = True

    async def react(bench: PersonaBench) -> None:
        await bench.process()
        for user, good in (("Zoe", True), ("Bob", True), ("Bob", False)):
            reaction = (await attempt(bench.persona.feedback_of("chat", Reaction("m1", user, good)))).unwrap()
            assert reaction is not None
            await attempt(bench.persona.process_event("chat", reaction))

    with_bench(path, react, ScriptedLLM(forever(say("So."))), deliver=channel.post, reasoning=False)
    (of_plan,) = command("persona", "plans", "list", *place(path)).stdout.splitlines()
    for named in (("--event", "event-1"), ("--message", "m1"), ("--plan-id", of_plan.split("\t")[0])):
        told = command("explain", *named, *place(path)).stdout.splitlines()
        opinions = [line.split("\t")[2] for line in told if line.split("\t")[1] == "reaction"]
        assert opinions == ["The answer was good for Zoe.", "The answer was bad for Bob."]
    forgotten = command("persona", "forget", "--user", "Zoe", *place(path))
    assert forgotten.exit_code == 0, forgotten.stderr
    assert "Zoe" not in command("explain", "--event", "event-1", *place(path)).stdout


def test_a_plan_that_is_tried_again_is_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "ada.db"
    broken = fail(RateLimited("Too many requests.", "m"))
    plan = planned("Look.")
    llm = ScriptedLLM(plan, broken, assessed(met=False))

    async def process(bench: PersonaBench) -> None:
        assert (await bench.process()).status == "failed"

    with_bench(path, process, llm, max_replans=0)
    (row,) = command("persona", "plans", "list", *place(path)).stdout.splitlines()
    assert command("persona", "plans", "retry", row.split("\t")[0], *place(path)).exit_code == 0

    async def again(bench: PersonaBench) -> None:
        (outcome,) = (await attempt(bench.persona.resume())).unwrap()
        assert outcome.status == "completed"

    with_bench(path, again, ScriptedLLM(plan, say("So."), assessed("Look twice.")))
    assert "Look twice." in command("learnings", *place(path)).stdout
    refused = command("persona", "plans", "retry", row.split("\t")[0], *place(path))
    assert (refused.exit_code, "no failed plan" in refused.stderr) == (1, True), "a later one was completed"


def test_all_of_a_user_is_deleted(refunded: Path) -> None:
    deleted = command("persona", "forget", "--user", "u1", *place(refunded))
    assert deleted.stdout == "deleted 1 event(s)\n"
    assert command("persona", "plans", "list", *place(refunded)).stdout == ""
    assert command("learnings", *place(refunded)).stdout == ""
    assert b"order-4711" not in b"".join(each.read_bytes() for each in refunded.parent.glob("ada.db*"))
    left = json.loads(command("persona", "inbox", "list", "--all", "--json", *place(refunded)).stdout)
    assert [each["key"] for each in left] == ["event-2"]
    kept = command("persona", "forget", "--before", "2020-01-01", "--json", *place(refunded)).stdout
    assert json.loads(kept) == {"deleted": 0}
    assert command("persona", "forget", *place(refunded)).exit_code == 2
