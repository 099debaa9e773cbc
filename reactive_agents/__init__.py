"""Agents with a pure reasoning kernel, a ten-phase engine and typed errors.

Importing this package imports nothing else; each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.core import VERSION
from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.adapters.tools.decorator import Tool, external_tool, tool
    from reactive_agents.adapters.tools.mcp import McpServer
    from reactive_agents.agent import (
        AbstainedResult,
        AgentConfig,
        AgentError,
        AgentResult,
        CompletedResult,
        PartialResult,
        ReactiveAgent,
        ReactiveAgents,
        TypedResult,
        agent_tool,
        read_config,
    )
    from reactive_agents.agent.multi_agent import handoff, without_tool_calls
    from reactive_agents.agent.output_types import result_adapter
    from reactive_agents.agent.persona import PersonaAgent, Personas
    from reactive_agents.agent.persona_config import PersonaConfig, read_persona
    from reactive_agents.containers import RuntimeContainer, create_runtime
    from reactive_agents.core.config import ModelTier, ReasoningConfig
    from reactive_agents.core.content import Audio, Document, Image
    from reactive_agents.core.events import (
        AgentEvent,
        ApprovalRequested,
        ExternalCallRequested,
        HandedOff,
        ModelStreamRestarted,
        ModelTextRetracted,
        ModelTextStreamed,
        ModelThinkingStreamed,
        QuestionAsked,
        TaskCompleted,
        TaskFailed,
        ToolCallCompleted,
        ToolCallStarted,
        ToolProgressed,
    )
    from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, QuestionRequest
    from reactive_agents.core.message_formats import (
        messages_from_json,
        messages_from_openai,
        messages_to_json,
        messages_to_openai,
    )
    from reactive_agents.core.messages import (
        AssistantMessage,
        SystemMessage,
        ToolCall,
        ToolMessage,
        UserMessage,
    )
    from reactive_agents.core.model_settings import ModelSettings
    from reactive_agents.core.results import ModelRetry
    from reactive_agents.core.run_context import RunContext
    from reactive_agents.core.tasks import Task
    from reactive_agents.core.tools import ToolContext, ToolDefinition
    from reactive_agents.effects import gather
    from reactive_agents.engine.handoffs import HandoffInfo
    from reactive_agents.evaluation import Case, evaluate

__version__ = VERSION

_HOMES = {
    "AbstainedResult": "reactive_agents.core.tasks",
    "AgentConfig": "reactive_agents.agent",
    "AgentError": "reactive_agents.agent",
    "AgentEvent": "reactive_agents.core.events",
    "AgentResult": "reactive_agents.agent",
    "ApprovalDecision": "reactive_agents.core.governance",
    "ApprovalRequest": "reactive_agents.core.governance",
    "ApprovalRequested": "reactive_agents.core.events",
    "AssistantMessage": "reactive_agents.core.messages",
    "Audio": "reactive_agents.core.content",
    "Case": "reactive_agents.evaluation",
    "CompletedResult": "reactive_agents.core.tasks",
    "Document": "reactive_agents.core.content",
    "ExternalCallRequested": "reactive_agents.core.events",
    "HandedOff": "reactive_agents.core.events",
    "HandoffInfo": "reactive_agents.engine.handoffs",
    "Image": "reactive_agents.core.content",
    "McpServer": "reactive_agents.adapters.tools.mcp",
    "ModelRetry": "reactive_agents.core.results",
    "ModelSettings": "reactive_agents.core.model_settings",
    "ModelStreamRestarted": "reactive_agents.core.events",
    "ModelTextRetracted": "reactive_agents.core.events",
    "ModelTextStreamed": "reactive_agents.core.events",
    "ModelThinkingStreamed": "reactive_agents.core.events",
    "ModelTier": "reactive_agents.core.config",
    "PartialResult": "reactive_agents.core.tasks",
    "PersonaAgent": "reactive_agents.agent.persona",
    "PersonaConfig": "reactive_agents.agent.persona_config",
    "Personas": "reactive_agents.agent.persona",
    "QuestionAsked": "reactive_agents.core.events",
    "QuestionRequest": "reactive_agents.core.governance",
    "ReactiveAgent": "reactive_agents.agent",
    "ReactiveAgents": "reactive_agents.agent",
    "ReasoningConfig": "reactive_agents.core.config",
    "RunContext": "reactive_agents.core.run_context",
    "RuntimeContainer": "reactive_agents.containers",
    "SystemMessage": "reactive_agents.core.messages",
    "Task": "reactive_agents.core.tasks",
    "TaskCompleted": "reactive_agents.core.events",
    "TaskFailed": "reactive_agents.core.events",
    "Tool": "reactive_agents.adapters.tools.decorator",
    "ToolCall": "reactive_agents.core.messages",
    "ToolCallCompleted": "reactive_agents.core.events",
    "ToolCallStarted": "reactive_agents.core.events",
    "ToolContext": "reactive_agents.core.tools",
    "ToolDefinition": "reactive_agents.core.tools",
    "ToolMessage": "reactive_agents.core.messages",
    "ToolProgressed": "reactive_agents.core.events",
    "TypedResult": "reactive_agents.agent",
    "UserMessage": "reactive_agents.core.messages",
    "agent_tool": "reactive_agents.agent",
    "create_runtime": "reactive_agents.containers",
    "evaluate": "reactive_agents.evaluation",
    "external_tool": "reactive_agents.adapters.tools.decorator",
    "gather": "reactive_agents.effects",
    "handoff": "reactive_agents.agent.multi_agent",
    "messages_from_json": "reactive_agents.core.message_formats",
    "messages_from_openai": "reactive_agents.core.message_formats",
    "messages_to_json": "reactive_agents.core.message_formats",
    "messages_to_openai": "reactive_agents.core.message_formats",
    "read_config": "reactive_agents.agent",
    "read_persona": "reactive_agents.agent.persona_config",
    "result_adapter": "reactive_agents.agent.output_types",
    "tool": "reactive_agents.adapters.tools.decorator",
    "without_tool_calls": "reactive_agents.agent.multi_agent",
}

__all__ = [
    "AbstainedResult",
    "AgentConfig",
    "AgentError",
    "AgentEvent",
    "AgentResult",
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalRequested",
    "AssistantMessage",
    "Audio",
    "Case",
    "CompletedResult",
    "Document",
    "ExternalCallRequested",
    "HandedOff",
    "HandoffInfo",
    "Image",
    "McpServer",
    "ModelRetry",
    "ModelSettings",
    "ModelStreamRestarted",
    "ModelTextRetracted",
    "ModelTextStreamed",
    "ModelThinkingStreamed",
    "ModelTier",
    "PartialResult",
    "PersonaAgent",
    "PersonaConfig",
    "Personas",
    "QuestionAsked",
    "QuestionRequest",
    "ReactiveAgent",
    "ReactiveAgents",
    "ReasoningConfig",
    "RunContext",
    "RuntimeContainer",
    "SystemMessage",
    "Task",
    "TaskCompleted",
    "TaskFailed",
    "Tool",
    "ToolCall",
    "ToolCallCompleted",
    "ToolCallStarted",
    "ToolContext",
    "ToolDefinition",
    "ToolMessage",
    "ToolProgressed",
    "TypedResult",
    "UserMessage",
    "agent_tool",
    "create_runtime",
    "evaluate",
    "external_tool",
    "gather",
    "handoff",
    "messages_from_json",
    "messages_from_openai",
    "messages_to_json",
    "messages_to_openai",
    "read_config",
    "read_persona",
    "result_adapter",
    "tool",
    "without_tool_calls",
]


__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
