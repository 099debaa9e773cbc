"""Contents of tagged calls: parameters as XML, keys and values, texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.bare_calls import read_code_call, read_code_list
from reactive_agents.kernel.call_parsing.json_calls import CallForm, CallReader, ParsedCall
from reactive_agents.kernel.call_parsing.json_extraction import decode, json_text

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
"""The marks that a literal text between tags must not contain."""


def read_parameters(text: str, start: int) -> tuple[JsonObject, int]:
    """Return the arguments in successive ``<parameter=key>`` tags, and their end."""
    return _read_pairs(text, start, _PARAMETER, _PARAMETER_END)


def read_arguments(text: str, start: int) -> tuple[JsonObject, int]:
    """The same for ``<arg_key>key</arg_key><arg_value>value</arg_value>``."""
    return _read_pairs(text, start, _ARGUMENT, _ARGUMENT_END)


def _read_pairs(
    text: str, start: int, head: re.Pattern[str], tail: re.Pattern[str]
) -> tuple[JsonObject, int]:
    """Read pairs of key and value, ignoring a truncated value and the rest."""
    found: JsonObject = {}
    while (opening := head.match(text, start)) is not None:
        closing = tail.search(text, opening.end())
        if closing is None or closing["lost"]:
            break
        found[opening["key"].strip()] = read_value(_unpadded(text[opening.end() : closing.start()]))
        start = closing.end()
    return found, start


def read_value(text: str) -> Json:
    """Return the value of a text between tags.

    It is the text itself, unless the text is JSON in exactly the printed form, so that the conversion loses
    nothing: ``3`` is a number, while ``3.10`` and ``007`` are texts. A quoted text is unquoted only if the
    quotes were needed.
    """
    found = decode(text) if text[:1] in _JSON_STARTS else None
    if found is None or found.repaired or found.end != len(text):
        return text
    if isinstance(found.value, str):
        return found.value if text == json_text(found.value) and needs_quotes(found.value) else text
    return found.value if text == json_text(found.value) else text


def needs_quotes(text: str) -> bool:
    """Return whether a text between tags would be read as another type."""
    return text != text.strip() or bool(MARKUP.search(text)) or read_value(text) != text


def _unpadded(text: str) -> str:
    """Return a text without the line break that templates add at each end."""
    if text.startswith("\n"):
        text = text[1:]
    return text.removesuffix("\n")


# --- Calls between the tags and special tokens of open-weight models ---


Found = tuple[tuple[ParsedCall, ...], int]
"""Calls, and the position behind them; no calls when there are none."""

_NAME = r"[\w.:-]{1,128}"
_SEPARATOR = r"<[｜|]tool[▁_]sep[｜|]>"

_WRAPPER = r"\|?(?:\w{1,16}:|｜DSML｜)?(?i:tool_?calls?|function_?calls?|tool_use|tools)\|?>"
"""The rest of the tags around calls, after their first character."""

TAGS: Mapping[str, str] = {
    "hermes": rf"<{_WRAPPER}|<\|(?:tool_call_start|START_ACTION)\|>|\bfunctools(?=\[)",
    "function": rf"<function\s{{0,2}}=\s{{0,2}}\"?(?P<function_name>{_NAME})\"?\s{{0,2}}>",
    "invoke": rf"<(?:\w{{1,16}}:|｜DSML｜)?invoke\s+name=[\"'](?P<invoke_name>{_NAME})[\"']\s*>",
    "python": r"<\|python_tag\|>",
    "mistral": r"\[TOOL_CALLS\]",
    "begin": r"<[｜|]tool[▁_]call[▁_]begin[｜|]>",
    "harmony": (
        r"(?:<\|(?:start|channel)\|>(?:assistant|commentary|analysis)?\s?){0,3}"
        rf"\bto=(?P<harmony_name>functions\.{_NAME})[^{{\n]{{0,80}}(?:<\|message\|>|(?=\{{))"
    ),
}
"""The pattern of the opening tag for each reader in :data:`READERS`."""

TOKENS = re.compile(
    r"<[｜|]tool[▁_]calls?[▁_](?:section[▁_])?(?:begin|end)[｜|]>"
    r"|<｜end▁of▁sentence｜>|<\|(?:eom_id|eot_id|im_end|call|end|tool_call_end|/tool_calls?)\|>"
    rf"|</?{_WRAPPER}|<\|END_ACTION\|>|</function>|</(?:\w{{1,16}}:|｜DSML｜)?invoke>"
)
"""Marks of templates around calls, which are no prose."""

_SPACE = re.compile(r"\s*(?:```(?:json)?\s*)?")
_EDGE = re.compile(rf"</?{_WRAPPER}|<\|/{_WRAPPER}|<\|tool_call|<\|END_ACTION")
_SURPLUS = re.compile(r"[\s`}\])]*(?=</|<[|｜]|\Z)")
_FUNCTION_EDGE = re.compile(r"</?function\b|</?tool_call>")
_FUNCTION_END = re.compile(r"\s*(?:</function>|(?=</tool_call>))")
_NOTHING = re.compile(r"\s*\Z")
_INVOKE_END = re.compile(r"\s*</(?:\w{1,16}:|｜DSML｜)?invoke>")
_FUNCTION = re.compile(rf"\s*{TAGS['function']}")
_GLM_NAME = re.compile(rf"(?P<name>{_NAME})[ \t]*(?=\s*<arg_key>|\s*</tool_call>)")
_MISTRAL_NAME = re.compile(
    rf"[\s,;]*(?P<name>{_NAME})(?:\[CALL_ID\][\w-]{{0,64}})?(?P<args>\[ARGS\])?\s*(?=\{{)"
)
_BEGIN_NAME = re.compile(
    rf"\s*(?:function{_SEPARATOR})?(?P<name>{_NAME})\s*(?:{_SEPARATOR})?(?P<kimi><\|tool_call_argument_begin\|>)?"
    r"\s*(?:```(?:json)?\s*)?(?=\{)"
)
_CALL_EDGE = re.compile(r"<[｜|]tool[▁_]call|\[TOOL_CALLS\]|<\|(?:call|end|start|channel)\|>")


def _hermes(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    start = _behind(_SPACE, text, tag.end())
    sign = text[start : start + 1]
    if sign == "{" or sign == "[":
        calls, end = reader.read_calls(text, start, "hermes", _EDGE)
        if not calls and sign == "[":
            calls, end = read_code_list(reader, text, start)
        return calls, _behind(_SURPLUS, text, end)
    if sign == "<":
        return _functions(reader, text, start)
    if named := _GLM_NAME.match(text, start):
        name = reader.names.resolve(named["name"])
        arguments, end = read_arguments(text, named.end())
        if name is None or not _behind_is(_EDGE, text, end):
            return (), start
        return (ParsedCall(name, arguments, "glm"),), end
    found = read_code_call(reader, text, start, source="hermes")
    return ((), start) if found is None else ((found[0],), found[1])


def _functions(reader: CallReader, text: str, start: int) -> Found:
    calls: tuple[ParsedCall, ...] = ()
    while tag := _FUNCTION.match(text, start):
        more, end = _function(reader, text, tag)
        if not more:
            break
        calls, start = calls + more, end
    return calls, start


def _function(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    name = reader.names.resolve(tag["function_name"])
    start = _behind(_SPACE, text, tag.end())
    if name is None:
        return (), start
    if text[start : start + 1] == "{":
        read = reader.json.read(text, start, _FUNCTION_EDGE)
        calls = reader.named(name, read, "function-json")
        return calls, start if read is None else _behind(_FUNCTION_END, text, read.end)
    arguments, end = read_parameters(text, tag.end())
    closing = _FUNCTION_END.match(text, end)
    if closing is None and (not arguments or not _NOTHING.match(text, end)):
        return (), start
    return (ParsedCall(name, arguments, "function-xml"),), closing.end() if closing else end


def _invoke(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    name = reader.names.resolve(tag["invoke_name"])
    arguments, end = read_parameters(text, tag.end())
    closing = _INVOKE_END.match(text, end)
    if name is None or closing is None:
        return (), tag.end()
    return (ParsedCall(name, arguments, "invoke"),), closing.end()


def _python(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    start = _behind(_SPACE, text, tag.end())
    if text[start : start + 1] in ("{", "["):
        calls, end = reader.read_calls(text, start, "python-tag")
        return (calls, end) if calls else read_code_list(reader, text, start)
    for suffix in (".call", ""):
        if found := read_code_call(reader, text, start, suffix=suffix, source="python-tag-call"):
            return (found[0],), found[1]
    return (), start


def _mistral(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    start = _behind(_SPACE, text, tag.end())
    if text[start : start + 1] in ("{", "["):
        calls, end = reader.read_calls(text, start, "mistral", _CALL_EDGE)
        return calls, _behind(_SURPLUS, text, end)
    calls = ()
    while named := _MISTRAL_NAME.match(text, start):
        read = reader.json.read(text, named.end(), _CALL_EDGE)
        form: CallForm = "mistral-args" if named["args"] else "mistral-name"
        more = reader.named(named["name"], read, form)
        if read is None or not more:
            break
        calls, start = calls + more, read.end
    return calls, start


def _begin(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    named = _BEGIN_NAME.match(text, tag.end())
    if named is None:
        return (), tag.end()
    read = reader.json.read(text, named.end(), _CALL_EDGE)
    form: CallForm = "kimi" if named["kimi"] else "deepseek"
    calls = reader.named(named["name"], read, form)
    return calls, tag.end() if read is None else _behind(_SURPLUS, text, read.end)


def _harmony(reader: CallReader, text: str, tag: re.Match[str]) -> Found:
    start = _behind(_SPACE, text, tag.end())
    read = reader.json.read(text, start, _CALL_EDGE)
    return reader.named(tag["harmony_name"], read, "harmony"), start if read is None else read.end


READERS: Mapping[str, Callable[[CallReader, str, re.Match[str]], Found]] = {
    "hermes": _hermes,
    "function": _function,
    "invoke": _invoke,
    "python": _python,
    "mistral": _mistral,
    "begin": _begin,
    "harmony": _harmony,
}
"""The readers of calls after a tag."""


def _behind(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start


def _behind_is(pattern: re.Pattern[str], text: str, start: int) -> bool:
    return pattern.match(text, _behind(_SPACE, text, start)) is not None
