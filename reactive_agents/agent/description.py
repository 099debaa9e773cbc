"""What a builder holds while an agent is described."""

from __future__ import annotations

from typing import Any, Self, cast

from attrs import evolve, field

from reactive_agents.agent.assembly import LiveParts
from reactive_agents.agent.config import AgentConfig
from reactive_agents.core.errors import ConfigErrors
from reactive_agents.core.frozen import frozen


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
        return evolve(self, config=evolve(self.config, **cast(Any, changes)))

    def _with_parts(self, **changes: object) -> Self:
        return evolve(self, parts=evolve(self.parts, **cast(Any, changes)))

    def _with_problem(self, problem: ConfigErrors) -> Self:
        return evolve(self, problems=(*self.problems, problem))
