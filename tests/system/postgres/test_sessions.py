"""Sessions in Postgres keep the contract of those in a file."""

import threading
from datetime import timedelta

import anyio
import pytest
from returns.result import Success

from reactive_agents.adapters.memory import sessions
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.conversation import History
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.agent import test_conversations, test_session_state, test_session_turns
from tests.agent.test_session_turns import KEY, ONE, TWO, asked, begun, turn
from tests.support.postgres import contract_of

OF_TURNS = {
    "test_a_turn_reads_no_more_of_a_long_session_than_of_a_short_one",
    "test_a_run_waits_for_its_session_until_its_time_limit",  # in the process alone
    "test_a_session_is_free_after_an_approval_that_exits",
}
globals().update(contract_of(test_session_turns, files_alone=OF_TURNS))

OF_STATE = (
    "test_tools_read_in_a_run_what_they_kept_in_earlier_runs_of_the_session",
    "test_a_run_that_was_overtaken_adds_its_changes_in_its_place",
    "test_new_sessions_and_runs_without_one_begin_with_the_state_of_the_agent",
    "test_the_program_changes_the_state_before_between_and_in_runs",
    "test_a_session_whose_first_run_is_under_way_is_that_of_its_user",
)
globals().update({name: vars(test_session_state)[name] for name in OF_STATE})

OF_SESSIONS = (
    "test_a_session_goes_on_from_run_to_run",
    "test_a_session_is_that_of_the_user_who_began_it",
    "test_a_run_that_fails_adds_nothing_and_lets_the_next_one_begin",
    "test_a_run_that_is_cancelled_while_it_waits_leaves_the_session",
    "test_a_ticket_of_a_process_that_is_gone_is_void",
    "test_sessions_are_renamed_forked_and_deleted",
)
globals().update({name: vars(test_conversations)[name] for name in OF_SESSIONS})


@pytest.mark.anyio
async def test_a_run_that_begins_while_its_session_is_pruned_keeps_the_history(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    store = SqliteSessions(place, clock=clock)
    await begun(store, ONE)
    assert await attempt(store.end(KEY, ONE, turn(ONE))) == Success(None)
    clock.advance(95 * 86_400)
    histories: list[History] = []
    marks = sessions.sql.marks

    async def begin() -> None:
        other = SqliteSessions(place, clock=clock)
        histories.append(await begun(other, TWO))
        await other.aclose()

    def begin_before_the_deletion(found: list[int]) -> str:
        if found and not histories:
            beginning = threading.Thread(target=anyio.run, args=(begin,))
            beginning.start()
            beginning.join()
        return marks(found)

    monkeypatch.setattr(sessions.sql, "marks", begin_before_the_deletion)
    assert (await attempt(store.prune(clock.now() - timedelta(days=90)))).unwrap() == 0
    assert [each.messages for each in histories] == [turn(ONE).messages]
    assert await asked(store) == ["asked run-1"]
    await store.aclose()
