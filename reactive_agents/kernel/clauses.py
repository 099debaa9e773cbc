"""Clauses and words of a text, and the kind of request in a task.

All functions are pure, and their work is linear in the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from attrs import frozen

from reactive_agents.core.content import shows_content
from reactive_agents.core.figures import COUNTED, NUMBER, numerals, plain_numbers, without_list_marks
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.tools import FINAL_ANSWER, ToolDefinition
from reactive_agents.core.values import Value, lazy_pattern
from reactive_agents.kernel.announcements import (
    QUOTATION,
    act_of,
    asked_for,
    asks_about_speaker,
    asks_openly,
    begins_acts,
    composes,
    denies,
    is_of_oneself,
    is_of_reader,
    is_reading,
    needed_in,
    orders,
    says_whether,
    speaks_of_oneself,
    speaks_to_reader,
    subjects_in,
)
from reactive_agents.kernel.call_parsing.argument_schema import properties_of

_CLAUSE_END = lazy_pattern(r"(?<=[.!?;…])\s+|(?<=[。！？；])|(?<=[!?;])(?=[\u3040-\u9fff])|\s[-–—]+\s|;|\n")
BLOCK = lazy_pattern(r"```(?:\w*\n)?(?P<code>.*?)(?:```|\Z)", re.DOTALL)
_CODE_BREAK = lazy_pattern(r"[`;!?…。！？；\s–—]+|[.:-](?=\s)")
_LABELLED = lazy_pattern(r"(?m)^([ \t]*(?:[-*•]|\d{1,2}[.)]) )(\S+(?: \S+){0,3}) [-–—]+ ")
"""A list item with a label and a dash; the label is no separate clause."""
_MARK_ALONE = lazy_pattern(r"\(?\d{1,2}[.)]\Z")
LETTER = lazy_pattern(r"[^\W_]")
WORD = lazy_pattern(r"[^\W_]{4,}")
UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff]+")
"""Words of scripts without spaces."""
_LETTERS = lazy_pattern(r"[^\W_]+")
_STUCK, _MOST_REPEATED, _MOST_STUCK = 80, 2, 4_000
"""Words at the end of a text, how many of them may differ, and the characters that are looked at."""
SHORT_WORD = lazy_pattern(r"[^\W_]{3,}|\d+")
_I = lazy_pattern(r"\bI(?=['’ ])")
_ENGLISH = word_set("english_in_task")
"""Words of which an English task has one."""
FEW_WORDS = 2
UNTELLING = word_set("untelling")
"""Words by which two texts are not alike."""
OPEN_END = lazy_pattern(r"(?:\?|:|？|：|…|\.\.\.)[\s\"'*_)]*\Z")
QUESTION = lazy_pattern(r"[?？][\s\"'*_)]*\Z")
SHORT_ANSWER = lazy_pattern(r"[^\W\d_]+(?=[\s,.!:;–-]|\Z)")
"""The first word of a clause, as "Yes" before a comma."""
REQUEST_MARK = lazy_pattern(r"[?？؟]")
LONGEST_GREETING = 4
_THANKS, _LONGEST_THANKS = word_set("thanks"), 8
AS_OF_NOW = lazy_pattern(expression("as_of_now"), re.IGNORECASE)
"""Words of what changes, and is not known without a look-up."""
MANY_WORDS = 20
"""A text of so many words is hardly ever an announcement, and may be an answer without a look-up."""
_TOTAL = lazy_pattern(expression("total"), re.IGNORECASE)
"""Words of a total of several things."""
_MEAN = lazy_pattern(expression("mean"), re.IGNORECASE)
OR = lazy_pattern(expression("or"), re.IGNORECASE)
TOGETHER = lazy_pattern(rf"\b{alternatives('together_with')}\b[^.!?;]*", re.IGNORECASE)
"""Words before several that one thing may be done for, and the rest of their sentence."""
_AND_WORD = lazy_pattern(rf"(?<![\w-]){alternatives('and')}(?![\w'’-])")
"""Not "e-mail" and "I", which begin with words of other languages."""
_JOINING = frozenset(each for each in word_set("and") | word_set("or") if each.isalpha() and each[1:])
_LEAST_CUT = 8
"""Words of a text that is cut; a shorter one may be about its last word: "In Dutch you say en"."""
_SPARED = lazy_pattern(rf"{expression('spare')}[^,;!?\n]{{0,80}}", re.IGNORECASE)
"""What is to be left as it is, after the words that say so."""
_FIGURE_ASKED = lazy_pattern(expression("figure_asked"), re.IGNORECASE)
"""Requests for a figure. Words such as "together", common in summaries, are not enough."""
_AMOUNT = lazy_pattern(expression("amount"), re.IGNORECASE)
"""Nouns whose answers usually contain a figure."""
_NUMBER_ALONE = lazy_pattern(r"(?<![\w.,-])[-+~#$€£]{0,3}\d+(?:[.,:/]\d+)*", re.ASCII)
_NUMBERED_STEP = lazy_pattern(r"(?:^|(?<=[.!?\n]))\W{0,5}[^\W\d_]{1,20} \d{1,2}\s?(?:[:.)]|[-–—]\s)")
"""A label such as "Step 2 -", whose number is no figure."""
_ONE = word_set("one")
"""Common words that are also figures: they count only in the shortest answers."""
_FEWEST_WORDS = 4
_MANY_FIGURES = 10
_NUMBER_OF_THING = lazy_pattern(r"\d{3}")
_IDENTIFIER = lazy_pattern(r"(?<![\w-])[A-Z]{1,4}-?\d{2,}(?!\w)")
_FILE = lazy_pattern(
    r"(?<![\w@/.:-])[\w-]+(?:/[\w.-]+)*\."
    r"(?:md|rst|txt|log|py|toml|json|ya?ml|csv|tsv|html|pdf|docx?|xlsx?|cfg|ini|xml)\b"
)
ADDRESS = lazy_pattern(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[a-zA-Z.-]{0,60}[a-zA-Z]", re.ASCII)
_PAGE = lazy_pattern(r"https?://[^\s\"'<>()]*\w")
_DATA = lazy_pattern(r"[:：]\s+(?![\w.+-]+@).*")
"""What follows a colon, other than an address."""
_TAKERS = (
    (ADDRESS, re.compile(r"mail|recipient|contact|message|invit|send|\bto\b", re.IGNORECASE)),
    (_FILE, re.compile(r"file|path|document", re.IGNORECASE)),
)
"""Patterns of addresses and files, with words in the names of tools that take them."""
_BY = alternatives("done_by")
"""Words before whom or what something comes from."""
_TELLING = lazy_pattern(expression("tell_text", before=r"\A\W*+(?:\S+ ){0,2}", after=""), re.IGNORECASE)
"""Verbs that request a text, not an action."""
_SHORTEST_ORDER = 7
"""Characters of an order in scripts without spaces; thanks and greetings are shorter."""
_SHORTEST_THING, _LONGEST_THING = 3, 60
"""Characters of a search term that may be matched in an answer."""
_LISTED = lazy_pattern(r"(?m)^[ \t]*(?:[-*•]|\d{1,2}[.)]) \S.*\n[ \t]*(?:[-*•]|\d{1,2}[.)]) \S")
_AND = f"(?:{alternatives('and')}|&)"
"""What stands before the last item of a list."""
_ENUMERATED = lazy_pattern(
    r"[,、，]\s*[^\s,;.!?:、，][^,;.!?:\n、，]{0,40}?"
    rf"(?:\s*[,、，]\s*|,?\s+{_AND}\s+|{alternatives('and_unspaced')})"
    rf"|:\s(?:[\w-]+ ){{1,4}}{_AND}(?: [\w-]+){{1,4}}\s*(?:[.;!?\n]|\Z)"
)
"""An item between two others, or two items after a colon."""
_COMPUTES = lazy_pattern(
    r"calc|comput|math|arithm|conver|evaluat|python|code|shell|(?:\b|_)(?:sum|multipl|divid|subtract"
    r"|add(?![a-z])(?=\W*\Z|[^.]*\b(?:numbers?|integers?|floats?|values?|two|up|[a-z] (?:and|to) [a-z])\b))",
    re.IGNORECASE,
)
"""Words in the name or description of a tool that calculates."""
_ADDS = lazy_pattern(r"(?:\b|_)add(?!ition)[a-z]*", re.IGNORECASE)
"""What a tool does to numbers, or to a cart with what has a name."""
_UNREAD = lazy_pattern(r"[\u0370-\u03ff\u0530-\u10ff\u1100-\u11ff\u1780-\u17ff\uac00-\ud7af]")
"""Letters of Greek, Hebrew, Arabic, Korean and the scripts of India and South-East Asia."""
_PART = lazy_pattern(r"[,:，、：]")
_FIRST = lazy_pattern(r"\W*(?:(?:please|kindly|now|can|could|would|will|you) )*([^\W\d_]+)", re.IGNORECASE)
_CALLING = word_set("to_call")
"""Beginnings of words by which a task says that nothing is to be called."""
TELLS_SOMEBODY = lazy_pattern(rf"\W*{alternatives('tells_somebody')}", re.IGNORECASE)
"""Beginnings of descriptions of tools that tell somebody something: "Tell the customer that …"."""
FOR_RESULT = lazy_pattern(rf"\W*{alternatives('for_result')}", re.IGNORECASE)
"""Verbs of tools whose result is what they are for, or that lead to one."""
_GIVE = "give"
"""The verb of a tool that returns something, or hands it over if its name has the verb: "give_bonus"."""
OTHERWISE = lazy_pattern(expression("otherwise"), re.IGNORECASE)
"""Words that say what to do if something fails."""
CONDITION = lazy_pattern(expression("condition"), re.IGNORECASE)
_KINDS = frozenset({"id", "number", "no", "code"})
_AFTER_NOUN = "and|or|to|for|from|of|in|on|at|first|before|so|as|too|which|that|is|are"
"""Words that may follow the name of a parameter."""
_FAILS = lazy_pattern(expression("fails", after=""), re.IGNORECASE)
"""Beginnings of words of failure."""


@lru_cache(maxsize=8)  # whole answers, which may be of megabytes
def clauses_of(text: str) -> Sequence[str]:
    """Return the clauses with a letter or digit; a code block is one clause."""
    found = tuple(each for each in _CLAUSE_END.split(joined(text).strip()) if LETTER.search(each))
    return tuple(each for each in found if not _MARK_ALONE.match(each)) or found


def last_clause(text: str) -> str:
    """Return the last clause of a text; empty if there is none."""
    clauses = clauses_of(text)
    return clauses[-1] if clauses else ""


def joined(text: str) -> str:
    """Return a text in which each code block and labelled item is one clause."""
    if "```" in text:
        text = BLOCK.sub(lambda block: f"\n`{_CODE_BREAK.sub(' ', block['code']).strip()}`\n", text)
    return _LABELLED.sub(lambda item: f"{item[1]}{item[2]} ", text)


def words_of(text: str) -> set[str]:
    """Return the words in lower case.

    In scripts without spaces, each pair of adjacent characters is a word.
    """
    words = {word for word in WORD.findall(text.lower()) if not word.isdecimal()}
    runs = [] if text.isascii() else UNSPACED.findall(text)
    if not runs:
        return words
    pairs = {run[at : at + 2] for run in runs for at in range(len(run) - 1)}
    return pairs | {word for word in words if not UNSPACED.search(word)}


def telling_words(text: str) -> set[str]:
    """Return the words and numbers of a text, without common words."""
    return set(SHORT_WORD.findall(text.lower())) - UNTELLING


def size_of(text: str) -> int:
    """Return the number of words; without spaces, two characters count as one."""
    words = len(text.split())
    return words if text.isascii() else words + sum(len(run) // 2 for run in UNSPACED.findall(text))


@frozen(eq=False, repr=False)
class ToolWords(Value):
    """The words of a tool.

    Attributes:
        name: the name in lower case, with spaces around its words.
        is_telling: whether the name has two words or more, so that it is not a common word.
        act: the act of its verb.
        subjects: the subjects in its name and description.
        may_act: whether it may be for more than its result.
        may_add: whether that holds only where it takes a text, as what adds to a cart; else it adds numbers.
    """

    name: str
    is_telling: bool
    act: str
    subjects: frozenset[str]
    may_act: bool
    may_add: bool


@lru_cache(maxsize=1024)
def read_tool(name: str, description: str) -> ToolWords:
    """Return the words of a tool, computed once."""
    squeezed_name = squeezed(name)
    subjects = subjects_in(f"{name} {description}".replace("_", " "))
    act = act_of(description)
    hands_over = act == _GIVE and squeezed_name.startswith(f" {_GIVE} ")
    is_for_result = is_reading(act) or act in UNTELLING or FOR_RESULT.match(description) is not None
    only_returns = is_for_result and not hands_over
    described, tells = f"{name} {description}", TELLS_SOMEBODY.match(description) is not None
    computes = _COMPUTES.search(described) is not None
    may_act = tells or not (only_returns or computes)
    may_add = computes and not only_returns and _COMPUTES.search(_ADDS.sub(" ", described)) is None
    return ToolWords(squeezed_name, len(squeezed_name.split()) > 1, act, subjects, may_act, may_add)


def names_one_of(tools: Iterable[ToolWords], text: str, *, telling_only: bool) -> bool:
    """Return whether a text contains the name of one of the tools."""
    in_text = squeezed(text)
    return bool([each for each in tools if each.name in in_text and (each.is_telling or not telling_only)])


def is_stuck(text: str, task: str) -> bool:
    """Return whether a long text ends with hardly any but the same few words.

    Those of a task may be asked for: "Write 'hello' a hundred times".
    """
    if len(text) < _STUCK:
        return False
    words = _LETTERS.findall(text[-_MOST_STUCK:].lower())[-_STUCK:]
    repeated = set(words)
    if len(words) < _STUCK or len(repeated) > _MOST_REPEATED:
        return False
    return not repeated <= set(_LETTERS.findall(task.lower())) - UNTELLING


def is_cut(text: str) -> bool:
    """Return whether a text ends with a word such as "and"."""
    return not _JOINING.isdisjoint(text.rsplit(maxsplit=1)[1:]) and size_of(text) >= _LEAST_CUT


def squeezed(text: str) -> str:
    """Return the words of a text in small letters, each between blanks."""
    return " ".join(("", *_LETTERS.findall(text.lower()), ""))


def beginnings_in(tools: Mapping[str, str]) -> frozenset[str]:
    """Return the beginnings of all words in the tools' names and descriptions."""
    return begins_acts(" ".join(f"{name.replace('_', ' ')} {tools[name]}" for name in tools))


