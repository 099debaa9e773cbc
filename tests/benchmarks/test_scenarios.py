"""The work that is measured ends as it should; its time is not looked at."""

from __future__ import annotations

import pytest

from tests.benchmarks.framework import LoopModel, build_agent
from tests.benchmarks.peers.own_agent import work


@pytest.mark.anyio
async def test_a_long_run_with_many_tools_completes() -> None:
    agent = build_agent(LoopModel(30), work, other_tools=49)
    result = await agent.run("What is 1 + 2?")
    assert (result.status, result.metadata.model_calls) == ("completed", 31)
