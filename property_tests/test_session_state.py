"""The state of a session over interleaved runs, held to a model of it.

The model knows no present state: it has what changed in each turn, in the order of the turns, and works the
state out of that. A run that was interrupted takes a new turn when it goes on; one that was overtaken, since
its process stalled, ends in its own turn. Both began with an earlier state.
"""

from __future__ import annotations

from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Success

from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.conversation import SessionKey, SessionTurn
from reactive_agents.core.ids import AgentId, RunId, SessionId
from reactive_agents.core.messages import AssistantMessage, UserMessage
from reactive_agents.core.run_context import SessionState
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.profiles import examples

KEY = SessionKey(AgentId("agent"), SessionId("a"), "ada")
DEFAULT: dict[str, Any] = {"a": 0, "b": 0}
NAMES = st.sampled_from("ac")
VALUES = st.sampled_from([0, 1, True, None, {"n": []}])
RUNS = st.integers(0, 1)
DELETED: Any = ...


class Model:
    """A session as layers of changes: first those before the first turn, then of each turn by its number."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self.turns: dict[int, dict[str, Any]] = {}

    def state(self, turns: int | None = None) -> dict[str, Any]:
        state = dict(self.first)
        for number in sorted(self.turns)[:turns]:
            state |= self.turns[number]
        return {key: value for key, value in state.items() if value is not DELETED}

    def update(self, changes: dict[str, Any]) -> None:
        layer = self.turns[max(self.turns)] if self.turns else self.first
        layer |= changes

    def end(self, number: int, changes: dict[str, Any], *, began_new: bool) -> None:
        if not self.turns and began_new:
            changes = {**{key: value for key, value in DEFAULT.items() if key not in self.state()}, **changes}
        self.turns[number] = changes


class Run:
    """A run between its beginning and its end."""

    def __init__(self, run_id: RunId, history: Any) -> None:
        self.run_id = run_id
        self.is_new = history.is_new
        self.begun = {**(DEFAULT if self.is_new else {}), **history.state}
        self.state = SessionState(self.begun)
        self.changes: dict[str, Any] = {}
        self.number = history.turn + 1
        self.is_interrupted = False

    def change(self, name: str, value: Any) -> None:
        if value is not DELETED:
            self.state[name] = value
        elif name in self.state:
            del self.state[name]
        else:
            return
        self.changes[name] = value

    def turn(self) -> SessionTurn:
        changed = self.state.changed
        return SessionTurn(
            self.run_id,
            (UserMessage("asked"), AssistantMessage("said")),
            "text",
            state=self.state.snapshot(),
            changed=changed,
            before={key: self.begun[key] for key in changed if key in self.begun},
            initial=DEFAULT if self.is_new else {},
        )


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["begin", "begin", "interrupt", "end"]), RUNS),
        st.tuples(st.just("change"), RUNS, NAMES, VALUES | st.just(DELETED)),
        st.tuples(st.just("update"), st.dictionaries(NAMES, VALUES | st.just(DELETED), max_size=2)),
    ),
    min_size=12,
    max_size=30,
)


def shown(state: Any) -> str:
    """The state as a text, since ``True == 1``."""
    return repr(dict(sorted(state.items())))


@examples(150)
@given(STEPS)
def test_no_key_that_a_run_left_alone_is_overwritten_and_the_latest_turn_counts(steps: Any) -> None:
    anyio.run(interleaved, steps)


async def interleaved(steps: Any) -> None:
    store, model, runs, ended = SqliteSessions(clock=FakeClock()), Model(), dict[int, Run](), 0

    async def done(effect: Any) -> Any:
        outcome = await attempt(effect)
        assert isinstance(outcome, Success), outcome
        return outcome.unwrap()

    async def begin(run_id: RunId) -> Any:
        stalled = "UPDATE conversation_tickets SET valid_until_us = ?"
        await store._file.write("stall", lambda file: file.execute(stalled, (store._now() - 1_000,)))
        return await done(store.begin(KEY, run_id, size=1_000, earlier=0))

    for kind, *given_ in steps:
        if kind == "update":
            (changes,) = given_
            values = {key: value for key, value in changes.items() if value is not DELETED}
            model.update(changes)
            await done(store.update_state(KEY, values, tuple(changes.keys() - values.keys())))
            continue
        which = given_[0]
        run = runs.get(which)
        if kind == "begin" and run is None:
            run_id = RunId(f"run-{which}-{ended}")
            history = await begin(run_id)
            assert shown(history.state) == shown(model.state())
            runs[which] = Run(run_id, history)
        elif run is None:
            continue
        elif kind == "change":
            run.change(*given_[1:])
        elif kind == "interrupt" and not run.is_interrupted:
            await done(store.end(KEY, run.run_id, None))
            run.is_interrupted = True
        elif kind == "end":
            if run.is_interrupted:  # it goes on with the state that it began with
                run.number = (await begin(run.run_id)).turn + 1
            model.end(run.number, run.changes, began_new=run.is_new)
            await done(store.end(KEY, run.run_id, run.turn()))
            del runs[which]
            ended += 1
        if model.turns or model.first:
            assert shown(await done(store.state(KEY.agent, KEY.session))) == shown(model.state())
    for count in range(1, len(model.turns) + 1):
        await done(store.fork(KEY.agent, KEY.session, SessionId(f"fork-{count}"), count))
        forked = await done(store.state(KEY.agent, SessionId(f"fork-{count}")))
        assert shown(forked) == shown(model.state(count))
    await store.aclose()
