"""What stands between the tags: parameters as XML, arguments by key and value, texts for values."""

from __future__ import annotations

import re

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.calls.json_text import decode, json_text

_PARAMETER = re.compile(
    r"\s*<(?:\w+:|｜DSML｜)?parameter(?:\s*=\s*|\s+name\s*=\s*)[\"']?(?P<key>[^<>\"'\n]{1,256})[\"']?[^<>\n]{0,64}>"
)
_PARAMETER_END = re.compile(
    r"</(?:\w+:|｜DSML｜)?parameter>"
    r"|(?P<lost><function=|<(?:\w+:|｜DSML｜)?invoke\s)"
    r"|(?=<(?:\w+:|｜DSML｜)?parameter(?:=|\s+name=)|</function>|</(?:\w+:|｜DSML｜)?invoke>|</tool_call>)"
)
_ARGUMENT = re.compile(r"\s*<arg_key>(?P<key>[^<>\n]{1,256})</arg_key>\s*<arg_value>")
_ARGUMENT_END = re.compile(r"</arg_value>|(?P<lost><tool_call>)|(?=<arg_key>|</tool_call>)")

_JSON_STARTS = frozenset('"{[-0123456789tfn')

MARKUP = re.compile(
    r"</?(?:\w+:|｜DSML｜)?(?:parameter|function|invoke|tool_call|arg_key|arg_value|think)", re.I
)
"""What must not stand in a text that is written between tags as it is."""


def read_parameters(text: str, start: int) -> tuple[JsonObject, int]:
    """The arguments in the ``<parameter=key>value</parameter>`` that follow each other, and their end."""
    return _read_pairs(text, start, _PARAMETER, _PARAMETER_END)


def read_arguments(text: str, start: int) -> tuple[JsonObject, int]:
    """The same for ``<arg_key>key</arg_key><arg_value>value</arg_value>``."""
    return _read_pairs(text, start, _ARGUMENT, _ARGUMENT_END)


def _read_pairs(
    text: str, start: int, head: re.Pattern[str], tail: re.Pattern[str]
) -> tuple[JsonObject, int]:
    """A value that the end of the text or the next call cuts off is not read, nor anything behind it."""
    found: JsonObject = {}
    while (opening := head.match(text, start)) is not None:
        closing = tail.search(text, opening.end())
        if closing is None or closing["lost"]:
            break
        found[opening["key"].strip()] = read_value(_unpadded(text[opening.end() : closing.start()]))
        start = closing.end()
    return found, start


def read_value(text: str) -> Json:
    """The value that a text between tags stands for.

    It is the text itself, unless it is JSON written exactly as a printer would: then nothing is lost by
    taking it as JSON, since the text can be had back. So ``3`` is a number, while ``3.10`` and ``007`` are
    texts. A quoted text is unquoted only where the quotes were needed.
    """
    found = decode(text) if text[:1] in _JSON_STARTS else None
    if found is None or found.repaired or found.end != len(text):
        return text
    if isinstance(found.value, str):
        return found.value if text == json_text(found.value) and needs_quotes(found.value) else text
    return found.value if text == json_text(found.value) else text


def needs_quotes(text: str) -> bool:
    """Whether a text would be read as something else when it stands between tags as it is."""
    return text != text.strip() or bool(MARKUP.search(text)) or read_value(text) != text


def written_value(value: Json) -> str:
    """The text between tags that :func:`read_value` takes for the value."""
    if isinstance(value, str) and not needs_quotes(value):
        return value
    return json_text(value)


def _unpadded(text: str) -> str:
    """Without the one line break at each end that templates put there."""
    if text.startswith("\n"):
        text = text[1:]
    return text.removesuffix("\n")
