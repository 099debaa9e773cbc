"""Agents over HTTP with API keys; a real server is run by ``reactive-agents serve``, this one asks itself.

Prints:

    Ada's run: completed, Hello Ada.
    Its last events: TaskCompleted, run
    Bob asks for it: 404, There is no such run.
    With OpenAI's protocol: Hello Ada.
"""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpx

from reactive_agents import ReactiveAgents
from reactive_agents.server import ApiKeys, create_app
from reactive_agents.server.process import DrainingServer, bound_socket
from reactive_agents.testing import ScriptedLLM, forever, say


def main() -> None:
    model = ScriptedLLM(forever(say("Hello Ada.")))
    agent = ReactiveAgents.create().with_name("clerk").with_llm(model).build()
    with TemporaryDirectory() as folder, bound_socket("127.0.0.1", 0) as listening:
        keys = ApiKeys(Path(folder) / "keys.json")
        ada, bob = (keys.create(name, user=name)[0] for name in ("ada", "bob"))
        app = create_app(agent, keys=keys)
        server = DrainingServer(app, service=app.state.service)
        thread = threading.Thread(target=anyio.run, args=(server.serve, [listening]))
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=address, headers={"authorization": f"Bearer {ada}"}) as client:
            ask(client, bob)
        server.should_exit = True
        thread.join()


def ask(client: httpx.Client, other_key: str) -> None:
    begun = client.post("/v1/runs", json={"task": "I am Ada.", "session": "talk"}).json()
    run = client.get(f"/v1/runs/{begun['run_id']}", params={"wait_s": 30}).json()
    print(f"Ada's run: {run['status']}, {run['output']}")
    events = client.get(f"/v1/runs/{run['run_id']}/events").text.splitlines()
    kinds = [line.removeprefix("event: ") for line in events if line.startswith("event: ")]
    print(f"Its last events: {', '.join(kinds[-2:])}")
    refused = client.get(f"/v1/runs/{run['run_id']}", headers={"authorization": f"Bearer {other_key}"})
    print(f"Bob asks for it: {refused.status_code}, {refused.json()['detail']}")
    question = {"model": "clerk", "messages": [{"role": "user", "content": "Who am I?"}]}
    answer = client.post("/v1/chat/completions", json=question).json()
    print(f"With OpenAI's protocol: {answer['choices'][0]['message']['content']}")


if __name__ == "__main__":
    main()
