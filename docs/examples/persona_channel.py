"""A persona behind a signed webhook, as ``reactive-agents persona serve`` runs it; this one asks itself.

Prints:

    A stranger: 401
    The shop: 202, then 200 for the same event
    Posted to the shop: The Kestrel stove burns 132 grams of gas an hour.
"""

import json
import os
import time
from queue import Queue
from tempfile import TemporaryDirectory
from threading import Thread

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from reactive_agents import Personas
from reactive_agents.adapters.channels import signature_of
from reactive_agents.core.channels import ChannelConfig
from reactive_agents.server import create_persona_app
from reactive_agents.server.process import DrainingServer, bound_socket
from reactive_agents.testing import ScriptedLLM, forever, say

SECRET, POSTED = os.environ.setdefault("SHOP_SECRET", "a secret of both sides"), Queue[str]()


async def take(request: Request) -> Response:
    POSTED.put((await request.json())["text"])  # the header idempotency-key tells one that is sent again
    return Response()


def main() -> None:
    model = ScriptedLLM(forever(say("The Kestrel stove burns 132 grams of gas an hour.")))
    with TemporaryDirectory() as folder, bound_socket("127.0.0.1", 0) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        channel = ChannelConfig("webhook", f"{address}/answers", "SHOP_SECRET")
        described = Personas.create("Mira").with_llm(model).with_memory(f"{folder}/mira.db")
        mira = create_persona_app(described.with_domain("chat", channel=channel).build())
        routes = [Route("/answers", take, methods=["POST"]), Mount("/", mira)]
        server = DrainingServer(Starlette(routes=routes, lifespan=mira.router.lifespan_context))
        (thread := Thread(target=anyio.run, args=(server.serve, [listening]))).start()
        url, now = f"{address}/channels/chat", str(int(time.time()))
        body = json.dumps({"id": "1", "content": "How much gas does the Kestrel need?"}).encode()
        headers = {"x-request-timestamp": now, "x-signature": signature_of(SECRET.encode(), now, body)}
        print(f"A stranger: {httpx.post(url, content=body).status_code}")
        first, second = (httpx.post(url, content=body, headers=headers).status_code for _ in "12")
        print(f"The shop: {first}, then {second} for the same event\nPosted to the shop: {POSTED.get()}")
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
