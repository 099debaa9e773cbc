"""Parsing of tool calls that a model wrote as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from attrs import define, field

from reactive_agents.kernel.call_parsing.bare_calls import (
    is_example,
    read_code_lines,
    read_printed,
    read_untagged,
)
from reactive_agents.kernel.call_parsing.json_calls import CallReader, ParsedCall, ParsedCalls
from reactive_agents.kernel.call_parsing.tagged_calls import READERS, TAGS, TOKENS, Found
from reactive_agents.kernel.call_parsing.tool_names import index_names

_FENCE = r"^(?:Action:)?[ \t]*```(?P<info>[\w+-]*)[ \t]*\r?\n"
_OPENER = re.compile(
    "|".join(
        [
            r"(?P<think><think(?:ing)?>)",
            *(f"(?P<{tag}>{pattern})" for tag, pattern in TAGS.items()),
            f"(?P<fence>{_FENCE})",
        ]
    ),
    re.M,
)
_ANY_TAG = re.compile("|".join(TAGS.values()), re.M)
_THINK_END = re.compile(r"</think(?:ing)?>")
_FENCE_END = re.compile(r"\s*^[ \t]*```[ \t]*$|\s*```[ \t]*$|\s*\Z", re.M)
_FENCE_LINE = re.compile(r"^[ \t]*```(?P<info>[\w+-]*)", re.M)
_TAG_START = re.compile(r"\s*(?:<|\[TOOL_CALLS\])")
_INVENTED = re.compile(
    rf"(?:\s|{TOKENS.pattern})*(?P<result><(?:tool|function)_(?:response|result|output)s?>)"
)
"""An invented result after a call, which has not been run."""
_EMPTY_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n\s*```[ \t]*$", re.M)
_WIDEST_INDENT = 64
_GAP = re.compile(r"\n\s*\n\s*\n")


def parse_calls(text: str, known: Collection[str]) -> ParsedCalls:
    """Find the calls of known tools in a model's text, in any form.

    Total, in time linear in the text. What counts as a call is decided by these rules:

    - Only names that resolve to one of ``known`` count: exactly, or ignoring case, ``_``, ``-`` and the
      prefix ``functions.`` if that is unambiguous.
    - Nothing in ``<think>`` counts; a tag that opens a line and is never closed extends to the end. In a
      fenced block without calls it is code.
    - Tags and special tokens count anywhere, except right after a backtick (inline code).
    - A fenced block counts if it contains only JSON in the shape of a call, or ``name(…)``; if it has no
      language or ``json``, ``tool_call`` and the like; and if no "for example" precedes it.
    - Bare JSON and ``name(…)`` count only without tags, and only in the places that
      :func:`~reactive_agents.kernel.call_parsing.bare_calls.read_untagged` lists.
    - JSON with other keys than those of a call is data, even with a ``name``.
    - The model makes the calls if, without thinking, they are the whole message or end it in a tagged
      format, by :func:`makes_call`; otherwise it only shows them.
    - Broken JSON is repaired, at most 64 KiB of it, unless it was truncated within a value or the repair
      would lose a word.
    """
    reader = CallReader(index_names(known))
    has_names, whole = bool(reader.names.exact), text.strip()
    if has_names and whole.startswith(("{", "[")):
        calls, end = reader.read_calls(whole, 0, "json")
        if calls and not whole[end:].strip(" \t\r\n.;}]"):
            return ParsedCalls(calls, made=True)
    scan = _scan(reader if has_names else None, text)
    thinking = _tidied("\n\n".join(scan.thinking))
    if not has_names:
        return ParsedCalls((), _tidied("".join(scan.prose)), thinking)
    if scan.calls:
        lead, rest = "".join(scan.prose[: scan.before]), "".join(scan.prose[scan.before :])
        if invented := _INVENTED.match(rest):
            rest = rest[: invented.start("result")]
        prose = _EMPTY_FENCE.sub("", TOKENS.sub("", lead + rest))
        return ParsedCalls(tuple(scan.calls), _tidied(prose), thinking, made=makes_call(lead, rest))
    calls, lead, rest = read_untagged(reader, "".join(scan.prose))
    alone = not lead.strip() and not rest.strip()
    made = alone or (bool(calls) and calls[0].source == "react" and makes_call(lead, rest))
    return ParsedCalls(calls, _tidied(lead + rest), thinking, made=bool(calls) and made)


@define
class _Scan:
    """The parts of a text. ``before``: pieces of prose before the first call."""

    calls: list[ParsedCall] = field(factory=list)
    prose: list[str] = field(factory=list)
    thinking: list[str] = field(factory=list)
    before: int = 0


def _scan(reader: CallReader | None, text: str) -> _Scan:
    """Scan the text once, from one opening tag to the next."""
    scan = _Scan()
    start = position = _orphan_thinking(scan, text)
    last_end = max((end.start() for end in _THINK_END.finditer(text)), default=-1)
    while (opener := _OPENER.search(text, position)) is not None:
        kind = opener.lastgroup or ""
        position = opener.end()
        if kind == "think":
            thought = _thought(text, opener, last_end)
            if thought is None:
                continue
            scan.thinking.append(thought[0])
            end = thought[1]
        elif reader is None:  # only fences count: their content is code
            closing = _FENCE_LINE.search(text, position) if kind == "fence" else None
            position = position if closing is None else _behind_code(closing)
            continue
        elif kind != "fence" and _is_inline(text, opener.start()):
            continue
        else:
            read = _fence if kind == "fence" else READERS[kind]
            calls, end = read(reader, text, opener)
            if not calls:
                position = max(position, end) if kind == "fence" else position
                continue
            scan.before = scan.before or len(scan.prose) + 1
            scan.calls.extend(calls)
        scan.prose.append(text[start : opener.start()])
        start = position = max(end, opener.end())
    scan.prose.append(text[start:])
    return scan


def _fence(reader: CallReader, text: str, opener: re.Match[str]) -> Found:
    """Return the calls of a fenced block, or the end of the block as prose."""
    info = opener["info"].lower()
    start = opener.end()
    closing = _FENCE_LINE.search(text, start)
    has_tags = info in CALL_FENCES and _TAG_START.match(text, start)
    if has_tags and (closing is None or _ANY_TAG.search(text, start, closing.start())):
        return (), start
    if info in CALL_FENCES:
        calls, end = reader.read_calls(text, start, "fenced", _FENCE_LINE)
        if not calls:
            calls, end = read_code_lines(reader, text, start)
        if not calls and info == "tool_code":
            calls, end = read_printed(reader, text, start)
        behind = _FENCE_END.match(text, end)
        if calls and behind and not is_example(text[max(0, opener.start() - 160) : opener.start()]):
            return calls, behind.end()
    if closing is None:
        return (), start
    return (), _behind_code(closing)


def _behind_code(closing: re.Match[str]) -> int:
    """Return where prose continues; a line with a language opens another block."""
    return closing.start() if closing["info"] else closing.end()


def _orphan_thinking(scan: _Scan, text: str) -> int:
    """Return the start of the text after thinking whose opening tag is in the prompt."""
    end = _orphan_end(text)
    if end is None:
        return 0
    scan.thinking.append(text[: end.start()])
    return end.end()


def _orphan_end(text: str) -> re.Match[str] | None:
    """Return the end of thinking whose opening tag is in the prompt."""
    end = _THINK_END.search(text)
    if end is None or "<think" in text[: end.start()] or _is_inline(text, end.start()):
        return None
    return end


def _thought(text: str, opener: re.Match[str], last_end: int) -> tuple[str, int] | None:
    """Return the thinking after an opening tag, and its end; ``None`` for a mention."""
    if _is_inline(text, opener.start()):
        return None
    end = _THINK_END.search(text, opener.end()) if opener.end() <= last_end else None
    if end is not None:
        return text[opener.end() : end.start()], end.end()
    before = text[max(0, opener.start() - _WIDEST_INDENT) : opener.start()].rstrip(" \t")
    opens_line = before.endswith("\n") or (not before and opener.start() <= _WIDEST_INDENT)
    return (text[opener.end() :], len(text)) if opens_line else None


def _is_inline(text: str, position: int) -> bool:
    """Return whether one backtick, not three, is right before."""
    return text[max(0, position - 1) : position] == "`" and text[max(0, position - 3) : position] != "```"


def _tidied(text: str) -> str:
    return _GAP.sub("\n\n", text).strip()


# --- What a chat template leaves around an answer: thinking, marks of roles, ends of turns ----


_THINK_CLOSERS = ("</think>", "</thinking>")
_THINKING: Mapping[str, tuple[str, ...]] = {
    "<think>": _THINK_CLOSERS,
    "<thinking>": _THINK_CLOSERS,
    "<thought>": ("</thought>",),
    "<thoughts>": ("</thoughts>",),
    "<reasoning>": ("</reasoning>",),
    "<seed:think>": ("</seed:think>",),
    "[THINK]": ("[/THINK]",),
    "◁think▷": ("◁/think▷",),
    "<|begin_of_thought|>": ("<|end_of_thought|>",),
    "<|START_THINKING|>": ("<|END_THINKING|>",),
    "<|channel|>analysis<|message|>": ("<|end|>", "<|return|>", "<|start|>assistant"),
}
"""The marks before and after thinking."""
_HEADERS = (
    *("<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<start_of_turn>model"),
    *("<|start_of_role|>assistant<|end_of_role|>", "<|assistant|>", "[|assistant|]", "<｜Assistant｜>"),
    *("<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"),
    *("<|from|>assistant", "<|recipient|>all", "<|content|>", "<|START_RESPONSE|>"),
)
"""Marks of the speaker, which are ignored at the start of an answer."""
_OPENERS = (*_THINKING, *_HEADERS)
_FIRST = frozenset(opener[0] for opener in _OPENERS)
_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|stop|>", "<|endoftext|>"),
    *("<|end_of_text|>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>", "<end_of_turn>", "<eos>"),
    *("<｜end▁of▁sentence｜>", "[|endofturn|]"),
)
"""Marks of the end of a turn; ``</s>`` is also an HTML tag."""
_END = f"(?:{'|'.join(map(re.escape, _ENDS))}|</s>)"
_OTHER_SPEAKER = (
    r"(?:<\|(?:im_start|start_header_id|start_of_role|user|system|observation)\|>|<start_of_turn>"
    r"|<\|(?:start|from)\|>(?!assistant)|<｜User｜>|\[\|(?:user|system)\|\]|\[INST\])"
)
_TURN_END = re.compile(
    rf"(?<![\"'])(?:{_END}(?:\s*{_END})*\s*(?:\Z|{_OTHER_SPEAKER})|{_OTHER_SPEAKER}"
    rf"|(?<=[.!?…。！？}}\]>]){_END}(?!\s*<\|start\|>assistant))"
)
"""The end of a turn: at the end of the text, before another speaker, after a sentence."""
_PLAIN_THINKING = re.compile(
    r"\A\s*(?:analysis(?=\w)|Thought:|Here is my thought process:)(?P<thinking>(?:(?!^Action).)*?)"
    r"(?:assistant(?:final|commentary)|^Final Answer:|^Here is my response:)\s*",
    re.DOTALL | re.MULTILINE,
)
"""Thinking with words as marks: channels without tokens, the forms of ReAct and Granite."""


class ThinkingFilter:
    """Separates a streamed answer from the thinking before it.

    Thinking that is never closed extends to the end. Removes marks of the speaker before the answer, and the
    mark of its end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._closers: tuple[str, ...] = ()
        self._has_thought = False
        self._answers = False

    def feed(self, chunk: str) -> tuple[str, str]:
        """Return the text and the thinking that are certain so far."""
        self._held += chunk
        if self._answers:
            return self._ready(), ""
        thinking = ""
        while True:
            if not self._closers:
                if self._opened():
                    continue
                return self._answer(), thinking
            found = [(at, closer) for closer in self._closers if (at := self._held.find(closer)) >= 0]
            if not found:
                kept = self._kept()
                return "", thinking + self._take(len(self._held) - kept)
            at, closer = min(found)
            thinking += self._take(at)
            self._held = self._held[len(closer) :].lstrip()
            self._closers = ()

    def finish(self) -> tuple[str, str]:
        """Return the held-back rest, as text and as thinking."""
        held = self._take(len(self._held))
        if self._answers and held.strip() in _ENDS:
            return "", ""
        return ("", held) if self._closers else (held, "")

    def _opened(self) -> bool:
        """Remove the mark at the beginning; return whether there was one."""
        begun = self._held.lstrip()
        opener = next((each for each in _OPENERS if begun.startswith(each)), None)
        if opener is None:
            return False
        self._closers, self._has_thought = _THINKING.get(opener, ()), True
        self._held = begun[len(opener) :]
        return True

    def _answer(self) -> str:
        """Return the held text, unless it may be the beginning of a mark."""
        begun = self._held.lstrip()
        if not begun or any(opener.startswith(begun) for opener in _OPENERS):
            return ""
        self._answers = True
        self._held = begun if self._has_thought else self._held
        return self._ready()

    def _ready(self) -> str:
        """Return the held text without a possible mark of its end."""
        at = max(self._held.rfind("<"), self._held.rfind("["))
        mark = self._held[at:].rstrip() if at >= 0 else ""
        may_end = mark and any(end.startswith(mark) for end in _ENDS)
        return self._take(at if may_end else len(self._held))

    def _kept(self) -> int:
        """Return the length of a possible beginning of a closing mark at the end."""
        longest = max(map(len, self._closers)) - 1
        ends = (self._held[-size:] for size in range(min(longest, len(self._held)), 0, -1))
        return next((len(end) for end in ends if any(each.startswith(end) for each in self._closers)), 0)

    def _take(self, size: int) -> str:
        taken, self._held = self._held[:size], self._held[size:]
        return taken


