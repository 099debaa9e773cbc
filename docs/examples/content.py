"""An image in a task, a document from a tool, and both in the next turn of a session.

Prints:

    asked: What is on it?
    [image cat.png, 70 bytes, sha256:6b7fa434f92a…]
    second turn sends: Image cat.png, Document manual.pdf
    refused: kind: got text/html, expected image: image/png, image/jpeg, image/gif, image/webp
"""

from __future__ import annotations

import base64

from reactive_agents import AgentError, Document, Image, ReactiveAgents, tool
from reactive_agents.core.errors import ContentRefused, root_cause
from reactive_agents.testing import ScriptedLLM, call, say

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool
def manual(page: int) -> list[str | Document]:
    """Return a page of the manual."""
    return [f"Page {page}:", Document.from_bytes(b"%PDF-1.7 ...", name="manual.pdf")]


def main() -> None:
    model = ScriptedLLM(call("manual", page=2), say("A cat, of page 2."), say("It sleeps."))
    agent = ReactiveAgents.create().with_llm(model).with_tools(manual).build()

    picture = Image.from_bytes(PICTURE, name="cat.png")
    first = agent.run_sync(["What is on it?", picture], session="cats")
    print("asked:", first.new_messages[0].content)

    agent.run_sync("What does it do?", session="cats")
    sent = [part for message in model.requests[-1].messages for part in getattr(message, "parts", ())]
    print("second turn sends:", ", ".join(f"{type(part).__name__} {part.name}" for part in sent))

    try:
        agent.run_sync([Image.from_bytes(b"<!doctype html> no picture", name="cat.png")])
    except AgentError as error:
        refused = root_cause(error.error)
        if isinstance(refused, ContentRefused):
            print(f"refused: {refused.field}: got {refused.value}, expected {refused.expected}")


if __name__ == "__main__":
    main()
