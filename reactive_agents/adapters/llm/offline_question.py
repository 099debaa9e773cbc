"""What a conversation asks: its task, the words to look for, the arithmetic and the files in it."""

from __future__ import annotations

import ast
import re

from attrs import frozen

from reactive_agents.adapters.llm.offline_ranking import Passage, passages, stem, words
from reactive_agents.core.messages import AssistantMessage, Message, UserMessage

GUIDANCE = "Before you go on:"
NOTES = "Notes recalled from earlier runs."
MAX_KEYWORDS, MAX_EXPRESSIONS = 8, 3
_FENCE = re.compile(r"<(?P<name>[A-Za-z][\w-]*)>\n(?P<body>.*?)\n</(?P=name)>", re.S)
_TASK_FENCES = frozenset({"task", "question", "goal"})
_FILE = re.compile(r"(?<![\w/.:-])[\w./-]*\w\.(?:md|rst|txt|py|toml|json|ya?ml|csv|cfg|ini|html)\b")
_NUMBER = r"\d+(?:\.\d+)?"
_EXPRESSION = re.compile(r"[(\d][\d\s.+\-*/%()]*[\d)]")
_BEFORE_SUM = re.compile(r"(?:\bis|calculate|compute|evaluate|=|:|^)\s*$", re.I)
_WORDED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
    (re.compile(r"[$€£](?=\d)"), ""),
    (re.compile(rf"({_NUMBER})\s*(?:%|percent)\s+of\s+(?={_NUMBER})", re.I), r"\1 / 100 * "),
    (re.compile(r"(?<=[\d)])\s*(?:times|multiplied\s+by|[×·]|x(?=\s*[\d(]))\s*(?=[\d(])", re.I), " * "),
    (re.compile(r"(?<=[\d)])\s*(?:divided\s+by|÷)\s*(?=[\d(])", re.I), " / "),
    (re.compile(r"(?<=[\d)])\s*(?:to\s+the\s+power\s+of|\^)\s*(?=[\d(])", re.I), " ** "),
    (re.compile(r"(?<=[\d)])\s+plus\s+(?=[\d(])", re.I), " + "),
    (re.compile(r"(?<=[\d)])\s*(?:minus\s|−)\s*(?=[\d(])", re.I), " - "),
)


@frozen
class Question:
    """The task of a conversation.

    Attributes:
        start: index of the message that asks it; what follows is the work on it.
        keywords: the words to look for, in their order, each once.
        expressions: the arithmetic, ready for a calculator.
        files: the paths that it names.
        given: what the prompt itself has to quote from: its fenced parts and recalled notes.
    """

    text: str
    start: int
    keywords: tuple[str, ...]
    expressions: tuple[str, ...]
    files: tuple[str, ...]
    given: tuple[Passage, ...]


def find_question(messages: tuple[Message, ...]) -> Question:
    """The first user message that is neither recalled notes nor guidance, or a later one after an answer."""
    start, answered, given = -1, False, []
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            answered = not message.tool_calls
        elif isinstance(message, UserMessage) and not message.content.startswith(GUIDANCE):
            fences = [(match["name"], match["body"]) for match in _FENCE.finditer(message.content)]
            given += [
                one for name, body in fences if name not in _TASK_FENCES for one in passages(name, body)
            ]
            if (start < 0 or answered) and not message.content.startswith(NOTES):
                start, answered = index, False
                tasks = [body for name, body in fences if name in _TASK_FENCES]
                text = tasks[0] if tasks else _FENCE.sub(" ", message.content).strip()
    if start < 0:
        return Question("", start, (), (), (), tuple(given))
    expressions, rest = find_arithmetic(text)
    keywords = {stem(word): word for word in reversed(words(rest)) if len(word) > 1}
    found = tuple(reversed(keywords.values()))[:MAX_KEYWORDS]
    return Question(text, start, found, expressions, tuple(dict.fromkeys(_FILE.findall(text))), tuple(given))


def find_arithmetic(text: str) -> tuple[tuple[str, ...], str]:
    """The arithmetic in a text as Python expressions, and the text without it.

    Dates, ranges and the like (``2026-01-31``, ``24/7``) are none: a dash or slash alone needs spaces around
    it, or words such as ``what is`` before the sum.
    """
    for pattern, replacement in _WORDED:
        text = pattern.sub(replacement, text)
    found: dict[str, None] = {}
    rest, position = "", 0
    for match in _EXPRESSION.finditer(text):
        expression = " ".join(_balanced(match[0]).split())
        asked = bool(_BEFORE_SUM.search(text[: match.start()]))
        if len(found) < MAX_EXPRESSIONS and _is_sum(expression, asked=asked):
            found[expression] = None
            rest += text[position : match.start()] + " "
            position = match.end()
    return tuple(found), rest + text[position:]


def _balanced(expression: str) -> str:
    while expression.count(")") > expression.count("(") and expression.endswith(")"):
        expression = expression[:-1].rstrip()
    while expression.count("(") > expression.count(")") and expression.startswith("("):
        expression = expression[1:].lstrip()
    return expression


def _is_sum(expression: str, *, asked: bool) -> bool:
    clear = asked or re.search(r"[+*%(]|\s[-/]\s", expression)
    if len(expression) > 200 or not clear or re.search(r"\d-\d+-\d", expression):
        return False
    try:
        nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    kinds = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    return all(isinstance(node, kinds) for node in nodes) and any(isinstance(n, ast.BinOp) for n in nodes)
