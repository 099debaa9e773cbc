"""What a parser makes of a model's text."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.json import JsonObject

CallForm: TypeAlias = Literal[
    "json",
    "fenced",
    "plain",
    "keywords",
    "hermes",
    "function-json",
    "function-xml",
    "invoke",
    "python-tag",
    "python-tag-call",
    "mistral",
    "mistral-name",
    "mistral-args",
    "deepseek",
    "kimi",
    "glm",
    "harmony",
    "react",
]
"""The ways in which a call is written as text.

``json``: bare JSON. ``fenced``: in a code block. ``plain``: ``name({…})``. ``keywords``: ``name(key=…)``.
``hermes``: ``<tool_call>`` of Hermes, Qwen, Granite and others. ``function-json``: ``<function=name>{…}`` of
Llama 3.1 and Functionary. ``function-xml``: the same with ``<parameter=…>``, of Qwen-Coder. ``invoke``:
``<invoke name=…>`` of Claude and MiniMax. ``python-tag``, ``python-tag-call``: ``<|python_tag|>`` of Llama
with JSON or ``name.call(…)``. ``mistral…``: the three things that follow ``[TOOL_CALLS]``. ``deepseek``,
``kimi``, ``glm``, ``harmony``: the special tokens of those (harmony is gpt-oss). ``react``: ``Action:`` and
``Action Input:``.
"""


@frozen
class ParsedCall:
    """A call found in text.

    Attributes:
        name: as it is registered, however the model wrote it.
        source: the form it was written in.
        repaired: whether its JSON was broken.
    """

    name: str
    arguments: JsonObject
    source: CallForm
    repaired: bool = False


@frozen
class ParsedCalls:
    """What a text holds.

    Attributes:
        calls: in the order of the text.
        prose: the text without the calls and without the thinking.
        thinking: what stood in ``<think>`` blocks; a call in there does not count.
    """

    calls: tuple[ParsedCall, ...] = field(default=())
    prose: str = ""
    thinking: str = ""
