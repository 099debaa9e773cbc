"""Rules that derive the required tools, and how often, from the words of a task.

A requirement holds an answer back until its tool was called, so one that is wrong costs more than one that is
missed: a wrong one makes a model do what was not asked for. Each rule therefore asks for several signs at
once, and a sentence that only talks about the subject, forbids it, supposes it or gives the figures itself
requires nothing. The words are English; a task in another language requires nothing, unless it names a file
or an address beside an English verb.

A tool that looks something up is required by its subject beside something particular: "What is the price of
Kelto?". A tool that does something is required by an imperative with its verb: "Send an email to Bob". How
often is counted in the enumeration that the subject belongs to.

An act that was not asked for may harm, and cannot be taken back. A tool that changes the world is therefore
required only by a task of nothing but orders: one negation, correction, condition, question, quotation or
piece of text to be written anywhere in it, and the model is left to judge what is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from typing import Literal

from attrs import frozen
from returns.result import Result, Success

from reactive_agents.core.content import own_words
from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.events import ToolNeedsFound
from reactive_agents.core.languages import expression, word_set
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.kernel.ledger import has_side_effects
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.toolset import SameObjects
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_of

MOST_CALLS = 20
_ARITHMETIC = re.compile(r"\d[\d.,]*\s+(?:times|plus|minus|over|(?:divided|multiplied) by)\s+\d[\d.,]*")
"""Operations between numbers, whose words are no subjects: "18 times 12"."""
_LONGEST_TASK = 2_000
"""Characters of a task that is judged; longer ones hold texts, whose words are not the task's."""


_READING = word_set("reading")
"""Verbs of looking something up; in the name of a tool they say nothing of its subject."""
_ASKING = _READING | word_set("asking_for_reading")
_CONNECTING = word_set("before_subject")
"""Words that may stand between a verb and its subject."""
_DOING = word_set("doing")
_MAKING = word_set("making")
"""Verbs of tools that do what their noun says as a verb: ``place_order``."""
_STARTS = _READING | _DOING | word_set("starting")
_POLITE = word_set("before_verb")
_GENERIC = word_set("general_in_tool")
"""Words of a tool's name that are in many tasks for another reason."""

_WEB_SEARCH = "web-search"
_CHANGING = word_set("changing")
"""Stems of what changes too often to be known without a look-up."""

