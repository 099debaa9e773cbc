"""Tasks are texts, parts, or lists of both, to a type checker."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from typing import assert_type

from reactive_agents import Audio, Document, Image, ReactiveAgents, tool

agent = ReactiveAgents.create().with_model("offline").build()
image = Image.from_path("cat.png")
assert_type(image, Image)
assert_type(Image.from_url("https://a.example/cat.png", fetch=False), Image)

agent.run_sync(["What is on it?", image])
agent.run_sync([image, Audio.from_bytes(b""), Document.from_url("https://a.example/a.pdf")])
agent.run_sync(image)
agent.run_sync(("Compare:", image, image))
agent.run_sync(7)  # type: ignore[call-overload]
agent.run_sync(["a", 7])  # type: ignore[list-item]
Audio.from_url("https://a.example/a.wav", fetch=False)  # type: ignore[call-arg]


@tool
def draw() -> list[str | Image]:
    """Draw."""
    return ["Here:", image]


ReactiveAgents.create().with_tools(draw)
