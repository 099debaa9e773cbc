"""A web application with FastAPI; a real one is run by ``uvicorn web_app:app``, this one asks itself.

Prints:

    {'status': 'completed', 'answer': 'Hello Ada.'}
    data: "Hello "
    data: "Ada."
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient

from reactive_agents import (
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    ReactiveAgents,
    TaskFailed,
)
from reactive_agents.testing import ScriptedLLM, forever, say

agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hello Ada.")))).build()
app = FastAPI()


@app.post("/ask")
async def ask(question: str, user: str) -> dict[str, str | None]:
    result = await agent.run(question, session=f"web-{user}", user=user)
    return {"status": result.status, "answer": result.output}


@app.get("/stream")
async def stream(question: str) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        async for event in agent.stream(question):
            if isinstance(event, ModelTextStreamed):
                yield f"data: {json.dumps(event.text)}\n\n"
            elif isinstance(event, ModelTextRetracted | ModelStreamRestarted):
                yield "data: null\n\n"  # the page begins again
            elif isinstance(event, TaskFailed):
                yield f"event: failed\ndata: {json.dumps(event.error.message)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


def main() -> None:
    with TestClient(app) as client:
        print(client.post("/ask", params={"question": "Who am I?", "user": "ada"}).json())
        print(client.get("/stream", params={"question": "Who am I?"}).text.replace("\n\n", "\n").strip())


if __name__ == "__main__":
    main()
