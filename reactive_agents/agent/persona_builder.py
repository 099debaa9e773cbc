"""The builder of personas."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from returns.future import FutureResult
from returns.result import Failure, Result

from reactive_agents.agent.builder import ReactiveAgents
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.option_values import changed_options, wrong_path, wrong_text
from reactive_agents.agent.persona_agent import PersonaAgent
from reactive_agents.agent.persona_assembly import DomainParts, assemble_persona
from reactive_agents.agent.persona_config import DomainConfig, PersonaConfig, read_persona
from reactive_agents.containers.embedding import embedder_problem
from reactive_agents.core.errors import ConfigErrors
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.personas import PlanTemplate
from reactive_agents.effects import Effect
from reactive_agents.persona import Deliver, Describe
from reactive_agents.ports import LLM, Embedder, PersonaStore

NAMELESS = PersonaConfig("persona", "persona.db")


@frozen
class Personas:
    """An immutable builder: each ``with_*`` returns a new one, and ``build()`` says what is wrong.

    Attributes:
        config: what of the persona is data.
        parts: what of each domain is not, by its name.
        llm: a model object for all domains that have none of their own.
        store: instead of the memory file.
        embedder: turns texts into vectors, instead of a model by name.
        problems: what was found wrong; ``build`` fails with the first.
    """

    config: PersonaConfig = NAMELESS
    parts: Mapping[str, DomainParts] = field(factory=dict)
    llm: LLM | None = None
    store: PersonaStore | None = None
    embedder: Embedder | None = None
    problems: tuple[ConfigErrors, ...] = ()

    @classmethod
    def create(cls, name: str = "persona") -> Personas:
        """A persona without domains, which keeps what it knows in ``<name>.db``."""
        wrong = wrong_text("name", name, "a name that is not blank")
        if wrong is not None:
            return cls(problems=(wrong,))
        return cls(PersonaConfig(name, f"{name}.db"))

    @classmethod
    def from_config(cls, source: PersonaConfig | Mapping[str, Any] | str | Path) -> Personas:
        """The persona that a config, a mapping, or a ``.json`` or ``.toml`` file describes."""
        read = read_persona(source)
        return cls(problems=(read.failure(),)) if isinstance(read, Failure) else cls(read.unwrap())

    def with_options(self, **options: Any) -> Personas:
        """Set fields of :class:`PersonaConfig`, as values or as mappings: ``learning={"shown": 3}``.

        The fields that a mapping does not name keep their defaults.
        """
        read = changed_options(self.config, options)
        if isinstance(read, Failure):
            return evolve(self, problems=(*self.problems, read.failure()))
        return evolve(self, config=read.unwrap())

    def with_memory(
        self,
        path: str | Path,
        *,
        tier: MemoryTier = "1",
        embedding_model: str | None = None,
        embedder: Embedder | None = None,
    ) -> Personas:
        """The SQLite file that holds what the persona knows.

        Args:
            tier: ``1`` compares what it learned by the words; ``2`` by what it means, and needs one of the
                next two.
            embedding_model: what turns texts into vectors, such as ``openai/text-embedding-3-small``.
            embedder: an object of one's own that does so, in the place of a model by name.
        """
        problem = wrong_path("memory", path) or embedder_problem(embedder)
        if problem is not None:
            return evolve(self, problems=(*self.problems, problem))
        described = self.with_options(memory=os.fspath(path), tier=tier, embedding_model=embedding_model)
        return evolve(described, embedder=embedder)

    def with_store(self, store: PersonaStore) -> Personas:
        """A store of one's own instead of the file."""
        return evolve(self, store=store)

    def with_llm(self, llm: LLM) -> Personas:
        """A model object of one's own for all domains, such as a ``ScriptedLLM``."""
        return evolve(self, llm=llm)

    def with_domain(
        self,
        name: str,
        agent: ReactiveAgents | None = None,
        *,
        describe: Describe | None = None,
        deliver: Deliver | None = None,
        templates: Sequence[PlanTemplate] = (),
    ) -> Personas:
        """Add a domain, or replace the one of that name.

        Args:
            agent: executes the steps there; by default one that reasons, without tools.
            describe: makes the task's description of an event.
            deliver: puts answers out; without it they are in the outcome alone.
            templates: plans for known kinds of events; the first that fits is taken.
        """
        described = agent or ReactiveAgents.create().with_reasoning()
        others = tuple(each for each in self.config.domains if each.name != name)
        config = evolve(
            self.config, domains=(*others, DomainConfig(name, described.config, tuple(templates)))
        )
        parts = {**self.parts, name: DomainParts(described.parts, describe, deliver)}
        return evolve(self, config=config, parts=parts, problems=(*self.problems, *described.problems))

    def build(self) -> PersonaAgent:
        """The persona.

        Raises:
            AgentError: something is wrong with its description; ``.error`` says what.
        """
        built = self.build_result()
        if isinstance(built, Failure):
            raise AgentError(built.failure())
        return built.unwrap()

    def build_effect(self) -> Effect[PersonaAgent, ConfigErrors]:
        """The persona as a value. Fails with the first thing that is wrong."""
        return FutureResult.from_result(self.build_result())

    def build_result(self) -> Result[PersonaAgent, ConfigErrors]:
        """The same as a plain result."""
        if self.problems:
            return Failure(self.problems[0])
        return assemble_persona(
            self.config, self.parts, llm=self.llm, store=self.store, embedder=self.embedder
        )
