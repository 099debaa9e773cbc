"""The parameters of requests, and those that providers reject.

Providers accept different parameters, and some reject one that another requires. litellm omits those that it
knows a model to reject. If a provider still rejects one, with a bad-request status and a text that names it,
it is omitted, and remembered for the model and its URL in this process. An out-of-range value is remembered
alone, since other values may be accepted. The first request with some parameters runs ahead of concurrent
ones, so that they do not all fail in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, TypeAlias

import anyio
from attrs import frozen

from reactive_agents.adapters.llm.chat_format import joined_texts
from reactive_agents.adapters.llm.providers import is_local
from reactive_agents.core.model_settings import NO_SETTINGS, UNSET
from reactive_agents.core.models import ModelRequest
from reactive_agents.event_loop import calls_on_this_loop

FIRST_ANSWER_S: Final = 2.0
"""Seconds that requests wait for the first one with their parameters; rejections come fast."""

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
    "seed": ("seed",),
    "stop": ("stop_sequences", "stopSequences", "stop"),
    "reasoning_effort": ("reasoning_effort", "reasoning.effort", "output_config", "reasoning"),
    "thinking": ("budget_tokens", "thinkingBudget", "thinking"),
    "parallel_tool_calls": ("parallel_tool_calls", "disable_parallel_tool_use"),
    "tool_choice": ("tool_choice", "toolChoice", "functionCallingConfig", "function_calling_config"),
    "response_format": ("response_format", "output_format"),
    "cache_control": ("cache_control",),
    "stream_options": ("stream_options",),
}
"""litellm's arguments, each with the providers' names for it."""
_WORDS: Final = frozenset({"stop", "thinking", "reasoning"})
"""Names that are also common words: they count only if marked as names."""
_OTHERS_WITH_CLAUDE: Final = ("bedrock", "vertex_ai", "openrouter", "azure_ai")
_MARK: Final = {"type": "ephemeral"}
_OPTIONS: Final = {name: name for name in ("temperature", "top_p", "seed", "stop")}
_OPTIONS["max_tokens"] = "num_predict"
"""The arguments that are options of Ollama, with its names."""
_SHOWN: Final = {"thinking": "thinking_budget"}
_OTHER_LIMIT: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_PARAM: Final = re.compile(
    r"""['"](?:param|loc)['"]\s*:\s*[\[(]?(?:['"]body['"],\s*)?['"]([\w.]+)[^'"]*['"]"""
)
_POLICY: Final = re.compile(r"content_policy_violation|content_filter|ResponsibleAIPolicyViolation")
_REFUSED: Final = (
    r"(?:un(?:supported|known|recogni[sz]ed|expected|available)|deprecated|invalid"
    r"|not\s+(?:\w+\s+)?(?:supported|allowed|permitted|available|accepted|recogni[sz]ed|valid|enabled|implemented)"
    r"|(?:does|do)(?:\s+not|n't)\s+(?:support|allow|accept|permit|take)|can(?:\s*not|'t))"
)
_LIMITED: Final = (
    r"(?:must\s+be|may\s+only|should\s+be"
    r"|(?:is|are)\s+too\s+\w+|(?:is\s+)?out\s+of|exceeds|range\b|[<>]=?\s*\d)"
)
_KIND: Final = r"(?:parameter|argument|field|option|setting|property|keyword|name|value|input)s?"
_BETWEEN: Final = rf"(?:[\s:\"'`]|\b(?:{_KIND}|the|request|supplied|for|of|on|in|with|this|model)\b)*"
_LINK: Final = (
    rf"[\"'`)]*(?:\s+{_KIND})?(?:\s+specified in the request)?"
    r"(?:\s*(?:,|and|or|&)\s*[\"'`]?[\w.]+[\"'`]?)*"
    r"\s+(?:(?:is|are|was|currently)\s+)*"
)
_AFTER: Final = rf"(?=[\"'`]|\s*(?:$|[.,;:)\]}}(])|\s+(?:{_KIND}|is|was|with|for|on|and|or|does)\b)"
_READ: Final = 4_000
"""The maximum of characters of a rejection to read."""
_RANGE: Final = re.compile(
    r"between|range|must be|at (?:most|least)|maximum|minimum|exceed|too (?:large|small|high|low)|[<>]=?\s*\d"
    r"|(?:less|greater) than",
    re.IGNORECASE,
)


