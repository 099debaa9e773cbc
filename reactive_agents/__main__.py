"""``python -m reactive_agents``: the same as the ``reactive-agents`` command."""

from __future__ import annotations

from reactive_agents.cli.main import main

main()
