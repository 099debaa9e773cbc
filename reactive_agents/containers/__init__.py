"""One dependency-injector container for each layer, composed in ``RuntimeContainer``."""

from __future__ import annotations

from reactive_agents.containers.layers import ToolSettings
from reactive_agents.containers.runtime import RuntimeContainer, compose_runtime, create_runtime

__all__ = ["RuntimeContainer", "ToolSettings", "compose_runtime", "create_runtime"]