def split_thinking(text: str) -> tuple[str, str]:
    """Return the text of a turn without the thinking before it, and the thinking.

    Removes marks of the speaker before it, the mark of its end, and invented turns of others after it.

    >>> split_thinking("<think>Hm.</think>Yes.<|im_end|>")
    ('Yes.', 'Hm.')
    """
    text = _until_turn_end(text)
    if text.lstrip()[:1] in _FIRST:
        filtered = ThinkingFilter()
        (begun, thinking), (rest, unclosed) = filtered.feed(text), filtered.finish()
        if thinking or unclosed or begun + rest != text:
            return begun + rest, (thinking + unclosed).strip()
    if plain := _PLAIN_THINKING.match(text):
        return text[plain.end() :], plain["thinking"].strip()
    end = _orphan_end(text) if "</think" in text else None
    return (text, "") if end is None else (text[end.end() :].lstrip(), text[: end.start()].strip())


def _until_turn_end(text: str) -> str:
    """Return a text up to the end of its turn, unless code continues after it."""
    start = len(text) - len(text.lstrip())
    for end in _TURN_END.finditer(text, start + 1) if "<" in text or "[" in text else ():
        before = text[: end.start()]
        is_code = before.count("```") % 2 or before.rpartition("\n")[2].count("`") % 2
        is_struck = end[0].startswith("</s>") and "<s>" in before
        if not is_struck and (not is_code or end.end() == len(text)):
            return before.rstrip()
    return text


