"""The containers of dependency-injector that an agent's services are wired with.

The only package that sees both a port and its adapter. Each layer is one small container, composed into
``RuntimeContainer``; :mod:`reactive_agents.containers.composition` says how, and what must stay true.
"""

from __future__ import annotations

from reactive_agents.lazy_imports import import_injector

import_injector()  # before the modules below import it

from reactive_agents.containers.composition import LateOverrideError  # noqa: E402
from reactive_agents.containers.layers import ToolSettings  # noqa: E402
from reactive_agents.containers.runtime import RuntimeContainer, create_runtime  # noqa: E402

__all__ = ["LateOverrideError", "RuntimeContainer", "ToolSettings", "create_runtime"]
