"""Agents: the builder, the facade, and an agent as data."""

from __future__ import annotations

from reactive_agents.agent.agent import AgentError, AgentResult, ReactiveAgent
from reactive_agents.agent.agent_tool import agent_tool
from reactive_agents.agent.builder import ReactiveAgents
from reactive_agents.agent.config import AgentConfig, read_config
from reactive_agents.agent.output_types import TypedResult

__all__ = [
    "AgentConfig",
    "AgentError",
    "AgentResult",
    "ReactiveAgent",
    "ReactiveAgents",
    "TypedResult",
    "agent_tool",
    "read_config",
]
