"""What a builder holds while an agent is described."""

from __future__ import annotations

from typing import Any, Self, cast

from attrs import evolve, field, frozen
from returns.result import Failure

from reactive_agents.agent.assembly import LiveParts
from reactive_agents.agent.config import AgentConfig
from reactive_agents.agent.option_values import changed_options
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import ConfigErrors


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
