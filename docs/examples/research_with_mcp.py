"""An application: a lead agent asks a researcher, who has the tools of an MCP server.

The server is a process of its own, started by the agent and ended with it.

Prints:

    completed: The library opens at nine.
    the researcher asked the server; both agents made 4 model calls
"""

from __future__ import annotations

import sys

import anyio

from reactive_agents import McpServer, ReactiveAgents, agent_tool
from reactive_agents.testing import ScriptedLLM, answer, call

SERVER = '''
from mcp.server import MCPServer

server = MCPServer("library")


@server.tool()
def opening_hours(day: str) -> str:
    """Return when the library opens on a day."""
    return "9:00 to 18:00"


server.run()
'''


async def main() -> None:
    finds = ScriptedLLM(call("library__opening_hours", day="Monday"), answer("It opens at 9:00."))
    library = McpServer("library", command=sys.executable, args=("-c", SERVER))
    researcher = ReactiveAgents.create().with_name("researcher").with_llm(finds).with_reasoning()
    leads = ScriptedLLM(
        call("researcher", task="When does the library open on Monday?"),
        answer("The library opens at nine."),
    )
    async with researcher.with_mcp(library).build() as helper:
        asks = agent_tool(helper, name="researcher", description="Looks things up.")
        async with ReactiveAgents.create().with_llm(leads).with_reasoning().with_tools(asks).build() as lead:
            result = await lead.run("When does the library open on Monday?")
    print(f"{result.status}: {result.output}")
    (sub_run,) = result.sub_runs
    calls = result.metadata.model_calls
    print(f"the {sub_run.agent} asked the server; both agents made {calls} model calls")


if __name__ == "__main__":
    anyio.run(main)