def asks_back(text: str, task: str = "", tools: Iterable[ToolDefinition] | None = None) -> bool:
    """Return whether a text asks for missing information.

    It ends with a question for it, or is short, and a clause of it tells the reader to name what the task
    does not mention. That the speaker needs it counts too, if it is the reader's or a parameter of a tool.

    Args:
        tools: without them, all that the speaker needs counts.
    """
    if QUESTION.search(text) is not None and asks_openly(last_clause(text)):
        return True
    if size_of(text) >= 2 * MANY_WORDS:
        return False
    for clause in clauses_of(QUOTATION.sub(" _ ", text)):
        wish = asked_for(clause)
        if not wish and (needed := needed_in(clause)):
            is_askable = tools is None or is_of_reader(clause) or _names_parameter(clause, tools)
            wish = needed if is_askable else ""
        if not telling_words(wish) <= telling_words(task):
            return True
    return False


def _names_parameter(clause: str, tools: Iterable[ToolDefinition]) -> bool:
    """Return whether a clause is about a parameter, but of nothing in particular.

    "The order number" is one of ``order_id``; "the order status" is none.
    """
    parameters = (properties_of(tool.parameters) for tool in tools if tool.name != FINAL_ANSWER)
    names = {name.lower() for each in parameters for name in each if name[2:]}
    if not names or any(map(str.isdigit, clause)):
        return False
    named = "|".join(map(re.escape, names)).replace("_id", " (?:id|number|code)").replace("_", " ")
    value = rf"(?:(?<!of )(?<!of the )|(?:name|number|id|code) of (?:the )?)\b(?:{named})(?:['’]s name)?"
    return re.search(rf"{value}\W*(?:\Z|(?:{_AFTER_NOUN})\b)", clause, re.IGNORECASE) is not None


