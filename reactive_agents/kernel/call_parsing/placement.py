"""Whether a text makes the calls that it ends with, or only shows them."""

from __future__ import annotations

import re
from collections import Counter

from reactive_agents.kernel.call_parsing.tagged_calls import TOKENS

CALL_FENCES = frozenset(
    {
        "",
        "json",
        "json5",
        "jsonc",
        "xml",
        "tool_call",
        "tool_calls",
        "tool_code",
        "tool",
        "function_call",
        "action",
    }
)
"""Languages of fenced blocks in which a model may make a call."""

_OPEN_FENCE = re.compile(r"^[ \t]*```(?P<info>[\w+-]*)[ \t]*\r?\n\s*\Z", re.M)
_CLOSING_FENCE = re.compile(r"\A\s*^[ \t]*```[ \t]*$", re.M)
_ANY_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.M)
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?:\s[^<>\n]{0,200})?>")
_CALL_TAG = re.compile(r"tool|func|call|invoke", re.I)
_WITHOUT_END = frozenset({"br", "hr", "img", "input", "li", "link", "meta", "p", "think", "thinking"})
_COMMENTS = (("<!--", "-->"), ("/*", "*/"))
_MARGIN = re.compile(r"\s*(?:[>#%|;*]|//|--|rem\b)", re.I)
_LABEL = re.compile(r"(?:\S+[ \t]+)?\S+:", re.ASCII)
_QUOTES = re.compile('["“”„«»]')
_ENDS_SENTENCE = ".!?…。！？"
_WIDEST_INDENT = 3
_NOTHING = " \t\r\n.;"


def makes_call(lead: str, rest: str) -> bool:
    """Return whether calls in a tagged format are made, by the text around them.

    They are when nothing follows, and what precedes neither quotes them nor is a sentence that they are a
    part of: no open quotation, fence, comment or element, no margin of a block quote or comment.

    Args:
        lead: the text before the first call.
        rest: the text between the calls and after them.
    """
    lead, rest = TOKENS.sub("", lead), TOKENS.sub("", rest)
    fence = _OPEN_FENCE.search(lead)
    if fence is not None and fence["info"].lower() in CALL_FENCES:
        lead, rest = lead[: fence.start()], _CLOSING_FENCE.sub("", rest, count=1)
    if rest.strip(_NOTHING):
        return False
    return not lead.strip() or not (_is_quoting(lead) or _is_sentence(lead))


def _is_quoting(lead: str) -> bool:
    if len(_ANY_FENCE.findall(lead)) % 2 or len(_QUOTES.findall(lead)) % 2:
        return True
    if any(lead.rfind(start) > lead.rfind(end) for start, end in _COMMENTS):
        return True
    if lead.count("「") > lead.count("」") or lead.rstrip()[-1:] in "'`‘‚":
        return True
    tags = [(tag["name"].lower(), -1 if tag["end"] else 1) for tag in _TAG.finditer(lead)]
    depth = Counter[str]()
    for name, step in tags:
        depth[name] += step
    return any(
        count > 0 and name not in _WITHOUT_END and not _CALL_TAG.search(name) for name, count in depth.items()
    )


def _is_sentence(lead: str) -> bool:
    """Return whether the line that the call begins on makes it a quotation or a word."""
    line = lead.rpartition("\n")[2]
    said = line.strip()
    if not said:
        return len(line.expandtabs()) > _WIDEST_INDENT
    if _MARGIN.match(line):
        return True
    return said[-1] not in _ENDS_SENTENCE and not _LABEL.fullmatch(said)