@frozen
class Omission:
    """A parameter that is left out of requests.

    Attributes:
        argument: litellm's name of the parameter.
        only: the omitted value; ``None`` for every value.
        instead: the name of the parameter to send instead; empty for none.
    """

    argument: str
    only: object = None
    instead: str = ""

    @property
    def parameter(self) -> str:
        """Return the name of the parameter in the settings."""
        return _SHOWN.get(self.argument, self.argument)

    def leave_out(self, arguments: dict[str, Any]) -> None:
        """Take the parameter out of the arguments of a request."""
        if self.argument not in arguments or self.only not in (None, arguments[self.argument]):
            return
        value = arguments.pop(self.argument)
        if self.instead:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), self.instead: value}


def for_provider(
    arguments: dict[str, Any], request: ModelRequest, model: str, omitted: Sequence[Omission]
) -> dict[str, Any]:
    """Return the arguments of a request in the format of its provider.

    Args:
        arguments: the arguments in OpenAI's format; they are changed.
        model: as ``provider/model``.
        omitted: parameters that the provider rejected.
    """
    claude = _is_claude(model)
    if claude and request.stable and not any(each.argument == "cache_control" for each in omitted):
        _mark(arguments, len(joined_texts(request.messages[: request.stable])))
    if claude and ("thinking" in arguments or "reasoning_effort" in arguments):
        _leave_out_thinking_between_calls(arguments, model)
    for omission in omitted:
        omission.leave_out(arguments)
    if is_local(model) and (body := arguments.get("extra_body")):
        arguments["extra_body"] = _with_all_options(body, arguments)
    if (claude or model.startswith("bedrock/")) and not model.startswith("openrouter/"):
        # litellm would send these a field named extra_body
        arguments = {**arguments.pop("extra_body", {}), **arguments}
    return arguments