def asks_figure(task: str) -> bool:
    """Return whether a task asks for an amount or total."""
    return _asked_for(task)[0]


def mentions_amount(task: str) -> bool:
    """Return whether a task mentions a price or another amount."""
    return _asked_for(task)[1]


def asks_total(text: str) -> bool:
    """Return whether a text asks for or mentions a total."""
    return _TOTAL.search(text) is not None


def asks_mean(text: str) -> bool:
    """Return whether a text asks for or mentions a mean."""
    return _MEAN.search(text) is not None


def spared_in(task: str) -> str:
    """Return what a task says to leave as it is: "Delete a.log, but keep b.log"."""
    return " ".join(each[0] for each in _SPARED.finditer(task)).casefold()


@lru_cache(maxsize=8)
def _asked_for(task: str) -> tuple[bool, bool]:
    """Return whether a task asks for a figure, and whether it mentions an amount."""
    return _FIGURE_ASKED.search(task) is not None, _AMOUNT.search(task) is not None


def lacks_figure(text: str, task: str) -> bool:
    """Return whether a task asks for a figure or total, and a text adds none.

    Identifiers in a text, and figures from the task, do not count. A text that denies something needs no
    figure.
    """
    asks, is_of_amount = _asked_for(task)
    if not asks and (not is_of_amount or len(text.split()) >= MANY_WORDS):
        return False
    if shows_content(task) or denies(text) or any(numerals(text)) or (not asks and says_whether(text)):
        return False
    words = text.lower().strip(" .!*").split()
    if len(words) <= _FEWEST_WORDS and not _ONE.isdisjoint(words):
        return False
    figures = _NUMBER_ALONE.findall(plain_numbers(without_list_marks(_NUMBERED_STEP.sub(" ", text))))
    if figures and not asks and not (REQUEST_MARK.search(task) or is_reading(act_of(task))):
        return False  # "Set the price to 4.20" gives the figure
    given = {found[0] for found in COUNTED.finditer(task)}
    if len(given) > _MANY_FIGURES:
        return not figures  # it may be one of the data in the task
    return all(each.lstrip("-+~#$€£") in given for each in figures)


