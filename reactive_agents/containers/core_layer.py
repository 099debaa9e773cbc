"""Time, identifiers, redaction and events: what every other layer stands on."""

from __future__ import annotations

from dependency_injector import containers, providers

from reactive_agents.adapters.governance.redaction import Redactor as EnvironmentRedactor
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.adapters.telemetry.log_redaction import redact_log
from reactive_agents.containers.lifetimes import Lifetimes
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import Clock, EventBus, IdSource


def build_events(redactor: Redactor) -> EventBus:
    """A bus whose events hold no secrets; from then on the package's log holds none either."""
    redact_log(redactor)
    return LocalEventBus(redactor)


class CoreLayer(containers.DeclarativeContainer):
    """Provides ``clock``, ``ids``, ``redactor``, ``events`` and ``lifetimes``.

    ``patterns`` and ``secrets`` are what the redactor looks for besides what it knows by itself.
    """

    clock: providers.Provider[Clock] = providers.Singleton(SystemClock)
    ids: providers.Provider[IdSource] = providers.Singleton(UlidSource)
    patterns: providers.Provider[tuple[str, ...]] = providers.Object(())
    secrets: providers.Provider[tuple[str, ...]] = providers.Object(())
    redactor: providers.Provider[Redactor] = providers.Singleton(
        EnvironmentRedactor, patterns=patterns, secrets=secrets
    )
    events: providers.Provider[EventBus] = providers.Singleton(build_events, redactor)
    lifetimes: providers.Provider[Lifetimes] = providers.Singleton(Lifetimes)