# --- Whether a text makes the calls that it ends with, or only shows them --------------------------------


CALL_FENCES = frozenset({"", "json", "json5", "jsonc", "xml", "tool_call", "tool_calls", "tool_code", "tool"})
CALL_FENCES |= {"function_call", "action"}
"""Languages of fenced blocks in which a model may make a call."""

_OPEN_FENCE = re.compile(r"^[ \t]*```(?P<info>[\w+-]*)[ \t]*\r?\n\s*\Z", re.M)
_CLOSING_FENCE = re.compile(r"\A\s*^[ \t]*```[ \t]*$", re.M)
_ANY_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.M)
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:-]{0,40})(?:\s[^<>\n]{0,200})?>")
_CALL_TAG = re.compile(r"tool|func|call|invoke", re.I)
_WITHOUT_END = frozenset({"br", "hr", "img", "input", "li", "link", "meta", "p", "think", "thinking"})
_QUOTING = (
    *(("<!--", "-->"), ("/*", "*/"), ("<![CDATA[", "]]>"), ("=begin", "=end"), ("#+begin", "#+end")),
    *(("[quote", "[/quote]"), ("[code", "[/code]"), (r"\begin{", r"\end{")),
    *(("{{{", "}}}"), ("{% raw", "{% endraw")),
    *(("「", "」"), ("『", "』"), ("《", "》"), ("〈", "〉"), ("〝", "〞")),
)
"""Beginnings of comments and quotations, with their ends."""
_MARGIN = re.compile(r"\s*(?:[>#%|;*]|//|--|rem\b)", re.I)
_LABEL = re.compile(r"(?:\S+[ \t]+)?\S+:", re.ASCII)
_QUOTES = re.compile('["“”„«»‟＂❝❞″]')
_OF_OTHERS = re.compile(
    r".*(?:::|\bwrote:)|\.\. code(?:-block)?::.*|(?:.*\|>)?\W*(?:user|human|system|observation)\W*", re.I
)
"""A line that introduces the words of others: of a mail, another role, a literal block."""
_ENDS_SENTENCE = ".!?…。！？"
_WIDEST_PROSE_INDENT = 3
_NOTHING = " \t\r\n.;"