def lists_things(text: str) -> bool:
    """Return whether a text has a list, on separate lines or within one."""
    return _LISTED.search(text) is not None or _ENUMERATED.search(text) is not None


def claimed_in(text: str, task: str, tools: Iterable[ToolDefinition]) -> tuple[str, ...]:
    """Return the addresses and files of an order that a short text mentions.

    Only those that one of the tools can take. Empty if the text denies something, or if the task is a
    question or asks for a text.
    """
    if REQUEST_MARK.search(task) or composes(task) or size_of(text) >= 2 * MANY_WORDS or denies(text):
        return ()
    ordered = _DATA.sub(" ", QUOTATION.sub(" ", task))
    named = [
        found
        for pattern, words in _TAKERS
        for found in pattern.findall(text)
        if found in pattern.findall(ordered) and any(words.search(_described(tool)) for tool in tools)
        if not re.search(rf"\b{_BY} {re.escape(found)}", task)
    ]
    spared = spared_in(task)
    return tuple(dict.fromkeys(each for each in named if each.casefold() not in spared))


def takes_named(tool: ToolDefinition, task: str) -> bool:
    """Return whether a task names an address or file, and a tool can take it."""
    return any(each.search(task) and words.search(_described(tool)) for each, words in _TAKERS)


def looked_up_by(task: str, tools: Iterable[ToolDefinition]) -> tuple[str, ...]:
    """Return the identifiers in a question by which a tool looks something up.

    "4711" of "Where is order 4711?" is one for a tool with ``order_id``. What the speaker can do may be
    answered without.
    """
    if not _NUMBER_OF_THING.search(task) or not REQUEST_MARK.search(task):
        return ()
    if not asks_openly(task) or speaks_of_oneself(task):
        return ()
    found: dict[str, None] = {}
    for tool in tools:
        for name in () if may_act(tool) else properties_of(tool.parameters):
            noun, _, kind = name.lower().rpartition("_")
            named = rf"\b{re.escape(noun)} (?:\w+ )?#?([A-Z]{{0,4}}-?\d{{3,}})\b"
            if noun and kind in _KINDS:
                found |= dict.fromkeys(re.findall(named, task, re.IGNORECASE))
    return tuple(found)