_BLOCKED = re.compile(expression("not_required"), re.IGNORECASE)
"""Signs that a sentence explains its subject, forbids, supposes or tells it."""
_ABOUT = re.compile(expression("work_about_anything"), re.IGNORECASE)
"""Works that a sentence asks for, which may be about anything."""
_UNSURE = re.compile(
    expression("unsure_order")
    + r"|[?\"“”„«»]|(?<!\w)'[^'\n]+'(?!\w)|(?<!\w)`[^`]+`|```|^\s*(?:[-*•]|\d+[.)])\s",
    re.IGNORECASE | re.MULTILINE,
)
"""Signs anywhere in a task that an act may not be meant: corrections, conditions, questions, quotations."""
_WORKS = word_set("written_work")
"""Stems of texts that a task may ask to be written, of which an order may be a part."""
_WRITING = word_set("writing")
"""Verbs after which another imperative may belong to what is written."""
_TELLS_OTHERS = re.compile(r"\btell\s+(?!me\b|us\b)[a-z]+(?:\s+[\w.]+){2}", re.IGNORECASE)
"""Telling others something is a message: "Tell the school that Ben is ill"."""
_DETERMINERS = word_set("determiner")
_COURTESY = word_set("courtesy")
_COLON = re.compile(r":(?!//|\d)")
_INFINITIVE = re.compile(r"\bto\s+([a-z]+)\b")
_NO_BLOCK = re.compile(r"\bwhether\s+(?:it|he|she|they|that|this)\b|\bhow\s+(?:much|many)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^'\n]{12,}'|“[^”]*”|«[^»]*»|```.*?```", re.DOTALL)
_NEW_CLAUSE = re.compile(r"\s*(?:,\s*(?:and\s+)?(?:then\s+)?|\band\s+(?:then\s+)?|\bthen\s+)(?=([a-z]+)\b)")
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or|&|vs\.?|versus|with\s+that\s+of)\s+")
_OF = re.compile(r"^\s*(?:of|for|in|at|between)\s+")
_TAIL = re.compile(
    r"\s+(?:in|for|at|on|to|than|from|with|together|now|today|tomorrow|please|right|compared|then|first|cost|"
    r"higher|lower|look|is|are|has|have)\b.*$",
    re.IGNORECASE,
)
_AFTER_LAST = re.compile(
    r"(\s(?:and|or)\s[^,]+),\s+(?:in|for|at|on|to|from|with|as|by|each|both)\b.*$", re.IGNORECASE
)
"""What follows a list, of all its items: "Rome and Oslo, in Celsius"."""
_ALL_OF = re.compile(r"^(?:all|both|each|these|the)\b[^:]*:\s*", re.IGNORECASE)
_COUNTED = re.compile(
    r"how\s+(?:many|much)\b[^,]*?\bof\s+(?P<items>[A-Z].*?)\s+(?:is|are)\s+(?:there\s+)?(?:left\s+)?in\s+(?P<subject>\w+)",
    re.IGNORECASE,
)
_PLAIN = ("string", "integer", "number", "boolean")
_ABOUT_SEVERAL = re.compile(r"\b(?:between|two|both|several|compare)\b", re.IGNORECASE)
_DISTRIBUTIVE = re.compile(r"\b(?:each|every|both)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][\w'-]*")
_PARTICULAR = re.compile(r"[A-Z0-9][\w.:/-]*")
_URL = re.compile(r"https?://[^\s,;)\"'>]*[^\s,;.)\"'>?!]")
_PATH = re.compile(
    r"(?<![\w/:.])[\w-]+(?:/[\w.-]+)*\.(?:md|rst|txt|log|py|toml|json|ya?ml|csv|html|cfg|ini|xml)\b"
)
_FOLDER = re.compile(r"(?<![\w/:.])\w[\w-]*(?:/[\w-]+)+(?![\w./])")
_INTO = re.compile(r"\b(?:to|into|as|in|file|called|named)\s+$", re.IGNORECASE)
_INTO_FILES = word_set("into_files")
_OUT_OF_FILES = word_set("out_of_files")
_OPENING = _OUT_OF_FILES | word_set("opening")
_CONTENT_OF = re.compile(r"^\s*what\s+(?:is|does|stands)\b.*\b(?:in|say)\b", re.IGNORECASE)
_TO_WORK_OUT = re.compile(
    r"\b(?:what(?:'s|\s+is)|how\s+much\s+is|calculate|compute|evaluate|solve|work\s+out)\b", re.IGNORECASE
)
_DETERMINED = re.compile(r"\s+(?:a|an|the|one|two|three|four|five|\d+|me|us|[A-Z]\w*(?!\w*'))\b")
_QUANTITY = re.compile(r"\s+(?:\d{1,3}(?=\s+[A-Za-z])|(?:an?|one|two|three|four|five|six|ten)\b)")
_NOUN = re.compile(
    rf"\b(?:(?:{'|'.join(sorted(_READING | _DOING))})\s+|(?:the|this|that|my|our|your)\s+(?:\w+\s+)?)"
    rf"(?=({'|'.join(sorted(_READING | _DOING))})s?\b)",
    re.IGNORECASE,
)
"""A word after a verb or an article, which is no verb there: "Cancel order 1001"."""
_NAMED = re.compile(r"\s+#?[A-Z0-9]")
_STATED = re.compile(
    r"(?<!\bwhich)(?<!\bwhat)\s(?:is|are|has|have|can|may|must|will|stays?|remains?)\b", re.I
)
"""A verb of a sentence that tells something: "Order 1002 is fine."."""
_LONG_PRODUCT = re.compile(r"(?<![\w.-])\d[\d.]*\)?\s*[*×÷^]\s*\(?\d|(?<![\w.-])\d[\d.]*\)?\s+[-+/]\s+\(?\d")
_PERCENT = re.compile(r"\d\s*%\s+of\s+\d")
_TIMES = {"twice": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10}
_OFTEN = re.compile(r"\b(?:(twice)|(two|three|four|five|six|ten|\d{1,2})\s+times)\b", re.IGNORECASE)
_RECENT = re.compile(
    r"\b(?:latest|today's|current|recent|newest|this\s+week)\b.*\bnews\b|\bnews\b.*\btoday\b", re.I
)
_SEARCH_WEB = re.compile(
    r"\bsearch\s+(?:on\s+)?(?:the\s+)?(?:web|internet)\b(?!\s+of)|\b(?:search|look\b.*\bup)\s+online\b",
    re.IGNORECASE,
)


