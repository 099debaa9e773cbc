"""Agents with a pure reasoning kernel, a ten-phase engine and typed errors.

Importing this package imports nothing else; each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.core import VERSION
from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.adapters.governance.guardrails.checks import FunctionCheck
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
        load_mcp_servers,
        read_config,
    )
    from reactive_agents.agent.document_search import DocumentIndex
    from reactive_agents.agent.multi_agent import handoff, without_tool_calls
    from reactive_agents.agent.output_types import result_adapter
    from reactive_agents.agent.persona import PersonaAgent, Personas
    from reactive_agents.agent.persona_config import PersonaConfig, read_persona
    from reactive_agents.containers import RuntimeContainer, create_runtime
    from reactive_agents.core.config import (
        CheckConfig,
        FallbackModel,
        ModelPrice,
        ModelTier,
        ReasoningConfig,
    )
    from reactive_agents.core.content import Audio, Document, Image
    from reactive_agents.core.errors import GuardrailViolationError
    from reactive_agents.core.events import (
        AgentEvent,
        ApprovalRequested,
        CustomEvent,
        ExternalCallRequested,
        HandedOff,
        ModelStreamRestarted,
        ModelTextRetracted,
        ModelTextStreamed,
        ModelThinkingStreamed,
        QuestionAsked,
        TaskCompleted,
        TaskFailed,
        TaskStarted,
        ToolCallCompleted,
        ToolCallStarted,
        ToolProgressed,
    )
    from reactive_agents.core.governance import (
        ApprovalDecision,
        ApprovalRequest,
        GuardrailFinding,
        HandoffInfo,
        QuestionRequest,
    )
    from reactive_agents.core.ids import ApprovalId, RequestId, RunId, TaskId
    from reactive_agents.core.message_formats import (
        messages_from_json,
        messages_from_openai,
        messages_to_json,
        messages_to_openai,
    )
    from reactive_agents.core.messages import (
        AssistantMessage,
        Message,
        SystemMessage,
        ToolCall,
        ToolMessage,
        UserMessage,
    )
    from reactive_agents.core.model_settings import ModelSettings
    from reactive_agents.core.results import ModelRetry
    from reactive_agents.core.run_context import RunContext
    from reactive_agents.core.tasks import Task
    from reactive_agents.core.tools import RunTool, ToolContext, ToolDefinition, ToolResult
    from reactive_agents.effects import gather
    from reactive_agents.evaluation import Case, evaluate
    from reactive_agents.reasoning.strategies.workflow import CallFailed, WorkflowRun

__version__ = VERSION

_NAMES = {
    "adapters.governance.guardrails.checks": "FunctionCheck",
    "adapters.tools.decorator": "Tool external_tool tool",
    "adapters.tools.mcp": "McpServer",
    "agent": (
        "AgentConfig AgentError AgentResult ReactiveAgent ReactiveAgents TypedResult agent_tool "
        "load_mcp_servers read_config"
    ),
    "agent.document_search": "DocumentIndex",
    "agent.multi_agent": "handoff without_tool_calls",
    "agent.output_types": "result_adapter",
    "agent.persona": "PersonaAgent Personas",
    "agent.persona_config": "PersonaConfig read_persona",
    "containers": "RuntimeContainer create_runtime",
    "core.config": "CheckConfig FallbackModel ModelPrice ModelTier ReasoningConfig",
    "core.content": "Audio Document Image",
    "core.errors": "GuardrailViolationError",
    "core.events": (
        "AgentEvent ApprovalRequested CustomEvent ExternalCallRequested HandedOff ModelStreamRestarted "
        "ModelTextRetracted ModelTextStreamed ModelThinkingStreamed QuestionAsked TaskCompleted "
        "TaskFailed TaskStarted ToolCallCompleted ToolCallStarted ToolProgressed"
    ),
    "core.governance": "ApprovalDecision ApprovalRequest GuardrailFinding HandoffInfo QuestionRequest",
    "core.ids": "ApprovalId RequestId RunId TaskId",
    "core.message_formats": "messages_from_json messages_from_openai messages_to_json messages_to_openai",
    "core.messages": "AssistantMessage Message SystemMessage ToolCall ToolMessage UserMessage",
    "core.model_settings": "ModelSettings",
    "core.results": "ModelRetry",
    "core.run_context": "RunContext",
    "core.tasks": "AbstainedResult CompletedResult PartialResult Task",
    "core.tools": "RunTool ToolContext ToolDefinition ToolResult",
    "effects": "gather",
    "evaluation": "Case evaluate",
    "reasoning.strategies.workflow": "CallFailed WorkflowRun",
}
"""The names of each module, separated by blanks."""

_HOMES = {name: f"{__name__}.{home}" for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "AbstainedResult",
    "AgentConfig",
    "AgentError",
    "AgentEvent",
    "AgentResult",
    "ApprovalDecision",
    "ApprovalId",
    "ApprovalRequest",
    "ApprovalRequested",
    "AssistantMessage",
    "Audio",
    "CallFailed",
    "Case",
    "CheckConfig",
    "CompletedResult",
    "CustomEvent",
    "Document",
    "DocumentIndex",
    "ExternalCallRequested",
    "FallbackModel",
    "FunctionCheck",
    "GuardrailFinding",
    "GuardrailViolationError",
    "HandedOff",
    "HandoffInfo",
    "Image",
    "McpServer",
    "Message",
    "ModelPrice",
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
    "RequestId",
    "RunContext",
    "RunId",
    "RunTool",
    "RuntimeContainer",
    "SystemMessage",
    "Task",
    "TaskCompleted",
    "TaskFailed",
    "TaskId",
    "TaskStarted",
    "Tool",
    "ToolCall",
    "ToolCallCompleted",
    "ToolCallStarted",
    "ToolContext",
    "ToolDefinition",
    "ToolMessage",
    "ToolProgressed",
    "ToolResult",
    "TypedResult",
    "UserMessage",
    "WorkflowRun",
    "agent_tool",
    "create_runtime",
    "evaluate",
    "external_tool",
    "gather",
    "handoff",
    "load_mcp_servers",
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


if not TYPE_CHECKING:  # else type checkers accept any name
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
