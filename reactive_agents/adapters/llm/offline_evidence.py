"""What the tool results of a conversation hold: search matches, parts of files, sums.

Results may have been shortened for display, so JSON is read where it is whole and picked apart where not.
"""

from __future__ import annotations

import json
import re

from attrs import frozen

from reactive_agents.adapters.llm.offline_question import Question
from reactive_agents.adapters.llm.offline_ranking import Passage, passages, rank, stem, stems
from reactive_agents.core.json import Json
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage

CALCULATOR, SEARCH, READ, FINAL_ANSWER = "calculator", "file-search", "file-read", "final-answer"
MAX_FILES, LINES_BEFORE, LINES = 3, 15, 60
_STRING = r'"((?:[^"\\]|\\.)*)'
_MATCH = re.compile(rf'"path":\s*{_STRING}",\s*"line":\s*(\d+),\s*"text":\s*{_STRING}"')
_TEXT = re.compile(rf'"text":\s*{_STRING}')
_LEFT_OUT = re.compile(r"\n\[… \d+ of \d+ characters left out.*", re.S)


@frozen
class Evidence:
    """What has been found out since the question was asked.

    Attributes:
        made: the calls of each tool, by name, that have a result.
        matches: the lines that the searches found.
        search_failed: whether a search ended in an error.
        read: the sentences of the files that were read, and of what other tools gave.
        sums: each expression with its result, or with why there is none.
    """

    made: dict[str, int]
    matches: tuple[Passage, ...]
    search_failed: bool
    read: tuple[Passage, ...]
    sums: tuple[str, ...]

    @property
    def quotable(self) -> tuple[Passage, ...]:
        """What was read, and the matches in files that were not."""
        paths = {one.path for one in self.read}
        return (*self.read, *(one for one in self.matches if one.path not in paths))


def gather_evidence(messages: tuple[Message, ...], question: Question) -> Evidence:
    """Take the tool results after the question one by one; failed ones count as made and give nothing."""
    calls: dict[str, ToolCall] = {}
    made: dict[str, int] = {}
    matches: list[Passage] = []
    read: list[Passage] = []
    sums: list[str] = []
    search_failed = False
    for message in messages[question.start + 1 :]:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        if not isinstance(message, ToolMessage):
            continue
        name = message.tool_name
        call = calls.get(message.call_id)
        made[name] = made.get(name, 0) + 1
        if name == CALCULATOR:
            sums.append(_sum(message, call))
        elif message.is_error:
            search_failed = search_failed or name == SEARCH
        elif name == SEARCH:
            matches += _matches(message.content)
        elif name == READ:
            read += _part_of_file(message.content, call)
        elif name != FINAL_ANSWER:
            read += passages(f"{name} result", _LEFT_OUT.sub("", message.content))
    return Evidence(made, tuple(matches), search_failed, tuple(read), tuple(sums))


def files_to_read(question: Question, evidence: Evidence) -> list[tuple[str, int]]:
    """The best files, each with the line to start from: those that the question names, then by their matches."""
    targets = dict.fromkeys(question.files, 1)
    scores: dict[str, float] = {}
    best: dict[str, int] = {}
    query = [stem(word) for word in question.keywords]
    for score, one in rank(evidence.matches, query):
        best.setdefault(one.path, one.line)
        bonus = 0.0 if one.path in scores else sum(part in query for part in set(stems(one.path)))
        scores[one.path] = scores.get(one.path, 0.0) + score + bonus
    for path in (
        *sorted(scores, key=lambda path: (-scores[path], path)),
        *(m.path for m in evidence.matches),
    ):
        targets.setdefault(path, max(1, best.get(path, 1) - LINES_BEFORE))
    return list(targets.items())[:MAX_FILES]


def _sum(message: ToolMessage, call: ToolCall | None) -> str:
    given = [value for value in call.arguments.values() if isinstance(value, str)] if call else []
    expression = given[0] if given else "the sum"
    if message.is_error:
        return f"{expression}: not calculated. {message.content}"
    value = _parsed(message.content)
    if isinstance(value, dict):
        value = value.get("result", value.get("value", value))
    return f"{expression} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _matches(content: str) -> list[Passage]:
    data = _parsed(content)
    if isinstance(data, dict):
        data = data.get("matches")
    if not isinstance(data, list):
        cut = [
            (_unescaped(path), int(line), _unescaped(text)) for path, line, text in _MATCH.findall(content)
        ]
        return [Passage(path, line, text.strip()) for path, line, text in cut]
    found = []
    for entry in data:
        match entry:
            case {"path": str(path), "line": int(line), "text": str(text)}:
                found.append(Passage(path, line, text.strip()))
    return found


def _part_of_file(content: str, call: ToolCall | None) -> list[Passage]:
    asked = call.arguments if call else {}
    path, first, text = asked.get("path"), asked.get("start_line"), _LEFT_OUT.sub("", content)
    data = _parsed(content)
    if isinstance(data, dict):
        path, first, text = data.get("path", path), data.get("start_line", first), str(data.get("text", ""))
    elif (cut := _TEXT.search(text)) and text.lstrip().startswith("{"):
        text = _unescaped(cut[1])
    if not isinstance(path, str):
        return []
    return passages(path, text, first_line=first if isinstance(first, int) else 1)


def _parsed(content: str) -> Json:
    try:
        data: Json = json.loads(content)
    except (ValueError, RecursionError):
        return content
    return data


def _unescaped(text: str) -> str:
    value = _parsed(f'"{text}"')
    return value if isinstance(value, str) and not value.startswith('"') else text