def _described(tool: ToolDefinition) -> str:
    names = " ".join(properties_of(tool.parameters))
    return f"{tool.name} {tool.description} {names}".replace("_", " ").replace("-", " ")


def names(text: str, thing: str, *, plural: bool = False) -> bool:
    """Return whether a text mentions a search term, or also its plural.

    One of two letters is the name "Bo" or "GE" in this spelling only.
    """
    is_short = len(thing) < _SHORTEST_THING and thing.isascii()
    if not FEW_WORDS <= len(thing) <= _LONGEST_THING or (is_short and not thing[0].isupper()):
        return False
    mention = _mention_of(thing, "(?:e?[sn])?" if plural and not is_short else "")
    return re.search(mention, text, 0 if is_short else re.IGNORECASE) is not None


def place_of(text: str, thing: str) -> int | None:
    """Return where a text mentions a search term first."""
    found = re.search(_mention_of(thing), text, re.IGNORECASE) if names(text, thing) else None
    return found and found.start()


def without(text: str, thing: str) -> str:
    """Return a text without the mentions of a search term."""
    return re.sub(_mention_of(thing), " ", text, flags=re.IGNORECASE)


def _mention_of(thing: str, ending: str = "") -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(thing)}{ending}(?![A-Za-z0-9])"


@lru_cache(maxsize=8)
def names_particulars(task: str) -> bool:
    """Return whether a task is about particular things that a model cannot know.

    It names a file, an address or an identifier, lists several things, or asks for a total without giving the
    figures. This depends only on its form, in any language, not on the descriptions of the tools.
    """
    plain = QUOTATION.sub(" ", task)
    if _IDENTIFIER.search(plain) or any(each.search(plain) for each in (_FILE, ADDRESS, _PAGE)):
        return True
    if lists_things(plain):
        return True
    given = [*NUMBER.findall(plain), *numerals(plain)]
    if len(given) > 1 or not asks_total(plain):
        return False
    return any(_asked_for(plain))


