"""Declarative configuration: write an agent to a file and read it back.

Prints:

    name = "clerk"
    tools = [
        "calculator",
        "calendar:isleap",
    ]
    the same: True
    17 * 23 = 391
    Not a valid AgentConfig: $.model.modell: unknown field
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from reactive_agents import AgentError, ReactiveAgents


def main() -> None:
    builder = (
        ReactiveAgents.create()
        .with_name("clerk")
        .with_model("offline")
        .with_reasoning(strategies={"reactive": {"temperature": 0.2}})
        .with_tools("calculator", "calendar:isleap")
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "clerk.toml"
        builder.to_config().save(path)
        print(*path.read_text().splitlines()[:5], sep="\n")
        again = ReactiveAgents.from_config(path, allow_tools_from=["calendar"])
    print("the same:", again.to_config() == builder.to_config())
    print(again.build().run_sync("What is 17 * 23?").output)

    try:
        ReactiveAgents.from_config({"name": "clerk", "model": {"modell": "offline"}}).build()
    except AgentError as failure:
        print(str(failure).partition(";")[0])


if __name__ == "__main__":
    main()
