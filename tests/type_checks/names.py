# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""A name that a package lacks is a type error, although its names are imported on first use."""

from __future__ import annotations

import reactive_agents
import reactive_agents.agent
import reactive_agents.core.errors
import reactive_agents.core.events
import reactive_agents.reasoning
import reactive_agents.server
import reactive_agents.testing

history: list[reactive_agents.Message] = [reactive_agents.UserMessage("Hello.")]
print(reactive_agents.Agent)  # type: ignore[attr-defined]
print(reactive_agents.agent.Agent)  # type: ignore[attr-defined]
print(reactive_agents.core.errors.TaskFailure)  # type: ignore[attr-defined]
print(reactive_agents.core.events.TaskBegun)  # type: ignore[attr-defined]
print(reactive_agents.reasoning.Reasoning)  # type: ignore[attr-defined]
print(reactive_agents.server.create_application)  # type: ignore[attr-defined]
print(reactive_agents.testing.FakeLLM)  # type: ignore[attr-defined]
