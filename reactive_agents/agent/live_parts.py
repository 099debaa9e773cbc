"""Why an agent with a part that is no data cannot be written as data."""

from __future__ import annotations

from reactive_agents.agent.assembly import LiveParts
from reactive_agents.core.errors import InvalidConfig


def live_problem(parts: LiveParts) -> InvalidConfig | None:
    """What names the first part that no document can hold, apart from tools; ``None`` without such a part."""
    if parts.llm is not None:
        kind = type(parts.llm).__name__
        return InvalidConfig("llm", kind, "a model by name, to be written as data")
    if parts.hooks:
        where = f"a hook for {parts.hooks[0].phase}/{parts.hooks[0].timing}"
        return InvalidConfig("hooks", where, "no hooks, which cannot be written as data")
    if parts.approver is not None:
        kind = type(parts.approver).__name__
        return InvalidConfig("approval", kind, "no approver, which cannot be written as data")
    if parts.strategies:
        name = repr(parts.strategies[0][0])
        return InvalidConfig("strategies", name, "a built-in strategy, to be written as data")
    if parts.output_type is not None:
        kind = repr(parts.output_type)
        return InvalidConfig("output_type", kind, "none, to be written as data")
    if parts.controller is not None:
        return InvalidConfig("controller", "a controller", "none, to be written as data")
    if parts.checks:
        name = getattr(parts.checks[0], "__name__", "a check")
        return InvalidConfig("guardrails.checks", name, "no functions, to be written as data")
    if parts.embedder is not None:
        kind = type(parts.embedder).__name__
        return InvalidConfig("memory.embedder", kind, "an embedding_model, to be written as data")
    if parts.signing_key is not None:
        return InvalidConfig("audit", "a signing key", "none, to be written as data")
    if parts.synthesizer is not None:
        name = repr(parts.synthesizer)
        return InvalidConfig("synthesis_strategy", name, "module:function, to be written as data")
    if parts.policies:
        name = getattr(parts.policies[0], "__name__", "a policy")
        return InvalidConfig("policies", name, "no policies, which cannot be written as data")
    return None
