"""The containers of dependency-injector that an agent's services are wired with.

The only package that sees both a port and its adapter. Each layer is one small container, composed into
``RuntimeContainer``; :mod:`reactive_agents.containers.composition` says how, and what must stay true.
"""

from __future__ import annotations

from reactive_agents.containers.composition import LateOverrideError
from reactive_agents.containers.layers import ToolSettings
from reactive_agents.containers.runtime import RuntimeContainer, create_runtime

__all__ = ["LateOverrideError", "RuntimeContainer", "ToolSettings", "create_runtime"]