def is_of_now(task: str) -> bool:
    """Return whether a task is about how something is now, or about one's own things."""
    return AS_OF_NOW.search(task) is not None or is_of_oneself(task)


def is_beside_tools(task: str, tools: Mapping[str, str]) -> bool:
    """Return whether an English task clearly has nothing to do with the tools."""
    if names_particulars(task):
        return False
    if asks_about_speaker(task) and len(task.split()) <= LONGEST_GREETING + 1:
        return True
    if not is_english(task):
        return False
    if NUMBER.search(task) and any(_COMPUTES.search(f"{name} {tools[name]}") for name in tools):
        return False
    if _AMOUNT.search(task) and any(
        _AMOUNT.search(f"{name} {tools[name]}".replace("_", " ")) for name in tools
    ):
        return False
    plain = QUOTATION.sub(" ", task)
    asked, words = subjects_in(plain), set(re.findall(r"\w+", plain.lower()))
    if any(nouns <= words for nouns in map(_nouns_in, tools) if nouns):
        return False
    return not any(read_tool(name, text).subjects & asked for name, text in tools.items())


@lru_cache(maxsize=1024)
def _nouns_in(name: str) -> frozenset[str]:
    """Return the words of a tool's name, without verbs of looking something up."""
    words = name.lower().replace("-", "_").split("_")
    return frozenset(each for each in words if each[2:] and not is_reading(act_of(each)))