@frozen
class _Sentence:
    """A sentence that may require something, with what the rules read of it.

    Attributes:
        text: without quoted texts.
        clauses: its parts, each of which begins with its own verb.
        is_about: whether it asks for a work, such as a story or a program.
    """

    text: str
    clauses: tuple[str, ...]
    is_about: bool


def may_require(task: str, definitions: Sequence[ToolDefinition]) -> bool:
    """Return whether a task has anything that a rule about one of the tools looks for.

    Most tasks have not: then :func:`requirements_in` requires nothing.
    """
    return len(task) <= _LONGEST_TASK and _signs_of(SameObjects(definitions)).search(task) is not None


@lru_cache(maxsize=64)
def _signs_of(same: SameObjects[ToolDefinition]) -> re.Pattern[str]:
    """Return a pattern for what a task must have that requires any of the tools."""
    signs = {sign for definition in same.objects for sign in _signs_of_tool(definition)}
    return re.compile("|".join(sorted(signs)), re.IGNORECASE)


def _signs_of_tool(definition: ToolDefinition) -> Iterable[str]:
    """Return patterns, of which a sentence that requires the tool has one or more."""
    parameters, verbs = _parameters(definition), _verbs_of(definition)
    yield re.escape(definition.name)
    for stem in _subjects_of(definition):
        yield re.escape(stem.removesuffix("y"))  # "city" is the stem of "cities"
    yield from map(re.escape, verbs if _changes(definition) else verbs & _DOING)
    if "url" in parameters:
        yield "http"
    if "path" in parameters:
        yield r"[./][\w-]"
    if definition.name == "calculator":
        yield r"\d"
    if definition.name == _WEB_SEARCH:
        yield from ("search", "look", "news")


def requirements_in(task: str, definitions: Sequence[ToolDefinition]) -> ToolNeeds:
    """Return the tools that a task plainly requires, and those that may help.

    Args:
        task: the task in the user's words; a long one requires nothing.
    """
    task = _ARITHMETIC.sub(" ", task)
    asked = stems(task)
    relevant = frozenset(
        each.name for each in definitions if stems(f"{each.name} {each.description}") & asked
    )
    if len(task) > _LONGEST_TASK:
        return ToolNeeds(relevant=relevant)
    sentences = tuple(_sentences(task))
    found: dict[str, int] = {}
    for definition in definitions:
        judged = _ordering(task, definition) if _acts(definition) else sentences
        calls = max((_calls_in(sentence, definition, task) for sentence in judged), default=0)
        if calls:
            found[definition.name] = min(calls, MOST_CALLS)
    found = {name: calls for name, calls in found.items() if not _has_rival(name, definitions)}
    required = tuple(ToolRequirement(name, calls, derived=True) for name, calls in found.items())
    return ToolNeeds(required, relevant - found.keys())


