"""Laws of recorded runs: whatever was scripted, a replay is equal, and no model or tool is asked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from reactive_agents import AgentError, ReactiveAgents, tool
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls, fail, say


@tool
def look(place: str) -> str:
    """Look at a place."""
    if place == "nowhere":
        raise LookupError("there is no such place")
    return f"{place} is empty"


places = st.sampled_from(["here", "there", "nowhere"])
one_call = places.map(lambda place: call("look", place=place))
turns: st.SearchStrategy[Turn] = st.one_of(
    one_call,
    st.lists(one_call, min_size=2, max_size=4).map(lambda several: calls(*several)),
    st.sampled_from([say("Let me think."), say("It is empty."), answer("Nothing is there.")]),
    st.just(fail(ModelUnavailable("The model is down.", "m"))),
)


@settings(max_examples=25)
@given(st.lists(turns, max_size=6))
def test_a_replay_is_equal(script: list[Turn]) -> None:
    async def check(folder: Path) -> None:
        def built(*turns: Turn):  # type: ignore[no-untyped-def]
            agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(look)
            return agent.with_max_iterations(6).with_durability(folder / "runs.db", recover=False).build()

        first = built(*script)
        with suppress(AgentError):
            await first.run("Look around.", run_id="r")
        replay = await built().runs.replay("r")
        assert replay.difference == ""
        assert replay.outcome is not None
        await first.aclose()

    with TemporaryDirectory() as folder:
        anyio.run(check, Path(folder))