def makes_call(lead: str, rest: str) -> bool:
    """Return whether calls in a tagged format are made, by the text around them.

    They are made if nothing follows, and if the text before neither quotes them nor makes them part of a
    sentence: no open quotation, fence, comment or element, no margin of a block quote or comment.

    Args:
        lead: the text before the first call.
        rest: the text between the calls and after them.
    """
    lead, rest = TOKENS.sub("", lead), TOKENS.sub("", rest)
    fence = _OPEN_FENCE.search(lead)
    if fence is not None and fence["info"].lower() in CALL_FENCES:
        lead, rest = lead[: fence.start()], _CLOSING_FENCE.sub("", rest)
    if rest.strip(_NOTHING):
        return False
    return not lead.strip() or not (_is_quoting(lead) or _is_sentence(lead))


def _is_quoting(lead: str) -> bool:
    if len(_ANY_FENCE.findall(lead)) % 2 or len(_QUOTES.findall(lead)) % 2:
        return True
    if any(lead.rfind(start) > lead.rfind(end) for start, end in _QUOTING):
        return True
    said = lead.rstrip()
    if said[-1:] in "'`‘‚" or _OF_OTHERS.fullmatch(said.rpartition("\n")[2]):
        return True
    tags = [(tag["name"].lower(), -1 if tag["end"] else 1) for tag in _TAG.finditer(lead)]
    depth = Counter[str]()
    for name, step in tags:
        depth[name] += step
    return any(
        count > 0 and name not in _WITHOUT_END and not _CALL_TAG.search(name) for name, count in depth.items()
    )


def _is_sentence(lead: str) -> bool:
    """Return whether the line of the call makes it a quotation or part of a sentence."""
    line = lead.rpartition("\n")[2]
    said = line.strip()
    if not said:
        return len(line.expandtabs()) > _WIDEST_PROSE_INDENT
    if _MARGIN.match(line):
        return True
    return said[-1] not in _ENDS_SENTENCE and not _LABEL.fullmatch(said)