def _with_all_options(body: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return further fields for Ollama; its ``options`` would replace the settings."""
    given = body.get("options") or {}
    if not isinstance(given, Mapping):
        return dict(body)  # for the server to refuse
    own = {option: arguments[name] for name, option in _OPTIONS.items() if name in arguments}
    moved = {name: value for name, value in body.items() if name == "num_ctx"}
    options = {**own, **moved, **given}
    return {**{name: value for name, value in body.items() if name not in moved}, "options": options}


def _is_claude(model: str) -> bool:
    provider, _, name = model.partition("/")
    return provider == "anthropic" or (provider in _OTHERS_WITH_CLAUDE and "claude" in name)


def _mark(arguments: dict[str, Any], stable: int) -> None:
    """Mark the ends of tools, instructions and task for the provider's prompt cache."""
    if tools := arguments.get("tools"):
        arguments["tools"] = [*tools[:-1], {**tools[-1], "cache_control": _MARK}]
    messages = list(arguments["messages"])
    ends = {min(stable, len(messages)) - 1} | ({0} if messages[0]["role"] == "system" else set())
    for end in ends:
        content = messages[end].get("content")
        if isinstance(content, str) and content:
            part = {"type": "text", "text": content, "cache_control": _MARK}
            messages[end] = {**messages[end], "content": [part]}
        elif isinstance(content, list) and content:
            parts = [*content[:-1], {**content[-1], "cache_control": _MARK}]
            messages[end] = {**messages[end], "content": parts}
    arguments["messages"] = messages


def _leave_out_thinking_between_calls(arguments: dict[str, Any], model: str) -> None:
    """Disable thinking in a turn after tool calls, if it is impossible.

    Older models of this family think in such a turn only if they get their earlier, signed thoughts.
    """
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo

    said = [each for each in arguments["messages"] if each["role"] == "assistant"]
    provider, _, name = model.partition("/")
    after_calls = bool(said) and bool(said[-1].get("tool_calls"))
    if after_calls and not AnthropicModelInfo.is_adaptive_thinking_model(name, provider):
        arguments.pop("thinking", None)
        arguments.pop("reasoning_effort", None)


def omission_of(refusal: str, arguments: Mapping[str, Any]) -> Omission | None:
    """Return the parameter that a provider rejected, or ``None``.

    A field of the error document (``param``, ``loc``) takes precedence over its text.

    Args:
        arguments: the arguments of the request to litellm.
    """
    if _POLICY.search(refusal):  # the words may come from the prompt
        return None
    found: list[tuple[int, str, str]] = []
    field = _PARAM.search(refusal)
    named = field[1].partition(".")[0] if field else ""
    if named not in arguments and not any(named in names for names in _NAMES.values()):
        named = ""  # not a field of the request, such as "body"
    for argument, names in _NAMES.items():
        if argument not in arguments and not (argument == "cache_control" and _is_marked(arguments)):
            continue
        for name in names:
            if named == name:
                found.append((-1, argument, name))
            elif named and argument != "cache_control":  # a field of messages and tools
                continue
            elif (place := _place(name, refusal)) is not None:
                found.append((place, argument, name))
    if not found:
        return None
    _, argument, name = min(found)
    instead = _OTHER_LIMIT.get(name, "") if argument == "max_tokens" else ""
    if instead and not re.search(rf"\b{instead}\b", refusal):
        instead = ""
    only = arguments.get(argument) if not instead and _RANGE.search(refusal) else None
    return Omission(argument, only, instead)


def _is_marked(arguments: Mapping[str, Any]) -> bool:
    contents = (each.get("content") for each in arguments["messages"])
    return any("cache_control" in part for each in contents if isinstance(each, list) for part in each)


def _place(name: str, text: str) -> int | None:
    """Return where a text says that a parameter is not accepted."""
    word = re.escape(name)
    if name in _WORDS:
        kind = "(?:parameter|argument|field)"
        named = (rf"{kind}s?:?\s+{word}\b", rf"(?:^|[\s\"']){word}:", rf"\b{word}\s+{kind}", rf":\s*{word}\b")
        if not re.search("|".join((rf"[\"'`]{word}[\"'`.]", *named)), text):
            return None
    parameter = rf"(?<![\w.-])(?P<name>{word})(?![\w-])"
    text = text[:_READ]
    if name == "cache_control" or ("_" in name and re.search(f"{_REFUSED}|{_LIMITED}", text, re.IGNORECASE)):
        named_at = re.search(parameter, text)  # not a common word
        return None if named_at is None else named_at.start()
    complaints = (
        rf"{_REFUSED}{_BETWEEN}{parameter}{_AFTER}",
        rf"{parameter}{_LINK}(?:{_REFUSED}|{_LIMITED})",
        rf"{parameter}[\"'`]?\s*:[^.!?\n]{{0,120}}?(?:{_REFUSED}|{_LIMITED})",
    )
    found = [match.start("name") for each in complaints if (match := re.search(each, text, re.IGNORECASE))]
    return min(found, default=None)


_TEXTS: Final = frozenset({"messages", "contents", "input", "system", "tools"})


def left_out(request: ModelRequest, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the user's settings of which a body has neither a name nor the value.

    Args:
        body: what litellm sends, in the provider's format.
    """
    names, values = set[str](), list[object]()
    waiting = [{name: value for name, value in body.items() if name not in _TEXTS}]
    while waiting:
        for name, value in waiting.pop().items():
            names.add(name)
            if isinstance(value, dict):
                waiting.append(value)
            elif not isinstance(value, bool):
                values.append(value)
    missing: list[str] = []
    for name, value in request.settings.given.items():
        asked = getattr(request, name, value)  # a parameter may be taken out of the request before
        if asked is None or (name == "parallel_tool_calls" and not request.tools):
            continue
        thinks = name in ("reasoning_effort", "thinking_budget")  # providers have either of them
        known = {*_NAMES["reasoning_effort"], *_NAMES["thinking"], "think"} if thinks else {*_NAMES[name]}
        if (
            not names & {*known, _OPTIONS.get(name, name)}
            and (list(asked) if isinstance(asked, tuple) else asked) not in values
        ):
            missing.append(name)
    return tuple(missing)


Sent: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A model, its URL, and the names of the parameters of a request."""


def sent_with(request: ModelRequest, model: str, address: str | None) -> Sent | None:
    """Return the parameters of a request; ``None`` if it has none."""
    settings = request.settings
    if settings is NO_SETTINGS:
        given = (request.temperature, request.max_tokens, request.response_schema)
        if given == (None, None, None) and (request.parallel_tool_calls is None or not request.tools):
            return None
    fields = ("temperature", "max_tokens", "parallel_tool_calls", "tool_choice", "response_schema")
    others = ("top_p", "seed", "stop", "reasoning_effort", "thinking_budget")
    names = [name for name in fields if getattr(request, name) is not None]
    names += [name for name in others if getattr(settings, name) not in (UNSET, None)]
    return (model, address or "", tuple(names)) if names else None


class RefusedParameters:
    """The parameters that providers rejected, by model and URL.

    Any thread may use it.

    Args:
        first_answer_s: seconds to wait for the first request with some parameters, 0 or more.
    """

    def __init__(self, *, first_answer_s: float = FIRST_ANSWER_S) -> None:
        self._known: dict[tuple[str, str], tuple[Omission, ...]] = {}
        self._taken: set[Sent] = set()
        self._left_out: set[tuple[str, str, str]] = set()
        self._first: dict[Sent, list[Callable[[], object]]] = {}
        self._first_answer_s = first_answer_s
        self._lock = Lock()

    def of(self, model: str, address: str | None) -> tuple[Omission, ...]:
        """Return the parameters to omit from requests to a model."""
        return self._known.get((model, address or ""), ()) if self._known else ()

    def is_new(self, model: str, address: str | None, parameter: str) -> bool:
        """Return whether it is the first time that litellm leaves a parameter out."""
        with self._lock:
            known = (model, address or "", parameter)
            is_new = known not in self._left_out
            self._left_out.add(known)
            return is_new

    def remember(self, model: str, address: str | None, omissions: Sequence[Omission]) -> None:
        """Omit this from later requests to the model too."""
        with self._lock:
            known = self._known.get((model, address or ""), ())
            new = tuple(each for each in omissions if each not in known)
            self._known[model, address or ""] = known + new

    async def is_first(self, sent: Sent) -> bool:
        """Return whether this is the first request with these parameters.

        Waits for one that is in progress. The first one calls :meth:`conclude`.
        """
        if sent in self._taken:
            return False
        call_soon, ended = calls_on_this_loop(), anyio.Event()
        with self._lock:
            waiting = self._first.get(sent)
            if waiting is None:
                self._first[sent] = []
                return True
            waiting.append(lambda: call_soon(ended.set))
        with anyio.move_on_after(self._first_answer_s):
            await ended.wait()
        return False

    def conclude(self, sent: Sent, *, taken: bool) -> None:
        """End the first request with these parameters, and release the others."""
        with self._lock:
            if taken:
                self._taken.add(sent)
            waiting = self._first.pop(sent, [])
        for go_on in waiting:
            go_on()


REFUSED: Final = RefusedParameters()
"""The parameters that were rejected in this process."""
