"""What a conversation asks, and what its tool results hold.

Results may have been shortened for display, so JSON is read where it is whole and picked apart where not.
"""

from __future__ import annotations

import ast
import json
import re

from attrs import field, frozen

from reactive_agents.adapters.llm.offline_ranking import Passage, passages, rank, stem, words
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

CALCULATOR, SEARCH, READ, FINAL_ANSWER = "calculator", "file-search", "file-read", "final-answer"
MAX_KEYWORDS, MAX_EXPRESSIONS, MAX_FILES, LINES_BEFORE = 8, 3, 3, 15
GUIDANCE, NOTES, TASK_FENCES = "Before you go on:", "Notes recalled from earlier runs.", ("task", "question")
_FENCE = re.compile(r"<(?P<name>[A-Za-z][\w-]*)>\n(?P<body>.*?)\n</(?P=name)>", re.S)
_FILE = re.compile(r"(?<![\w/.:-])[\w./-]*\w\.(?:md|rst|txt|py|toml|json|ya?ml|csv|cfg|ini|html)\b")
_STRING = r'"((?:[^"\\]|\\.)*)'
_CUT_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}$")
_MATCH = re.compile(rf'"path":\s*{_STRING}",\s*"line":\s*(\d{{1,9}}),\s*"text":\s*{_STRING}"')
_LEFT_OUT = re.compile(r"\n\[… (?:\d+ of \d+ characters left out|shortened view of \d+).*", re.S)
_EXPRESSION = re.compile(r"[(\d][\d\s.+\-*/%()]*[\d)]")
_BEFORE_SUM = re.compile(r"(?:\bis|calculate|compute|=)\s*$", re.I)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(?=\d)", re.I)
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}\b)|[$€£](?=\d)")
_SPOKEN = {"times|multiplied by|[×·x]": "*", "divided by|÷": "/", "to the power of|\\^": "**", "plus": "+"}
_OPERATORS = tuple(
    (re.compile(rf"(?<=[\d)])\s*(?:{spoken})\s*(?=[\d(])", re.I), f" {operator} ")
    for spoken, operator in (*_SPOKEN.items(), ("minus|−", "-"))
)
_SUM_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)


@frozen
class Reading:
    """A conversation as the offline model understands it.

    Attributes:
        keywords: the words of the question to look for, in their order, each once.
        expressions: its arithmetic, as Python expressions.
        files: the paths that it names.
        given: what the prompt itself has to quote from: fenced data and recalled notes.
        made: how many calls of each tool have a result, also when that is an error.
        matches: the lines that searches found.
        read: the sentences of what was read.
        sums: each expression with its result, or why there is none.
    """

    question: str = ""
    keywords: tuple[str, ...] = ()
    expressions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    given: list[Passage] = field(factory=list)
    made: dict[str, int] = field(factory=dict)
    matches: list[Passage] = field(factory=list)
    read: list[Passage] = field(factory=list)
    sums: list[str] = field(factory=list)

    @property
    def query(self) -> list[str]:
        """The stems of the keywords."""
        return [stem(word) for word in self.keywords]

    @property
    def quotable(self) -> list[Passage]:
        """Everything that can be quoted; a search's match only where its file was not read."""
        paths = {one.path for one in self.read}
        return [*self.given, *self.read, *(one for one in self.matches if one.path not in paths)]

    def files_to_read(self) -> list[tuple[str, int]]:
        """The best files and the line to start each from: those that the question names, then by matches."""
        targets, scores = dict.fromkeys(self.files, 1), dict[str, float]()
        for score, one in rank(self.matches, self.query):
            targets.setdefault(one.path, max(1, one.line - LINES_BEFORE))
            scores[one.path] = scores.get(one.path, 0.0) + score
        for one in self.matches:
            targets.setdefault(one.path, max(1, one.line - LINES_BEFORE))
        best = sorted(targets, key=lambda path: (path not in self.files, -scores.get(path, 0.0)))
        return [(path, targets[path]) for path in best[:MAX_FILES]]