def _has_rival(name: str, definitions: Sequence[ToolDefinition]) -> bool:
    """Return whether another tool looks up the same subject: then either might do."""
    own = next(each for each in definitions if each.name == name)
    return (_looks_up(own) or name == _WEB_SEARCH) and any(
        each.name != name and _looks_up(each) and _subjects_of(each) & _subjects_of(own)
        for each in definitions
    )


def _looks_up(definition: ToolDefinition) -> bool:
    """Return whether a tool changes nothing, and takes no file or address."""
    special = definition.name in ("calculator", _WEB_SEARCH)
    return not (special or _acts(definition) or {"path", "url"} & _parameters(definition))


def _changes(definition: ToolDefinition) -> bool:
    return has_side_effects(definition) or definition.requires_approval


def _acts(definition: ToolDefinition) -> bool:
    """Return whether a tool may change the world, by its definition or its verb."""
    if _changes(definition) or _verbs_of(definition) & _DOING:
        return True
    name, words = re.split(r"[_\W]+", definition.name.lower()), definition.description.lower().split()
    return len(words) > 1 and words[0] == name[0] and words[0] not in _READING and words[1] in _DETERMINERS


def _ordering(task: str, definition: ToolDefinition) -> tuple[_Sentence, ...]:
    """Return the sentences of a task that plainly orders an act.

    None where there is a doubt. What comes after a colon may be a text, and orders nothing.
    """
    plain = _NO_BLOCK.sub(" ", task.replace(f"`{definition.name}`", definition.name))
    without_paths = _PATH.sub(" ", _URL.sub(" ", plain))
    if _UNSURE.search(without_paths) or _BLOCKED.search(without_paths):
        return ()
    own = _verbs_of(definition)
    words = {_stem(word.lower()) for word in _WORD.findall(without_paths)}
    if not _writes(definition) and words & (_WORKS - _subjects_of(definition) - own):
        return ()
    every = tuple(_sentences(_COLON.split(plain, maxsplit=1)[0]))
    starts = _STARTS | _INTO_FILES | _OPENING | _COURTESY | own
    if any(_first_verb(sentence.text) not in starts for sentence in every):
        return ()
    return tuple(_Sentence(each.text, _orders_of(each), each.is_about) for each in every)


def _orders_of(sentence: _Sentence) -> tuple[str, ...]:
    """Return the clauses that cannot belong to what an earlier one writes."""
    for at, clause in enumerate(sentence.clauses, 1):
        if _first_verb(clause) in _WRITING or set(_INFINITIVE.findall(clause)) & _STARTS:
            return sentence.clauses[:at]
    return sentence.clauses


def stems(text: str) -> frozenset[str]:
    """Return the telling words of a text, without the commonest endings."""
    words = (word.lower() for word in re.findall(r"[^\W\d_]+", text.replace("_", " ")))
    return frozenset(_stem(word) for word in words if len(word) > 2 and word not in _GENERIC | _ASKING)


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _sentences(task: str) -> Iterable[_Sentence]:
    nouns = {found[1].lower() for found in _NOUN.finditer(task)}
    for part in _SENTENCE_END.split(_QUOTED.sub(" ", task)):
        text = part.strip()
        words = _PATH.sub(" ", _URL.sub(" ", _NO_BLOCK.sub(" ", text)))
        if text and not _BLOCKED.search(words) and not (_names(text, nouns) and "?" not in text):
            yield _Sentence(text, tuple(_clauses(text, nouns)), bool(_ABOUT.search(words)))


def _names(text: str, nouns: Set[str]) -> bool:
    """Return whether a text begins with a noun and a name: "order 1003"."""
    first = _WORD.match(text)
    return first is not None and first[0].lower() in nouns and bool(_NAMED.match(text, first.end()))


def _clauses(sentence: str, nouns: Set[str]) -> Iterable[str]:
    """Return the parts of a sentence that each begin with a verb.

    Args:
        nouns: words of the task that are verbs elsewhere.
    """
    begin = 0
    for found in _NEW_CLAUSE.finditer(sentence):
        if found[1] in _STARTS and not _names(sentence[found.end() :], nouns):
            yield sentence[begin : found.start()].strip()
            begin = found.end()
    yield sentence[begin:].strip()


