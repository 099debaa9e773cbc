"""Every way that things go wrong, as values: one class a cause, one union a layer.

Each error has a ``message``: one sentence for a person, without secrets and without a stack trace.
"""

from __future__ import annotations

from reactive_agents.core.errors.config import (
    ConfigErrors,
    DecodeError,
    FieldProblem,
    InvalidConfig,
    ServiceMissing,
)
from reactive_agents.core.errors.kernel import IllegalTransition, KernelErrors, KernelFailed, ModelCallFailed
from reactive_agents.core.errors.models import (
    AuthenticationFailed,
    ContextOverflow,
    LLMErrors,
    MalformedResponse,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
    ScriptExhausted,
)
from reactive_agents.core.errors.reasoning import (
    IterationLimitError,
    ReasoningError,
    ReasoningErrors,
    SelectionError,
    StrategyExecutionError,
    StrategyNotFoundError,
)
from reactive_agents.core.errors.runtime import (
    ExecutionError,
    GuardrailViolationError,
    HookError,
    IllegalAgentState,
    MaxIterationsError,
    PhaseCause,
    RunCancelled,
    RuntimeErrors,
    TaskError,
    root_cause,
)
from reactive_agents.core.errors.services import (
    ApprovalNotPending,
    MemoryErrors,
    MemoryUnavailable,
    ServiceFailed,
)
from reactive_agents.core.errors.tools import (
    AddressRefused,
    ArgumentProblem,
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
    WorkspaceViolation,
)

__all__ = [
    "AddressRefused",
    "ApprovalNotPending",
    "ArgumentProblem",
    "AuthenticationFailed",
    "ConfigErrors",
    "ContextOverflow",
    "DecodeError",
    "ExecutionError",
    "FieldProblem",
    "GuardrailViolationError",
    "HookError",
    "IllegalAgentState",
    "IllegalTransition",
    "InvalidConfig",
    "InvalidToolArguments",
    "IterationLimitError",
    "KernelErrors",
    "KernelFailed",
    "LLMErrors",
    "MalformedResponse",
    "MaxIterationsError",
    "MemoryErrors",
    "MemoryUnavailable",
    "ModelCallFailed",
    "ModelTimeout",
    "ModelUnavailable",
    "PhaseCause",
    "RateLimited",
    "ReasoningError",
    "ReasoningErrors",
    "RequestRejected",
    "RunCancelled",
    "RuntimeErrors",
    "ScriptExhausted",
    "SelectionError",
    "ServiceFailed",
    "ServiceMissing",
    "StrategyExecutionError",
    "StrategyNotFoundError",
    "TaskError",
    "ToolErrors",
    "ToolFailed",
    "ToolNotApproved",
    "ToolNotFound",
    "ToolTimedOut",
    "WorkspaceViolation",
    "root_cause",
]