def read_conversation(messages: tuple[Message, ...]) -> Reading:
    """The question is the first user message that is neither notes nor guidance, or one after an answer."""
    reading, asked, answered = Reading(), False, False
    calls: dict[CallId, ToolCall] = {}
    given: list[Passage] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            answered = not message.tool_calls
            calls |= {call.id: call for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            _take_result(reading, message, calls.get(message.call_id))
        elif isinstance(message, UserMessage) and not message.content.startswith(GUIDANCE):
            fences = [(match["name"], match["body"]) for match in _FENCE.finditer(message.content)]
            given += [one for name, body in fences if name not in TASK_FENCES for one in passages(name, body)]
            if (answered or not asked) and not message.content.startswith(NOTES):
                tasks = [body for name, body in fences if name in TASK_FENCES]
                text = tasks[0] if tasks else _FENCE.sub(" ", message.content).strip()
                expressions, rest = find_arithmetic(text)
                useful = [
                    word for word in words(_FILE.sub(" ", rest)) if len(word) > (2 if word.isdigit() else 1)
                ]
                keywords = tuple({stem(word): word for word in reversed(useful)}.values())[::-1][
                    :MAX_KEYWORDS
                ]
                files = tuple(dict.fromkeys(_FILE.findall(text)))
                reading, asked, answered = Reading(text, keywords, expressions, files, given), True, False
    return reading


def find_arithmetic(text: str) -> tuple[tuple[str, ...], str]:
    """The arithmetic in a text as Python expressions, and the text without it.

    Dates, ranges and the like (``2026-01-31``, ``24/7``) are none: a dash or slash alone needs spaces around
    it, or words such as ``what is`` before the sum.
    """
    text = _SHARE.sub(r"\1 / 100 * ", _GROUPING.sub("", text))
    for spoken, operator in _OPERATORS:
        text = spoken.sub(operator, text)
    found: list[str] = []
    for match in _EXPRESSION.finditer(text):
        expression = " ".join(match[0].split())
        if expression.count(")") > expression.count("("):
            expression = expression.rstrip(") ")
        asked = expression == text.strip() or _BEFORE_SUM.search(text[: match.start()])
        if _is_sum(expression, asked=bool(asked)):
            found.append(expression)
    rest = _EXPRESSION.sub(lambda match: match[0] if not found else " ", text)
    return tuple(dict.fromkeys(found))[:MAX_EXPRESSIONS], rest


def _is_sum(expression: str, *, asked: bool) -> bool:
    clear = asked or re.search(r"[+*%(]|\s[-/]\s", expression)
    if len(expression) > 200 or not clear or re.search(r"\d-\d+-\d", expression):
        return False
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(n, ast.BinOp) for n in nodes) and all(isinstance(n, _SUM_NODES) for n in nodes)


def _take_result(reading: Reading, message: ToolMessage, call: ToolCall | None) -> None:
    name, asked = message.tool_name, call.arguments if call else {}
    reading.made[name] = reading.made.get(name, 0) + 1
    data = _parsed(message.content)
    if name == CALCULATOR:
        sum_of = next((value for value in asked.values() if isinstance(value, str)), "the sum")
        value = data.get("result", data) if isinstance(data, dict) else data
        known = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        reading.sums.append(
            f"{sum_of}: not calculated. {known}" if message.is_error else f"{sum_of} = {known}"
        )
    elif message.is_error or name == FINAL_ANSWER:
        return
    elif name == SEARCH:
        entries = data.get("matches") if isinstance(data, dict) else None
        for entry in entries if isinstance(entries, list) else _picked_matches(message.content):
            match entry:
                case {"path": str(path), "line": int(line), "text": str(text)}:
                    reading.matches.append(Passage(path, line, text.strip()))
    else:
        given = data if isinstance(data, dict) else {"text": _picked_text(message.content)}
        source, start = (given.get(key, asked.get(key)) for key in ("path", "start_line"))
        place = source if name == READ and isinstance(source, str) else f"{name} result"
        body = str(given.get("text", message.content))
        reading.read.extend(passages(place, body, first_line=start if isinstance(start, int) else 1))


def _parsed(content: str) -> Json:
    try:
        data: Json = json.loads(content, strict=False)
    except (ValueError, RecursionError):
        return content
    return data


def _picked_matches(content: str) -> list[Json]:
    found = _MATCH.findall(content)
    return [
        {"path": _unescaped(path), "line": int(line), "text": _unescaped(text)} for path, line, text in found
    ]


def _picked_text(content: str) -> str:
    """The text up to where it was cut, without the line that the cut goes through."""
    kept = _LEFT_OUT.sub("", content)
    inside = re.search(rf'"text":\s*{_STRING}', kept) if kept.startswith("{") else None
    text = _unescaped(inside[1]) if inside else kept
    return text if kept == content else text.rpartition("\n")[0]


def _unescaped(text: str) -> str:
    quoted = '"' + _CUT_ESCAPE.sub("", text) + '"'
    value = _parsed(quoted)
    return value if isinstance(value, str) and value != quoted else text