def _first_verb(clause: str) -> str:
    words = [word.lower() for word in _WORD.findall(clause)]
    if words[:2] in (["can", "you"], ["could", "you"], ["will", "you"], ["i", "need"]):
        words = words[2:] if words[0] != "i" else words[1:]
    return next((word for word in words if word not in _POLITE), "")


# --- rules ----------------------------------------------------------------------------------------------


def _calls_in(sentence: _Sentence, definition: ToolDefinition, task: str) -> int:
    """Return how many calls of a tool a sentence requires; 0 for none."""
    named = _is_named(sentence.text, definition.name)
    if sentence.is_about:
        return int(_writes(definition) and bool(_paths_in(sentence, written=True)))
    match definition.name:
        case "calculator":
            is_sum = _LONG_PRODUCT.search(sentence.text) or _PERCENT.search(sentence.text)
            return int(named or bool(is_sum and _TO_WORK_OUT.search(sentence.text)))
        case "web-search":
            recent = _first_verb(sentence.text) in _ASKING | {"write"} and _RECENT.search(sentence.text)
            found = max((_look_ups(clause, definition, task) for clause in sentence.clauses), default=0)
            return found or int(named or bool(recent) or bool(_SEARCH_WEB.search(sentence.text)))
        case "file-search" | "shell":
            return int(named)
    parameters = _parameters(definition)
    if "url" in parameters and len(parameters) == 1:
        read = [each for each in sentence.clauses if _first_verb(each) in _OPENING or _CONTENT_OF.match(each)]
        return len({url for clause in read for url in _URL.findall(clause)}) or int(named)
    if "path" in parameters:
        return _calls_with_paths(sentence, definition, parameters) or int(named)
    if _changes(definition):
        return int(any(_does(clause, definition) for clause in sentence.clauses)) or int(named)
    if _acts(definition):
        done = max((_times_done(clause, definition) for clause in sentence.clauses), default=0)
        is_object = _subjects_of(definition) and any(_does(each, definition) for each in sentence.clauses)
        return done or int(bool(is_object or named))
    return max((_look_ups(clause, definition, task) for clause in sentence.clauses), default=0) or int(named)


def _parameters(definition: ToolDefinition) -> frozenset[str]:
    return frozenset(properties_of(definition.parameters))


def _is_named(text: str, name: str) -> bool:
    """Return whether a sentence asks for a tool by its name, which is no common word."""
    after = r"`?\s+(?:tool|to)\b" if name.isalpha() else r"(?![\w-])"
    asked = rf"\b(?:use|call|run|using|with|via)\s+(?:the\s+)?`?{re.escape(name)}{after}"
    return re.search(asked, text, re.IGNORECASE) is not None


def _calls_with_paths(sentence: _Sentence, definition: ToolDefinition, parameters: frozenset[str]) -> int:
    """Return the calls of a tool for files, by the files that a sentence names."""
    verbs = _verbs_of(definition)
    if {"text", "content", "contents"} & parameters:
        return int(_writes(definition) and bool(_paths_in(sentence, written=True)))
    if {"read", "open", "load", "show"} & verbs and not has_side_effects(definition):
        return len(_paths_in(sentence, written=False))
    own = [clause for clause in sentence.clauses if _first_verb(clause) in verbs]
    paths = {path for clause in own for path in _PATH.findall(clause)}
    return len(paths) or int(any(_FOLDER.search(clause) for clause in own))


def _writes(definition: ToolDefinition) -> bool:
    into_file = "path" in _parameters(definition)
    return into_file and bool({"write", "save", "store", "append", "put"} & _verbs_of(definition))


