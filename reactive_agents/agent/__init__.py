"""Agents: the builder, the facade, and an agent as data."""

from __future__ import annotations

from reactive_agents.agent.agent import AgentResult, ReactiveAgent
from reactive_agents.agent.agent_tool import agent_tool
from reactive_agents.agent.builder import ReactiveAgents
from reactive_agents.agent.config import AgentConfig, read_config
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.output_types import TypedResult
from reactive_agents.agent.persona_agent import PersonaAgent
from reactive_agents.agent.persona_builder import Personas
from reactive_agents.agent.persona_config import PersonaConfig, read_persona

__all__ = [
    "AgentConfig",
    "AgentError",
    "AgentResult",
    "PersonaAgent",
    "PersonaConfig",
    "Personas",
    "ReactiveAgent",
    "ReactiveAgents",
    "TypedResult",
    "agent_tool",
    "read_config",
    "read_persona",
]