def is_english(task: str) -> bool:
    """Return whether a task has a common English word, or hardly any words."""
    words = re.findall(r"[\w']+", task.lower())
    if len(words) <= FEW_WORDS and (len(task) < _SHORTEST_ORDER or not UNSPACED.search(task)):
        return True
    return not _ENGLISH.isdisjoint(words) or _I.search(task) is not None


def may_be_order(task: str, tools: Mapping[str, str]) -> bool:
    """Return whether a task that is not in English may order an action of a tool.

    It is no question and requests no text, and one of the tools does more than look something up or
    calculate.
    """
    if len(task) < _SHORTEST_ORDER or REQUEST_MARK.search(task) or QUOTATION.search(task):
        return False
    if is_english(task) or asks_for_text(task):
        return False
    return not all(
        is_reading(act_of(text)) or _COMPUTES.search(f"{each} {text}") for each, text in tools.items()
    )


def has_thanks(task: str) -> bool:
    """Return whether a short task without digits or a question thanks."""
    if REQUEST_MARK.search(task) or any(map(str.isdigit, task)):
        return False
    words = set(re.findall(r"\w+", task.lower()))
    return len(words) <= _LONGEST_THANKS and not _THANKS.isdisjoint(words)


def asks_for_text(task: str) -> bool:
    """Return whether a task begins with a verb that requests a text."""
    return bool(composes(task)) or _TELLING.search(task) is not None


def asks_to_know(task: str) -> bool:
    """Return whether a task asks a question, or begins with a verb of looking up.

    "Tell me what you will do" asks for no look-up.
    """
    if REQUEST_MARK.search(task):
        return True
    act = act_of(task)
    return not speaks_to_reader(task) and (asks_for_text(task) or (bool(act) and is_reading(act)))


def is_unread(text: str) -> bool:
    """Return whether a text has a script without word lists for any language."""
    return not text.isascii() and _UNREAD.search(text) is not None


def is_open_for(task: str, unused: Mapping[str, str], used: Mapping[str, str]) -> bool:
    """Return whether a task calls for a tool that was not used.

    The task shares a subject with the tool that no used tool has. If the task is only a question, a tool that
    does more than look something up must also be named by its verb.

    Args:
        unused, used: descriptions of the tools by their names.
    """
    if is_ordered(task, unused, used):
        return True
    had = frozenset[str]().union(*(read_tool(name, text).subjects for name, text in used.items()))
    asked, acts = subjects_in(task) - had, begins_acts(task)
    is_question = REQUEST_MARK.search(task) is not None
    for name, text in unused.items():
        tool = read_tool(name, text)
        shared, reads = tool.subjects & asked, is_reading(tool.act)
        if reads:  # "add it to my list" asks for no list
            shared = frozenset(each for each in shared if not tool.act or not each.startswith(tool.act))
        if shared and (not is_question or reads or tool.act in acts):
            return True
    return False


