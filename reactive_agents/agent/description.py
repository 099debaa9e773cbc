"""What a builder holds while an agent is described."""

from __future__ import annotations

from typing import Any, Self, cast

from attrs import evolve, field, frozen
from returns.result import Failure

from reactive_agents.agent.assembly import LiveParts
from reactive_agents.agent.config import AgentConfig
from reactive_agents.agent.validation import changed_options
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import ConfigErrors, InvalidConfig


@frozen
class AgentDescription:
    """An agent, as far as it is described.

    Attributes:
        config: what of the agent is data.
        parts: what is not.
        problems: what the ``with_*`` calls found wrong; ``build`` fails with the first.
    """

    config: AgentConfig = field(factory=AgentConfig)
    parts: LiveParts = field(factory=LiveParts)
    problems: tuple[ConfigErrors, ...] = ()

    def _evolve(self, **changes: object) -> Self:
        """The description with other fields of its config; a wrong one is a problem that names its path."""
        read = changed_options(self.config, changes)
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return evolve(self, config=read.unwrap())

    def _evolve_within(self, option: str, **changes: object) -> Self:
        """The same for fields of one of the config's options."""
        known = cast(dict[str, Any], encode(getattr(self.config, option)))
        return self._evolve(**{option: {**known, **changes}})

    def _with_parts(self, **changes: object) -> Self:
        return evolve(self, parts=evolve(self.parts, **cast(Any, changes)))

    def _with_problem(self, problem: ConfigErrors) -> Self:
        return evolve(self, problems=(*self.problems, problem))


# --- Why an agent with a part that is no data cannot be written as data ---


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
    if parts.compaction_function is not None:
        name = repr(parts.compaction_function)
        return InvalidConfig("compaction_function", name, "module:function, to be written as data")
    if parts.policies:
        name = getattr(parts.policies[0], "__name__", "a policy")
        return InvalidConfig("policies", name, "no policies, which cannot be written as data")
    return None
