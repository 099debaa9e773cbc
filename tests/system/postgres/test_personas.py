"""The records and the queue of personas in Postgres keep the contract of those in a file."""

import psycopg
import pytest

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.effects import attempt
from tests.adapters.memory import test_personas
from tests.cli import test_persona_work
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_the_latest_of_a_room_are_found_without_reading_all_of_it",
    "test_what_cannot_be_read_is_a_dead_letter_that_holds_up_no_other_room",
    "test_work_of_a_process_that_is_gone_or_silent_is_taken_over",
    "test_a_clock_that_is_set_back_makes_no_try_wait_for_it",  # the server has its own
    "test_a_file_from_before_personas_is_brought_forward",
    "test_a_file_that_cannot_be_written_is_a_failure",
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