def _paths_in(sentence: _Sentence, *, written: bool) -> set[str]:
    """Return the files that a sentence asks to write, or to read."""
    paths: set[str] = set()
    verb = ""
    for clause in sentence.clauses:
        text = _URL.sub(" ", clause)
        verb = _first_verb(clause) if _first_verb(clause) in _STARTS else verb
        for found in _PATH.finditer(text):
            into = verb in _INTO_FILES and bool(_INTO.search(text[: found.start()]))
            read = verb in _OUT_OF_FILES or bool(_CONTENT_OF.match(clause))
            if into if written else read and not into:
                paths.add(found[0])
    return paths


def _does(clause: str, definition: ToolDefinition) -> bool:
    """Return whether a clause is an imperative with the verb and the object of a tool."""
    verb, verbs, subjects = _first_verb(clause), _verbs_of(definition), _subjects_of(definition)
    rest = clause[clause.lower().find(verb) + len(verb) :] if verb else ""
    if verb in subjects and verb in _DOING:  # "email Bob the agenda", "order two chairs"
        named = r"\s+(?:[A-Z](?![\w-]*\d)\w*\b(?!')|(?:it|them|this)\s+to\s+[A-Z])"
        return verbs <= _MAKING and bool(re.match(named, rest) or _QUANTITY.match(rest))
    if verb not in verbs or not _PARTICULAR.search(rest):
        return False
    return _is_object(rest, subjects) if subjects else bool(_DETERMINED.match(rest))


def _is_described(verb: str, rest: str, definition: ToolDefinition) -> bool:
    """Return whether a tool's description begins as an order does."""
    described = re.match(r"(\w+)\s+(?:an?|the|one)\s+(\w+)", definition.description.lower())
    ordered = re.match(r"\s+(?:an?|the|one|my|\d+)\s+(\w+)", rest.lower())
    if described is None or ordered is None:
        return False
    return (
        described[1] == verb and _stem(described[2]) == _stem(ordered[1]) and bool(_PARTICULAR.search(rest))
    )


def _is_object(rest: str, subjects: frozenset[str]) -> bool:
    """Return whether a subject follows within three words."""
    near = re.match(r"(?:\s+[\w-]+){1,3}", rest)
    words = near[0].split() if near else []
    return any(_stem(word.lower()) in subjects and "of" not in words[:at] for at, word in enumerate(words))


def _times_done(clause: str, definition: ToolDefinition) -> int:
    """Return how often a clause orders what a tool without side effects is named by.

    "weigh the Kelto", "roll a dice three times".
    """
    verb, subjects = _first_verb(clause), _subjects_of(definition)
    if verb not in _verbs_of(definition) & _DOING:
        return 0
    rest = clause[clause.lower().find(verb) + len(verb) :]
    is_meant = (
        _is_object(rest, subjects)
        if subjects
        else re.match(r"\s+(?:(?:the|one)\s+)?[A-Z]\w*\b(?!')", rest) or _is_described(verb, rest, definition)
    )
    return _often(clause) if is_meant else 0


def _look_ups(clause: str, definition: ToolDefinition, task: str) -> int:
    """Return how many look-ups of a tool's subject a clause asks for."""
    verb = _first_verb(clause)
    if verb == "tell" and _TELLS_OTHERS.search(clause):
        return 0
    subjects = _subjects_of(definition)
    counted = _COUNTED.match(clause)
    if counted and _stem(counted["subject"].lower()) in subjects:
        return len(_split(counted["items"])) if _takes_one(definition) else 1
    places = [each for each in _WORD.finditer(clause) if _stem(each[0].lower()) in subjects]
    if not places:
        return 0
    between = clause[clause.lower().find(verb) + len(verb) : places[0].start()]
    asks = verb in _ASKING and all(word.lower() in _CONNECTING for word in _WORD.findall(between))
    before = clause[: places[0].start()].strip().lower()
    leads = before in ("", "the", "current") or not clause[places[0].end() :].strip(" .?!")
    ends = [place.start() for place in places[1:]] + [len(clause)]
    items = [item for place, end in zip(places, ends, strict=True) for item in _items_at(clause, place, end)]
    if _DISTRIBUTIVE.search(clause[: places[-1].end()]) and not items and asks:
        items = _enumeration_of(task)
    named = list(filter(_PARTICULAR.search, items))
    items = list(dict.fromkeys(named if len(named) > 1 else items))  # "of Rome and Oslo, and the time"
    if not items or not (asks or leads) or _is_given(items, task):
        return 0
    if not asks and "?" not in clause and _STATED.search(clause, places[-1].end()):
        return 0
    is_verb = before == "" and verb in _DOING  # "order 2 chairs", "order 1003 arrives"
    if is_verb and "?" not in clause and not all(map(_PARTICULAR.match, " ".join(items).split())):
        return 0
    if not all(map(_PARTICULAR.search, items)) and verb not in _READING:
        return 0
    return len(items) if _takes_one(definition) else 1


