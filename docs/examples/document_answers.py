"""An application: questions about documents, in a conversation that is kept.

The agent searches an index of a folder for passages, and answers with what stands there. It uses the offline
model, which only quotes; name another one to get sentences. An embedding model would also find passages by
their meaning.

Prints:

    completed: - “Refunds are paid within 14 days.” (returns.md:2)
    2 runs in the conversation of u-17; tools used: document-search
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from reactive_agents import DocumentIndex, ReactiveAgents, ToolMessage

RETURNS = "# Returns\nRefunds are paid within 14 days.\nSend the goods back in their box.\n"


async def ask(folder: str) -> None:
    builder = ReactiveAgents.create().with_model("offline").with_reasoning()
    async with builder.with_tools(DocumentIndex(folder).tool()).build() as agent:
        result = await agent.run("When are refunds paid?", session="support-7", user="u-17")
        print(f"{result.status}: {(result.output or '').splitlines()[-1]}")
        await agent.run("And how do I send goods back?", session="support-7", user="u-17")
        (session,) = await agent.sessions.list(user="u-17")
        used = {message.tool_name for message in result.messages if isinstance(message, ToolMessage)}
        print(f"{session.turns} runs in the conversation of u-17; tools used: {', '.join(sorted(used))}")


def main() -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "returns.md").write_text(RETURNS, encoding="utf-8")
        anyio.run(ask, folder)


if __name__ == "__main__":
    main()
