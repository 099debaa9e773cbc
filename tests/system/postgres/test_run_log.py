"""A run log in Postgres keeps the contract of the one in a file."""

import hashlib
import json
from typing import Any

import anyio
import psycopg
from psycopg import sql

from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core.run_record import LoggedRunFilter
from reactive_agents.effects import attempt
from reactive_agents.testing import say
from tests.adapters.telemetry import test_run_log
from tests.support.postgres import contract_of

FILES_ALONE = {
    "test_secrets_are_not_in_the_file",
    "test_the_file_grows_with_what_is_new",
    "test_a_user_is_forgotten",
    "test_old_runs_are_deleted",
    "test_a_few_runs_are_deleted_at_a_time",
    "test_the_runs_of_a_user_are_forgotten_a_few_at_a_time",
    "test_requests_have_their_texts_after_the_file_was_locked",
    "test_an_operation_on_a_log_of_many_runs_takes_no_more_than_on_one_of_few",
    "test_runs_of_more_than_the_days_to_keep_are_deleted",
    "test_a_clock_that_jumps_ahead_deletes_no_run_on_its_first_day",
    "test_a_file_that_cannot_be_written_fails_no_run",
    "test_a_killed_run_is_there_up_to_the_kill",
    "test_the_key_of_the_record_encrypts_the_log_wherever_it_is",
    "test_a_log_that_cannot_be_encrypted_says_why",
}
globals().update(contract_of(test_run_log, files_alone=FILES_ALONE))


def rows_of(place: str) -> str:
    """Return all that the tables of a database hold, as text."""
    with psycopg.connect(place) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'reactive_agents'"
        ).fetchall()
        rows = [
            row
            for (table,) in tables
            for (row,) in connection.execute(
                sql.SQL("SELECT each::text FROM reactive_agents.{} AS each").format(sql.Identifier(table))
            )
        ]
    return "\n".join(rows)


def test_the_key_of_the_record_encrypts_the_log_in_a_database(place: str) -> None:
    key = bytes(32)
    plain = test_run_log.logging_agent(place, say("As you say.")).build()
    plain.run_sync("Paint the harbour.", tags=["a"])
    assert "Paint the harbour." in rows_of(place)
    agent = test_run_log.logging_agent(place, *test_run_log.SUM)
    built = agent.with_durability(place, key=key).build()
    done = built.run_sync("Add 1 and 2 for violet-harbour.", user="ada", tags=["b"])
    stored = rows_of(place)
    assert (done.run_id in stored, "violet" in stored) == (True, False)
    text = json.dumps({"content": "Add 1 and 2 for violet-harbour.", "tag": "UserMessage"}, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:32] not in stored, "a guess could be checked"

    async def found(text: str, key: bytes | None) -> Any:
        log = SqliteRunLog(place, read_only=True, key=key)
        runs = (await attempt(log.runs(LoggedRunFilter(text=text)))).unwrap()
        events = [(await attempt(log.events(each.run_id))).value_or(()) for each in runs]
        await log.aclose()
        return runs, str([each.body for logged in events for each in logged])

    runs, events = anyio.run(found, "VIOLET", key)
    assert [(each.task, each.user) for each in runs] == [("Add 1 and 2 for violet-harbour.", "ada")]
    assert "violet-harbour" in events
    assert [each.tags for each in anyio.run(found, "harbour", key)[0]] == [("b",), ("a",)]
    assert anyio.run(found, "violet", None)[0] == ()
    (unread,), _ = anyio.run(found, done.run_id, bytes(31) + b"1")
    assert "encrypted with another key" in unread.task