def _often(clause: str) -> int:
    found = _OFTEN.search(clause)
    if found is None:
        return 1
    word = (found[1] or found[2]).lower()
    return _TIMES.get(word) or max(1, int(word) if word.isdecimal() else 1)


# --- the subject of a tool, and the items that it is asked about -----------------------------------------


def _verbs_of(definition: ToolDefinition) -> frozenset[str]:
    """Return the verb that a tool's name begins or ends with."""
    parts = re.split(r"[_\W]+", definition.name.lower())
    verbs = [part for part in (parts[0], parts[-1]) if part in _READING | _DOING]
    return frozenset(verbs[:1])


def _subjects_of(definition: ToolDefinition) -> frozenset[str]:
    """Return the nouns of a tool's name, as stems."""
    if definition.name == _WEB_SEARCH:
        return _CHANGING
    parts = re.split(r"[_\W]+", definition.name.lower())
    verbs = _verbs_of(definition)
    return frozenset(
        _stem(part) for part in parts if part.isalpha() and len(part) > 2 and part not in _GENERIC | verbs
    )


def _takes_one(definition: ToolDefinition) -> bool:
    """Return whether one call is about one thing: neither a list nor a pair."""
    kinds = properties_of(definition.parameters).values()
    plain = [isinstance(each, dict) and each.get("type") in _PLAIN for each in kinds]
    return bool(plain) and all(plain) and not _ABOUT_SEVERAL.search(definition.description)


def _items_at(clause: str, place: re.Match[str], end: int) -> list[str]:
    """Return the items beside a subject: "prices of A, B and C", "A, B and C weather".

    Args:
        end: where the next mention of the subject begins.
    """
    after = re.sub(r"\s+and\s+(?:the\s+)?$", "", clause[place.end() : end].removeprefix("'s"))
    verb_between = re.match(r"\s*(?:records?|numbers?)?\s*,\s*(?P<items>.+)$", after)
    of = _OF.match(after)
    if of:
        return _split(after[of.end() :])
    if verb_between:
        return _split(verb_between["items"])
    plain = re.match(r"\s+(?P<items>[A-Z0-9].*)$", after)
    if plain:
        return _split(plain["items"])
    before = clause[: place.start()].strip().removesuffix("'s")
    if _first_verb(before) in _STARTS | _ASKING:
        return []
    if re.match(r"[A-Z0-9]\S*(?:,|\s+and\s)", before) or re.fullmatch(r"[A-Z]\S*", before):
        return _split(before)
    return []


def _enumeration_of(task: str) -> list[str]:
    """Return the only enumeration of names in a task; nothing where there are several."""
    lists = re.findall(r"[A-Z][\w-]*(?:,\s+[A-Z][\w-]*)*,?\s+and\s+[A-Z][\w-]*", task)
    return _split(lists[0]) if len(lists) == 1 else []


