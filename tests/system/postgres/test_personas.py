"""The records and the queue of personas in Postgres keep the contract of those in a file."""

import json
from typing import Any

import anyio
import psycopg
import pytest
from psycopg import sql

from reactive_agents import Personas, ReactiveAgents
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, forever, say
from tests.adapters.memory import test_personas
from tests.cli import test_persona_work
from tests.support.command_line import command
from tests.support.personas import assessed, planned
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_the_latest_of_a_room_or_domain_are_found_without_reading_all_of_it",
    "test_what_cannot_be_read_is_a_dead_letter_that_holds_up_no_other_room",
    "test_what_cannot_be_read_keeps_nobody_from_being_forgotten",
    "test_work_of_a_process_that_is_gone_or_silent_is_taken_over",
    "test_a_dead_letter_and_its_message_are_stored_together_or_not_at_all",
    "test_a_clock_that_is_set_back_makes_no_try_wait_for_it",  # the server has its own
    "test_a_file_from_before_personas_is_brought_forward",
    "test_a_file_that_cannot_be_written_is_a_failure",
    "test_an_operation_on_many_events_takes_no_more_than_on_few",
}
globals().update(contract_of(test_personas, files_alone=FILES_ALONE))

test_a_dead_letter_is_listed_and_sent_after_a_retry = (
    test_persona_work.test_a_dead_letter_is_listed_and_sent_after_a_retry
)
test_a_plan_is_cancelled_while_it_is_executed_and_tried_again = (
    test_persona_work.test_a_plan_is_cancelled_while_it_is_executed_and_tried_again
)


@pytest.mark.anyio
async def test_the_lease_of_another_machine_ends_by_the_clock_of_the_server(
    place: str,
) -> None:
    store = SqlitePersonaStore(place)
    await test_personas.add(store, "e1")
    item = await test_personas.claimed(store)
    assert item is not None

    def held_elsewhere(seconds: int) -> None:
        with psycopg.connect(place) as connection:
            connection.execute(
                "UPDATE reactive_agents.persona_work SET holder = 'h elsewhere 1 1', lease_until ="
                " CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint) + %s",
                (seconds * 1_000_000,),
            )

    held_elsewhere(10)
    assert await test_personas.claimed(store) is None
    assert not (await attempt(store.end_work(item))).unwrap(), "another machine has it"
    held_elsewhere(-1)
    again = await test_personas.claimed(store)
    assert again is not None
    assert (await attempt(store.end_work(again))).unwrap()
    await store.aclose()


def test_the_records_of_a_persona_are_shown_from_a_database(place: str, tmp_path_factory: Any) -> None:
    turns = planned("Refund it."), say("It is refunded."), assessed("Pay back quickly.")
    agent = ReactiveAgents.create().with_reasoning()
    described = Personas.create("Ada").with_memory(place).with_llm(ScriptedLLM(*turns, forever(say("[]"))))

    async def answer_one() -> tuple[str, str]:
        async with described.with_domain("chat", agent).build() as ada:
            outcome = await ada.send("Refund it.", context="a", author="Bob")
            assert outcome.plan is not None
            return ada.persona.settings.id, outcome.plan.id

    persona, plan = anyio.run(answer_one)
    file = tmp_path_factory.mktemp("persona") / "ada.toml"
    file.write_text(f'id = "{persona}"\nname = "Ada"\nmemory = "elsewhere.db"\n')
    for named in (persona, file):
        chosen = ("--persona", named, "--memory", place)
        assert f"plan {plan}" in command("plan", *chosen).stdout
        assert "It is refunded." in command("explain", "--plan-id", plan, *chosen).stdout
        (learned,) = json.loads(command("learnings", *chosen, "--json").stdout)
        assert learned["pattern"] == "Pay back quickly."
        assert command("learnings", "show", learned["id"], *chosen).exit_code == 0
        kept = command("learnings", "override", learned["id"], "--confidence", "0.5", *chosen)
        assert "confidence: 0.50 (set by hand)" in kept.stdout


def test_all_that_is_kept_of_a_user_is_deleted_also_what_agents_remember(place: str) -> None:
    llm = ScriptedLLM(
        *(
            turn
            for name in ("Zebra4711", "Otter12")
            for turn in (planned(f"Refund {name}."), say(f"{name} is refunded."), assessed(f"Pay {name}."))
        ),
        forever(say("[]")),
    )
    agent = ReactiveAgents.create().with_reasoning().with_memory(place)
    described = Personas.create("Ada").with_memory(place).with_llm(llm).with_domain("chat", agent)

    async def answer_both() -> str:
        async with described.build() as ada:
            await ada.send("Refund Zebra4711.", context="a", author="Bob")
            await ada.send("Refund Otter12.", context="b", author="Eve")
            return ada.persona.settings.id

    def stored(name: str) -> set[str]:
        with psycopg.connect(place) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'reactive_agents'"
            ).fetchall()
            return {
                table
                for (table,) in tables
                for (row,) in connection.execute(
                    sql.SQL("SELECT lower(each::text) FROM reactive_agents.{} AS each").format(
                        sql.Identifier(table)
                    )
                )
                if name in row
            }

    persona = anyio.run(answer_both)
    everywhere = {"persona_work", "persona_plans", "persona_journal", "persona_learnings", "memories"}
    assert stored("zebra4711") >= everywhere
    deleted = command("persona", "forget", "--user", "Bob", "--persona", persona, "--memory", place)
    assert deleted.stdout == "deleted 1 event(s)\n", deleted.stderr
    assert stored("zebra4711") == set()
    assert stored("otter12") >= everywhere
