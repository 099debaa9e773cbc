"""Agents: the builder, the facade, and declarative configuration.

The one package that most programs import. The builder collects a description and never fails before
``build``, which reports the first problem as a typed error; a description without a mistake is resolved and
composed on a container. The facade is the edge where error values become the exception ``AgentError``: below
it nothing raises, above it no program has to match results. An agent holds no state of a run, so one agent
serves any number of runs, event loops and threads, and one built for a single request is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.agent.agent import AgentResult, ReactiveAgent
from reactive_agents.agent.builder import ReactiveAgents
from reactive_agents.agent.config import AgentConfig, load_mcp_servers, read_config
from reactive_agents.agent.errors import AgentError
from reactive_agents.core.tasks import AbstainedResult, CompletedResult, PartialResult, TypedResult
from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.agent.multi_agent import agent_tool  # imported by agents that use others

__all__ = [
    "AbstainedResult",
    "AgentConfig",
    "AgentError",
    "AgentResult",
    "CompletedResult",
    "PartialResult",
    "ReactiveAgent",
    "ReactiveAgents",
    "TypedResult",
    "agent_tool",
    "load_mcp_servers",
    "read_config",
]

if not TYPE_CHECKING:  # else type checkers accept any name
    __getattr__ = lazy_names(__name__, {"agent_tool": "reactive_agents.agent.multi_agent"})