def _split(text: str) -> list[str]:
    text = _AFTER_LAST.sub(r"\1", _ALL_OF.sub("", text.strip(" .?!;:")))
    items = [_TAIL.sub("", item.strip(" .?!;:")) for item in _SEPARATOR.split(text)]
    items = [re.sub(r"^(?:of|the|for|in)\s+", "", item, flags=re.IGNORECASE) for item in items]
    items = [item for item in items if item and item.lower() not in _POLITE]
    return items if items and all(len(item.split()) <= 3 for item in items) else []


def _is_given(items: Sequence[str], task: str) -> bool:
    """Return whether the task itself has figures of an item."""
    names = "|".join(re.escape(item) for item in items)
    return bool(re.search(rf"(?:{names})\b[^.?!;]*?\s\d", task)) and not re.search(r"\bnext\s+\d", task)


# --- Required tools of a task: by the user, by rules, or by the model ---


PURPOSE = "classify-tools"
_INSTRUCTIONS = (
    "Say which of the tools the task cannot be done without, with the least number of successful calls of "
    "each (one for each thing that has to be looked up by itself), and which tools may help besides. Name a "
    "tool as required only if an answer without it would be a guess."
)


@frozen
class RequiredTool:
    """A tool that the task cannot be done without.

    Attributes:
        calls: the least number of successful calls, 1 to 20.
    """

    tool: str
    calls: int = 1


@frozen
class ToolVerdict:
    """A model's judgement of the tools for a task."""

    required: tuple[RequiredTool, ...] = ()
    relevant: tuple[str, ...] = ()


async def find_tool_needs(strategy_input: StrategyInput, services: StrategyServices) -> ToolNeeds:
    """Return the user's required tools, and those by the model or else by rules."""
    given = strategy_input.needs
    mode = strategy_input.config.tool_classifier
    task, definitions = own_words(strategy_input.task_description), definitions_in(services.kernel.tools)
    if mode != "model" and not may_require(task, definitions):
        return given
    method: Literal["model", "rules"] = "rules"
    found = requirements_in(task, definitions)
    if mode == "model":
        answered = await _ask(strategy_input, services, definitions)
        if isinstance(answered, Success):
            method, found = "model", answered.unwrap()
    needs = merge_tool_needs(given, found)
    if method == "rules" and not found.required:
        return given
    services.kernel.publish(ToolNeedsFound, method=method, required=needs.required, relevant=needs.relevant)
    return needs


def merge_tool_needs(given: ToolNeeds, found: ToolNeeds) -> ToolNeeds:
    """Return both together; where both require a tool, the user's number counts."""
    named = {requirement.name for requirement in given.required}
    added = tuple(requirement for requirement in found.required if requirement.name not in named)
    return ToolNeeds(given.required + added, given.relevant | found.relevant)


def needs_of_verdict(verdict: ToolVerdict, definitions: Sequence[ToolDefinition]) -> ToolNeeds:
    """Return the requirements of a model's verdict, without names that are no tools."""
    known = {definition.name for definition in definitions}
    calls: dict[str, int] = {}
    for call in verdict.required:
        if call.tool in known:
            calls[call.tool] = max(calls.get(call.tool, 0), min(max(call.calls, 1), MOST_CALLS))
    required = tuple(ToolRequirement(name, count) for name, count in calls.items())
    return ToolNeeds(required, frozenset(verdict.relevant) & known - calls.keys())


async def _ask(
    strategy_input: StrategyInput, services: StrategyServices, definitions: Sequence[ToolDefinition]
) -> Result[ToolNeeds, StructuredOutputError]:
    tools = [
        {"tool": definition.name, "description": definition.description.partition("\n")[0]}
        for definition in definitions
    ]
    content = f"Task:\n{strategy_input.task_description}\n\nTools:\n{json.dumps(tools, ensure_ascii=False)}"
    question = Question(shape_of(ToolVerdict), _INSTRUCTIONS, content, PURPOSE, max_retries=0)
    answered = await attempt(ask_structured(question, strategy_input, services))
    return answered.map(lambda structured: needs_of_verdict(structured.value, definitions))
