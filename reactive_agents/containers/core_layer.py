"""Time, identifiers and events: what every other layer stands on."""

from __future__ import annotations

from dependency_injector import containers, providers

from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.ports import Clock, EventBus, IdSource


class CoreLayer(containers.DeclarativeContainer):
    """Provides ``clock``, ``ids``, ``events`` and ``lifetimes``."""

    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    ids: providers.Provider[IdSource] = providers.Singleton(UlidSource)
    events: providers.Provider[EventBus] = providers.Singleton(LocalEventBus)
    lifetimes: providers.Provider[Lifetimes] = providers.Singleton(Lifetimes)
