"""Printing of tool calls in each form that models write, for round trips."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from keyword import iskeyword
from typing import Literal, TypeAlias

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.json_calls import CallForm
from reactive_agents.kernel.call_parsing.json_extraction import json_text
from reactive_agents.kernel.call_parsing.tagged_calls import needs_quotes

CallKeys: TypeAlias = Literal[
    "name/arguments",
    "name/arguments as text",
    "name/input",
    "tool/parameters",
    "tool_name/args",
    "action/action_input",
    "function",
    "list",
    "tool_calls",
]
"""The keys of a call in JSON. ``function``: as OpenAI nests them. ``list``, ``tool_calls``: in a list."""

_KEY = re.compile(r"[^\s<>\"'](?:[^<>\"'\n]*[^\s<>\"'])?")
_KEYWORD = re.compile(r"(?!(?:True|False|None)\b)[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_KEY = 200


def format_call(
    name: str, arguments: JsonObject, form: CallForm, *, keys: CallKeys = "name/arguments"
) -> str:
    """Print a call as a model would write it; :func:`parse_calls` parses it back.

    A form that cannot express the arguments falls back to its nearest one that can: ``keywords`` and
    ``name-line`` to ``plain``, ``function-xml`` and ``invoke`` to ``function-json``, ``glm`` to ``hermes``.

    Args:
        name: as registered.
        arguments: JSON without infinities, at most 90 levels deep.
        form: how it is written.
        keys: for the forms that hold the whole call as JSON (``json``, ``fenced``, ``hermes``,
            ``python-tag``, ``mistral``): under which keys.

    >>> format_call("clock", {"zone": "UTC"}, "hermes")
    '<tool_call>\\n{"name": "clock", "arguments": {"zone": "UTC"}}\\n</tool_call>'
    """
    if form in _WHOLE:
        whole = _keyed(name, arguments, keys)
        if form == "mistral" and keys not in ("list", "tool_calls"):
            whole = [whole]
        return _WHOLE[form].replace("…", _json(whole))
    return _SPLIT[form](name, arguments)


_WHOLE: Mapping[CallForm, str] = {
    "json": "…",
    "fenced": "```json\n…\n```",
    "hermes": "<tool_call>\n…\n</tool_call>",
    "python-tag": "<|python_tag|>…",
    "mistral": "[TOOL_CALLS] …",
}


def _keyed(name: str, arguments: JsonObject, keys: CallKeys) -> Json:
    plain: JsonObject = {"name": name, "arguments": arguments}
    match keys:
        case "name/arguments":
            return plain
        case "name/arguments as text":
            return {"name": name, "arguments": json.dumps(arguments)}
        case "function":
            return {"id": "call_1", "type": "function", "function": plain}
        case "list":
            return [plain]
        case "tool_calls":
            return {"tool_calls": [plain]}
        case _:
            name_key, _, arguments_key = keys.partition("/")
            return {name_key: name, arguments_key: arguments}


def _written_value(value: Json) -> str:
    """Return the text between tags that is read as the value."""
    if isinstance(value, str) and not needs_quotes(value):
        return value
    return json_text(value)


def _json(value: Json) -> str:
    """Return JSON without text that looks like a tag or a code fence."""
    text = json_text(value).replace("`", "\\u0060").replace("[TOOL_CALLS]", "[\\u0054OOL_CALLS]")
    return text.replace("functools[", "\\u0066unctools[").replace("to=functions", "to\\u003dfunctions")


def _plain(name: str, arguments: JsonObject) -> str:
    return f"{name}({_json(arguments)})"


def _name_line(name: str, arguments: JsonObject) -> str:
    return f"{name}\n{_json(arguments)}" if arguments else _plain(name, arguments)


def _keywords(name: str, arguments: JsonObject) -> str:
    if not all(_is_keyword(key) for key in arguments):
        return _plain(name, arguments)
    return f"{name}({', '.join(f'{key}={_json(value)}' for key, value in arguments.items())})"


def _python_tag_call(name: str, arguments: JsonObject) -> str:
    if not all(_is_keyword(key) for key in arguments):
        return f"<|python_tag|>{name}.call({_json(arguments)})"
    pairs = ", ".join(f"{key}={_json(value)}" for key, value in arguments.items())
    return f"<|python_tag|>{name}.call({pairs})"


def _function_json(name: str, arguments: JsonObject) -> str:
    return f"<function={name}>{_json(arguments)}</function>"


def _function_xml(name: str, arguments: JsonObject) -> str:
    if not all(_is_plain_key(key) for key in arguments):
        return _function_json(name, arguments)
    lines = [
        f"<parameter={key}>\n{_written_value(value)}\n</parameter>\n" for key, value in arguments.items()
    ]
    return f"<tool_call>\n<function={name}>\n{''.join(lines)}</function>\n</tool_call>"


def _invoke(name: str, arguments: JsonObject) -> str:
    if not all(_is_plain_key(key) for key in arguments):
        return _function_json(name, arguments)
    lines = [
        f'<parameter name="{key}">{_written_value(value)}</parameter>\n' for key, value in arguments.items()
    ]
    return f'<invoke name="{name}">\n{"".join(lines)}</invoke>'


def _glm(name: str, arguments: JsonObject) -> str:
    if not all(_is_plain_key(key) for key in arguments):
        return format_call(name, arguments, "hermes")
    pairs = [
        f"<arg_key>{key}</arg_key>\n<arg_value>{_written_value(value)}</arg_value>\n"
        for key, value in arguments.items()
    ]
    return f"<tool_call>{name}\n{''.join(pairs)}</tool_call>"


def _deepseek(name: str, arguments: JsonObject) -> str:
    call = f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{_json(arguments)}<｜tool▁call▁end｜>"
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"


def _kimi(name: str, arguments: JsonObject) -> str:
    call = f"functions.{name}:0<|tool_call_argument_begin|>{_json(arguments)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|><|tool_call_begin|>{call}<|tool_calls_section_end|>"


def _harmony(name: str, arguments: JsonObject) -> str:
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(arguments)}<|call|>"


_SPLIT: Mapping[CallForm, Callable[[str, JsonObject], str]] = {
    "plain": _plain,
    "name-line": _name_line,
    "keywords": _keywords,
    "function-json": _function_json,
    "function-xml": _function_xml,
    "invoke": _invoke,
    "python-tag-call": _python_tag_call,
    "mistral-name": lambda name, arguments: f"[TOOL_CALLS]{name}{_json(arguments)}",
    "mistral-args": lambda name, arguments: f"[TOOL_CALLS]{name}[ARGS]{_json(arguments)}",
    "deepseek": _deepseek,
    "kimi": _kimi,
    "glm": _glm,
    "harmony": _harmony,
    "react": lambda name, arguments: f"Action: {name}\nAction Input: {_json(arguments)}",
}


def _is_keyword(key: str) -> bool:
    return bool(_KEYWORD.fullmatch(key)) and not iskeyword(key)


def _is_plain_key(key: str) -> bool:
    return len(key) <= _LONGEST_KEY and bool(_KEY.fullmatch(key))