def only_asks(task: str, name: str, description: str) -> bool:
    """Return whether a task only asks and forbids, without the verb of a tool.

    A denial about the speaker or reader forbids nothing: "I can't log in. What can you do?"
    """
    clauses = clauses_of(task)
    asks = any(map(QUESTION.search, clauses))
    forbidden = [each for each in clauses if _forbids(each) and not QUESTION.search(each)]
    if not asks or not forbidden:
        return False
    wanted = " ".join(each for each in clauses if each not in forbidden)
    return begins_acts(wanted).isdisjoint({act_of(name.replace("_", " ")), act_of(description)})


def is_wanted(tool: ToolDefinition, task: str, acted: Iterable[ToolDefinition] = ()) -> bool:
    """Return whether a task may order what a tool does, other than a look-up.

    Args:
        acted: other tools that have acted; what they are about orders nothing else.
    """
    if not may_act(tool):
        return False
    if is_named_in(tool, task):
        return True
    about, is_read = read_tool(tool.name, tool.description).subjects & subjects_in(task), is_english(task)
    for each in acted:
        about -= read_tool(each.name, each.description).subjects
        is_read = is_read or is_named_in(each, task)
    return (bool(about) or not is_read) and REQUEST_MARK.search(task) is None


def may_act(tool: ToolDefinition) -> bool:
    """Return whether a tool may be for more than its result, by its description."""
    known = read_tool(tool.name, tool.description)
    if known.may_act or not known.may_add:
        return known.may_act
    kinds = properties_of(tool.parameters).values()
    return any(isinstance(each, dict) and each.get("type") == "string" for each in kinds)


def is_named_in(tool: ToolDefinition, task: str) -> bool:
    """Return whether a task has the verb of a tool's description."""
    return act_of(tool.description) in begins_acts(task)


def foresees_failure(task: str) -> bool:
    """Return whether a task says what to do on failure: "If it is gone, say so"."""
    return any(
        OTHERWISE.search(each) or (CONDITION.search(each) and (denies(each) or _FAILS.search(each)))
        for each in clauses_of(task)
    )


def leaves_choice(task: str) -> bool:
    """Return whether a task leaves several to choose from: "Book Roma or Napoli".

    Not in "Pay R-17 and R-18, or say why not".
    """
    return any(
        OR.search(each) and not (CONDITION.search(each) or _AND_WORD.search(each))
        for each in clauses_of(task)
    )


def forbidden_in(task: str) -> str:
    """Return what a task says not to do: "Show a call, but make none"."""
    parts = (part for each in clauses_of(task) if not QUESTION.search(each) for part in _PART.split(each))
    return " ".join(filter(_forbids, parts))


def _forbids(text: str) -> bool:
    """Return whether a text denies something, but nothing of the speaker or reader."""
    return denies(text) and not (speaks_of_oneself(text) or speaks_to_reader(text))


def only_limits(forbidden: str, act: str) -> bool:
    """Return whether what is forbidden is no call and no act: "no more than 3"."""
    return begins_acts(forbidden).isdisjoint(_CALLING | {act})


def begins_with(task: str, act: str) -> bool:
    """Return whether the first verb of an order is that of a tool."""
    first = _FIRST.match(task)
    return first is not None and act_of(first[1]) == act


def is_ordered(task: str, unused: Mapping[str, str], used: Mapping[str, str]) -> bool:
    """Return whether a task orders an unused tool's action, and no tool has acted."""
    if not all(is_reading(act_of(text)) for text in used.values()):
        return False
    acts = {act_of(text) for text in unused.values()}
    return any(orders(task, act) for act in acts if not is_reading(act))
