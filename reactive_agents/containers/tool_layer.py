"""The tools."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen
from dependency_injector import containers, providers
from returns.maybe import Maybe, Nothing, Some

from reactive_agents.adapters.tools.combined import CombinedTools
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.ports import Clock, ToolService


@frozen
class ToolSettings:
    """Which tools there are, where they work, and how long a call may take in seconds.

    Attributes:
        servers: MCP servers, whose tools come after the others.
    """

    tools: tuple[Tool, ...] = ()
    servers: tuple[McpServer, ...] = ()
    workspace: Path = field(factory=Path.cwd)
    timeout_s: float = 60.0


def build_tools(settings: ToolSettings, clock: Clock, lifetimes: Lifetimes) -> Maybe[ToolService]:
    """The service that runs the tools, or ``Nothing`` when there are none."""
    services: list[ToolService] = []
    if settings.tools:
        services.append(
            LocalToolService(
                settings.tools,
                workspace=settings.workspace,
                clock=clock,
                default_timeout_s=settings.timeout_s,
            )
        )
    if settings.servers:
        taken = [tool.name for tool in settings.tools]
        far = McpTools(settings.servers, clock=clock, taken=taken)
        lifetimes.add(far.aclose, far.open)
        services.append(far)
    match services:
        case []:
            return Nothing
        case [one]:
            return Some(one)
        case _:
            return Some(CombinedTools(services))


class ToolLayer(containers.DeclarativeContainer):
    """Provides ``tools``: ``Nothing`` for an agent without."""

    config: providers.Dependency[ToolSettings] = providers.Dependency(instance_of=ToolSettings)
    core: providers.DependenciesContainer = providers.DependenciesContainer()
    tools: providers.Provider[Maybe[ToolService]] = providers.Singleton(
        build_tools, settings=config, clock=core.clock, lifetimes=core.lifetimes
    )
