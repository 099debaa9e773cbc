"""Whether a text is an answer, by its structure and what the run has seen.

Models that slip announce a call and do not make it, offer to make it, or answer with figures that they have
not looked up. Lists of such sentences would be endless, and useless in other languages. An answer differs
from an announcement in that it ends with something that was found; a figure that was found differs from an
invented one in that it stands in a result or in the task, or can be worked out from those.

All functions are pure and total. What they cannot judge counts in the model's favour, and whatever more was
seen never makes a figure unsupported. Their work is linear in the length of the texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.content import shows_content
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.core.values import Value, computed, lazy_pattern
from reactive_agents.kernel.announcements import (
    QUOTATION,
    Clause,
    Sign,
    act_of,
    asks_about_speaker,
    asks_advice,
    asks_openly,
    begins_acts,
    begins_words,
    composes,
    denies,
    is_courtesy,
    is_offer,
    is_reading,
    is_unavailable,
    orders,
    read_clause,
    refuses,
    says_whether,
    sign_of,
    speaks_for_others,
    speaks_of_oneself,
    speaks_to_reader,
    subjects_in,
)
from reactive_agents.kernel.call_parsing.spelled_calls import SpelledCall

Judgement: TypeAlias = Literal["answer", "announcement", "unclear"]

_FIGURE = lazy_pattern(r"(?<![\w.,-])[#$€£]?(?P<text>[A-Za-z]{0,4}-?\d[\w.,:/-]*)", re.ASCII)
_NUMBER = lazy_pattern(r"\d+(?:[.,]\d+)*", re.ASCII)
_COUNTED = lazy_pattern(r"(?<![A-Za-z]-)(?<!\d)\d+(?:[.,]\d+)*", re.ASCII)
"""A number that can be reckoned with, which that of an identifier cannot."""
_LONG_NAME, _COMMON_DIGITS = 5, 2
_LATIN = lazy_pattern(r"[A-Za-z]")
_QUANTITY = lazy_pattern(r"\d[\d.,]*[a-zA-Z]{0,3}", re.ASCII)
_LIST_MARK = lazy_pattern(r"(?m)^[ \t]*(?:[-*][ \t]*)?\(?\d{1,2}[.)]\s+", re.ASCII)
_SENTENCE_END = lazy_pattern(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")
_CLAUSE_END = lazy_pattern(r"(?<=[.!?;…])\s+|(?<=[。！？；])|(?<=[!?;])(?=[\u3040-\u9fff])|\s[-–—]+\s|;|\n")
_BLOCK = lazy_pattern(r"```(?:\w*\n)?(?P<code>.*?)(?:```|\Z)", re.DOTALL)
_CODE_BREAK = lazy_pattern(r"[`;!?…。！？；\s–—]+|[.:-](?=\s)")
_LABELLED = lazy_pattern(r"(?m)^([ \t]*(?:[-*•]|\d{1,2}[.)]) )(\S+(?: \S+){0,3}) [-–—]+ ")
"""A part of a list with a dash after what it is about, which is no clause of its own."""
_MARK_ALONE = lazy_pattern(r"\(?\d{1,2}[.)]\Z")
_LETTER = lazy_pattern(r"[^\W_]")
_WORD = lazy_pattern(r"[^\W_]{4,}")
_UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff]+")
_SHORT_WORD = lazy_pattern(r"[^\W_]{3,}|\d+")
_UNTELLING_WORDS = """
the and for are was has had have this that these those with from into what which who how why when where you
your our its his her their them they tell give find look make call use get need needs please about all any can
will would should could may not out one now then next first
"""
_ENGLISH_WORDS = """
the is are what how who when where why does did of an that with and for about to me my it
can you please help write tell give show make your we this explain there have has
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_FEW_WORDS = 2
_UNTELLING = frozenset(_UNTELLING_WORDS.split())
_MORE_UNTELLING = "been being also just only very more some here there after before over such"
_COMMON_BEGINNINGS = frozenset(word[:4] for word in (*_UNTELLING, *_MORE_UNTELLING.split()))
"""Words that a text and a task have in common by chance."""
_OPEN_END = lazy_pattern(r"(?:\?|:|？|：|…|\.\.\.)[\s\"'*_)]*\Z")
_QUESTION = lazy_pattern(r"[?？][\s\"'*_)]*\Z")
_COLON = lazy_pattern(r"(?:[:：…]|\.\.\.)[\s\"'*_)]*\Z")
_NAME = lazy_pattern(r"(?<=[\w,;:(] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin the clause."""
_REQUEST_MARK = lazy_pattern(r"[?？؟]")
_REQUEST = lazy_pattern(r"[?？؟\d]")
_LONGEST_GREETING = 4
_GIVEN_TEXT = lazy_pattern(rf"{QUOTATION.pattern}|[:：]\s*\S.{{5,}}\Z", re.DOTALL)
"""A text in a task that something is to be done with."""
_LEAST_SHARE = 3
_LEAST_FINDINGS = 2
_MOST_CLAUSES = 20
"""Clauses of a text that are looked at for evidence, the last ones."""
_CHEER = lazy_pattern(r"\A(?:\S+ ){0,2}\S+!\Z")
"""A remark such as "Keep going!"."""
_LINES = 2
"""Ends of lines in a text that is more than a remark."""
_MARKS = " \n\"'“”„«»「」:："
_SOME_WORDS, MANY_WORDS = 12, 20
"""Words that announcements seldom have, and nearly never; of so many an answer stands without a look-up."""
_LONGEST_ACKNOWLEDGEMENT = 3
_NUMERALS = {
    word: str(value)
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "zéro une deux trois quatre cinq six sept huit neuf dix onze douze",
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez - doce",
    )
    for value, word in enumerate(words.split())
    if value != 1 and word != "-"
} | {"dozen": "12", "dutzend": "12", "douzaine": "12", "docena": "12"}
_CALL_SIGNS = lazy_pattern(
    r"<(?:tool_call|function[=_ ]|tool_code|invoke)|\[TOOL_CALLS\]|<\|tool|^[ \t]*Action(?: Input)?[ \t]*:"
    r"|\{\s*[\"'](?P<key>name|tool|tool_name|function|action)[\"']\s*:\s*[\"'](?P<name>[\w.-]+)",
    re.IGNORECASE | re.MULTILINE,
)
_ARGUMENTS = lazy_pattern(r"[\"'](?:arguments|args|parameters|params|input|kwargs)[\"']", re.IGNORECASE)
_TOTAL = lazy_pattern(
    r"\b(?:total|totals|sum|altogether|together|combined|overall|in all|insgesamt|zusammen|gesamt\w*|summe|"
    r"ensemble|somme|suma|juntos|juntas|totale|somma|insieme|soma|samen|totaal|razem|łącznie|итого|всего|"
    r"вместе|сумма|toplam)\b|合计|总共|一共|合計|全部",
    re.IGNORECASE,
)
_FIGURE_ASKED = lazy_pattern(
    r"\b(?:totals?|sum of|in all(?=[?.!,;]|\Z)|insgesamt|summe|somme|suma de|totale|somma|soma|totaal|"
    r"toplam|итого|сумма|"
    r"how (?:many|much|high|long|far|old|tall|deep|heavy|large|big|fast|hot|cold|warm)|"
    r"wie ?viele?|wie (?:hoch|lange?|weit|groß|schwer)|combien|cu[aá]nt[oa]s?|quant[oaie]s?|"
    r"hoeveel|hoe (?:hoog|lang|ver)|ile|сколько|kaç)\b|多少|几个|いくつ|いくら|何個|合计|总共|一共|合計",
    re.IGNORECASE,
)
"""Asking for a figure. Words such as "together", also of a summary, ask for none by themselves."""
_AMOUNT = lazy_pattern(
    r"\b(?:amount|price|costs?|value|betrag|preis|kosten|wert|montant|prix|coût|valeur|importe|precio|cost[eo]|"
    r"valor|importo|prezzo|preço|custo|bedrag|prijs|waarde)\b",
    re.IGNORECASE,
)
"""Nouns that a figure belongs to, in most answers about them."""
_NUMBER_ALONE = lazy_pattern(r"(?<![\w.,-])[-+~#$€£]{0,3}\d+(?:[.,:/]\d+)*", re.ASCII)
_NUMBER_OF_ENTRY = lazy_pattern(r"(?:#|\bid\W{0,4})\d+")
"""By which a tool names what it stored: "#14"."""
_NUMBERED_STEP = lazy_pattern(r"(?:^|(?<=[.!?\n]))\W{0,5}[^\W\d_]{1,20} \d{1,2}\s?(?:[:.)]|[-–—]\s)")
"""A label such as "Step 2 -", whose number is no figure."""
_NUMBERED = lazy_pattern(r"(?<!\S)\(?[1-9][.)]\s")
"""A number before a part of a list, within a line too."""
_ONE_WORDS = "one once both half none eins ein eine un une uno una um uma één jeden один bir"
_ONE = frozenset(_ONE_WORDS.split())
"""Figures in words that are common for other reasons: they count in the shortest answers alone."""
_FEWEST_WORDS = 4
_IDENTIFIER = lazy_pattern(r"(?<![\w-])[A-Z]{1,4}-?\d{2,}(?!\w)")
_FILE = lazy_pattern(
    r"(?<![\w@/.:-])[\w-]+(?:/[\w.-]+)*\."
    r"(?:md|rst|txt|log|py|toml|json|ya?ml|csv|tsv|html|pdf|docx?|xlsx?|cfg|ini|xml)\b"
)
_LISTED = lazy_pattern(r"(?m)^[ \t]*(?:[-*•]|\d{1,2}[.)]) \S.*\n[ \t]*(?:[-*•]|\d{1,2}[.)]) \S")
_ENUMERATED = lazy_pattern(
    r"[,、，]\s*[^\s,;.!?:、，][^,;.!?:\n、，]{0,40}?(?:\s*[,、，]\s*|,?\s+(?:and|und|et|y|e|en|i|ve|и|&)\s+|[和及と])"
    r"|:\s(?:[\w-]+ ){1,4}(?:and|und|et|y|e|en|i|ve|и|&)(?: [\w-]+){1,4}\s*(?:[.;!?\n]|\Z)"
)
"""An item between two others, or all of two after a colon."""
_PRECISE = lazy_pattern(r"\d+[.,]\d\d(?!\d)|[A-Za-z]{1,4}-?\d{3,}", re.ASCII)
"""Amounts of money and identifiers, which are seldom known without a look-up."""
_PARTIAL = lazy_pattern(r"[%/:]\s*\d|\d\s*[%/:]|percent|prozent")
"""Shares, rates and times, of which a total is no plain sum."""
_PASSING = lazy_pattern(
    r"\b(?:again|later|moment|busy|retry|temporar\w*|time[d -]?out|rate.?limit\w*|429|50\d)\b", re.IGNORECASE
)
"""In errors that another try may not meet."""
_ROUNDED = lazy_pattern(r"(?:(?:[.,]?0){2,}|(?<=\d\d)0)\Z")
_ROUNDING = 0.01
"""The largest share by which "about 7,300" may differ from the figure that it stands for."""
_MOST_SUMMED = 10
_CENT = 0.005
_COMPUTES = lazy_pattern(
    r"calc|comput|math|arithm|conver|evaluat|python|code|shell|(?:\b|_)(?:add|sum|multipl|divid|subtract)",
    re.IGNORECASE,
)
"""In the name or description of a tool that works something out."""
_NO_LETTERS = lazy_pattern(r"[\W_]+")
_DIGITS = frozenset("0123456789")
_POINTS = frozenset(".,")
_WORD_MARKS = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WORD_MARKS_OR_POINT = _WORD_MARKS | {"."}
_TAG = lazy_pattern(r"</?[\w|]{1,20}>")
_LONGEST_LABEL = 3
"""Words before a delivered call: "Step 2:", "I call"."""
_SMALL = 10
"""Whole numbers below this are counts that need no source: parts, steps, choices."""
_SHORT_RESULTS = 200
"""Characters of all results up to which even a small number of theirs is evidence."""
_MOST_FIGURES = 50
"""Figures of an answer that are judged, the first ones."""
_MOST_NUMBERS = 40
"""Distinct numbers seen up to which it is judged what follows from them; from more, anything can."""
_LONGEST_STRIDE = 8
_LONGEST_NUMBER = 300
_MILLION = 1e6
_UNITS = (7.0, 12.0, 24.0, 60.0, 100.0, 1000.0)
"""Factors between common units, which need no look-up."""


@frozen(slots=False, eq=False, repr=False)
class Seen(Value):
    """Everything that a run has been shown.

    Attributes:
        task: the task.
        results: the full texts of the tool results that worked.
        told: recalled notes, instructions and earlier findings.
        given: the arguments of the calls that worked.
    """

    task: str
    results: tuple[str, ...] = ()
    told: str = ""
    given: str = ""

    @computed
    def found(self) -> str:
        """The results as one text, made once for all checks."""
        return "\n".join(self.results)

    @computed
    def found_words(self) -> set[str]:
        """The words of the results."""
        return _words(self.found)

    @computed
    def found_beginnings(self) -> frozenset[str]:
        """The beginnings of the words of the results that the task does not have."""
        return begins_words(self.found) - begins_words(self.task)

    @computed
    def reckoned(self) -> _Known:
        """The numbers of the results, and what can be worked out from them."""
        return _Known(self.found, self.results)

    @computed
    def background(self) -> Background:
        """The task, and what was told besides."""
        return Background(f"{self.task}\n{self.told}")


@frozen(slots=False, eq=False, repr=False)
class Background(Value):
    """A text known before the results, which is no evidence."""

    text: str

    @computed
    def words(self) -> set[str]:
        """Its words, and those that tell nothing."""
        return _words(self.text) | _UNTELLING


def unsupported_figures(answer: str, seen: Seen) -> tuple[str, ...]:
    """Return the figures of an answer that nothing seen supports, each once.

    A figure is a number or an identifier with digits. It is supported when it stands in the task or in a
    result, or follows from numbers there: by a count, a sum, a mean, or one or two of the four operations.
    Where the task asks for a total of few whole numbers, only sums and one operation count: from a few small
    numbers two operations lead nearly everywhere. Where an image, sound or document was shown, any figure may
    come from it. A question claims nothing.
    """
    shown = "\n".join((seen.task, seen.told, seen.given, seen.found))
    is_written = "```" in answer and composes(seen.task)  # code that was to be written
    said = _BLOCK.sub("\n", answer) if is_written else answer
    told = "\n".join(each for each in _clauses(said) if not _QUESTION.search(each)) or said
    figures = islice(dict.fromkeys(_figures(told)), _MOST_FIGURES)
    unknown = [figure for figure in figures if not (_occurs(figure, shown) or _is_within(figure, shown))]
    if not unknown or shows_content(shown):
        return ()
    if _asks_for_total(seen):
        known: _Known = _Totals("\n".join((seen.task, *seen.results)), seen.results)
    else:
        known = _Known(shown, seen.results)
    rest = [figure for figure in unknown if not known.supports(figure)]
    found = seen.found
    if len(rest) < len(unknown) or any(_occurs(each, found) for each in _figures(told)):
        rest = rest if asks_figure(seen.task) else [each for each in rest if not _is_common(each)]
    if not rest:
        return ()
    return _not_summed(rest, list(islice(_numbers_and_names(told), _MOST_FIGURES)), known)


def _not_summed(unknown: Sequence[str], figures: Sequence[str], known: _Known) -> tuple[str, ...]:
    """Return the figures that do not follow from other ones of the same answer.

    They may be a sum of supported ones, as the last row of a table is, or so many times a known number.
    """
    read = [
        _read(each[0]) for figure in figures if figure not in unknown and (each := _NUMBER.search(figure))
    ]
    summed = [each for each in read if each >= _SMALL]
    sums = _sums_of_some(summed) if len(summed) <= _MOST_SUMMED else _column_sums(summed)
    counts = {each for each in read if each < _SMALL and each.is_integer()}
    reached = sorted({*sums, *(count * number for count in counts for number in known.numbers)})
    return tuple(
        figure
        for figure in unknown
        if _NUMBER.fullmatch(figure) is None
        or not _has_between(reached, _read(figure) - _CENT, _read(figure) + _CENT)
    )


def ends_with_evidence(text: str, seen: Seen) -> bool:
    """Return whether the last clause of a text states something found in a result.

    That is a figure which the results support and the task does not have, or words of the results, at least
    half of those that the clause adds to the task. Small numbers count beside short results only: in long
    ones any of them can be found.
    """
    return _has_evidence(text, seen, seen.background)


def _has_evidence(text: str, seen: Seen, background: Background) -> bool:
    if not seen.results or _OPEN_END.search(text):
        return False
    clause, results = _last_clause(text), seen.found
    said, is_long = _read_evidence(clause), len(results) > _SHORT_RESULTS
    judged = islice((each for each in said.figures if not (is_long and _is_small(each))), _MOST_FIGURES)
    figures = [each for each in judged if not _occurs(each, background.text)]
    names = [each for each in said.names if not _occurs(each, background.text)]
    if any(_occurs(each, results) for each in (*figures, *names)):
        return True
    if any(_has_word(name[:3], results) for name in names):
        return True  # "Friday" where the result has "Fri"
    figures = [each for each in figures if not _is_small(each)]
    if figures and any(map(seen.reckoned.supports, figures)):
        return True
    if said.numerals:
        items = {str(count) for result in seen.results for count in _items_in(result)}
        if not said.numerals.isdisjoint(items):
            return True
    if said.words.isdisjoint(seen.found_words):
        return False
    added = said.words - background.words
    return 2 * len(added & seen.found_words) >= max(1, len(added))


@frozen(eq=False, repr=False)
class _Evidence(Value):
    """The parts of a clause that may be evidence."""

    figures: tuple[str, ...]
    numerals: frozenset[str]
    names: tuple[str, ...]
    words: frozenset[str]


@lru_cache(maxsize=64)
def _read_evidence(clause: str) -> _Evidence:
    """Return what may be evidence in a clause, which is looked at once."""
    return _Evidence(
        tuple(_numbers_and_names(clause)),
        frozenset(_numerals(clause)),
        tuple(_NAME.findall(clause)),
        frozenset(_words(clause)),
    )


def announces(text: str, seen: Seen) -> bool:
    """Return whether a text ends with what comes next, and states nothing found."""
    results = seen.found
    return _sign(_clauses(text), seen, results) == "plain" and not any(
        _adds(each, seen) for each in _clauses(text)
    )


def works_out(text: str, seen: Seen) -> bool:
    """Return whether a text ends with a figure that follows from the task."""
    return _works_out(_last_clause(text), seen)


def explains(text: str, task: str, errors: Sequence[str]) -> bool:
    """Return whether a text says why the tools failed, and claims nothing else.

    Its figures all occur in the errors or the task. It shares words of the errors that the task does not
    have: half of what its last clause adds to the task, or, where it denies something, any.
    """
    shown = "\n".join((task, *errors))
    if not all(_occurs(figure, shown) for figure in _numbers_and_names(text)):
        return False
    told = _words("\n".join(errors)) - _words(task)
    added = _words(_last_clause(text)) - _words(task)
    if read_clause(text).denies and told & _words(text):
        return True
    return bool(added) and 2 * len(added & told) >= len(added)


def tells_failure(text: str, error: str, *, is_repeated: bool = False) -> bool:
    """Return whether a text says what a tool said of its failure.

    A clause of it denies something, and has a word of the error, or it begins with a no where the error
    denies something, too. What may pass, such as a timeout, is no reason to end.

    Args:
        is_repeated: whether the tool failed the time before too, so that it has not passed.
    """
    _, _, detail = error.rpartition("): ")
    if _PASSING.search(detail) and not is_repeated:
        return False
    told = begins_words(detail)
    clauses = _clauses(text)
    if clauses and says_whether(clauses[0]) and denies(clauses[0]) and denies(detail):
        return True
    return any(read_clause(each).denies and told & begins_words(each) for each in clauses)


def denies_in_part(text: str) -> bool:
    """Return whether a clause of a text has a negation."""
    return any(read_clause(each).denies for each in _clauses(text))


def is_refusal(text: str, seen: Seen) -> bool:
    """Return whether a text says only that the task cannot be done.

    Each clause of more than two words denies something, and one of them is about the speaker's ability, or
    says that something is not available. It has no evidence, and no figure besides those of the task.
    """
    said = [read_clause(each) for each in _clauses(text) if len(each.split()) > 2]
    clauses = [each for each in said if not is_courtesy(each)]
    if not all(each.denies for each in clauses) or asks_about_speaker(seen.task):
        return False
    known = "\n".join((seen.task, *seen.results))
    if not any(refuses(each) or is_unavailable(each, known) for each in clauses):
        return False
    if any(not _occurs(figure, seen.task) for figure in _numbers_and_names(text)):
        return False
    return not ends_with_evidence(text, seen)


def has_no_tool(text: str, task: str, tools: Mapping[str, str]) -> bool:
    """Return whether a text says that the order cannot be done, and no tool does it.

    Args:
        tools: descriptions of the tools by their names.
    """
    denied = [clause for each in _clauses(text) if refuses(clause := read_clause(each))]
    told = {start for clause in denied for start in begins_acts(clause.text)}
    act = act_of(task)
    return act in told and act not in _beginnings_in(tools) and not is_reading(act)


def is_supported(answer: str, seen: Seen) -> bool:
    """Return whether all figures of an answer are supported, and its end by evidence.

    Evidence is something found in a result, or a figure that follows from the task.
    """
    if unsupported_figures(answer, seen):
        return False
    return ends_with_evidence(answer, seen) or _works_out(_last_clause(answer), seen)


def figures_of(text: str) -> frozenset[str]:
    """Return the numbers and identifiers with digits of a text."""
    return frozenset(_numbers_and_names(text))


def judge_text(text: str, tools: Mapping[str, str], seen: Seen) -> Judgement:
    """Return whether a text without a call is an answer, by its last clause.

    It announces when it ends with a question, a colon or an ellipsis, says what the speaker does next, or
    names a tool and nothing found. It is an answer when it ends with evidence, or when nothing speaks
    against it: no sign of an announcement, no results that it tells nothing of, and no unused tool for what
    the task asks. A last clause that offers the reader more, if they wish, is passed over.

    Args:
        tools: descriptions of the tools by their names.
    """
    text, clauses = _joined(text), _clauses(text)
    known = [_read_tool(name, description) for name, description in tools.items()]
    if not seen.results and _repeats(text, seen.task, known):
        return "answer"
    if not clauses or (_OPEN_END.search(text) and not _ends_with_question(clauses, seen)):
        return "announcement"
    results = seen.found
    acts = {tool.act for tool in known if tool.act and not results}
    clause, sign = _judged(clauses, seen)
    if acts:
        sign = sign_of(clause, acts, seen.task, results)
    if sign in ("plain", "mood"):
        return "unclear" if sign == "mood" and size_of(text) >= MANY_WORDS else "announcement"
    evident = bool(results) and _has_evidence(
        clause.text, seen, Background(" ".join((seen.background.text, *tools)))
    )
    if not evident:
        sentence = _SENTENCE_END.split(text[: text.rindex(clause.text) + len(clause.text)].strip())[-1]
        if _named(known, sentence, telling_only=False):
            is_told = denies(sentence) or says_whether(clause.text)
            if not is_told or _named(known, sentence, telling_only=True):
                return "announcement"
        if sentence != clause.text and sign_of(read_clause(sentence), acts, seen.task, results) == "plain":
            return "announcement"
    if _named(known, text, telling_only=True):
        if _named(known, clause.text, telling_only=True):
            return "unclear"
        told = asks_about_speaker(seen.task) or any(ends_with_evidence(each, seen) for each in clauses)
        if not told:
            return "unclear"
    if evident:
        return "answer"
    if sign is not None:
        doubtful = True
    elif seen.results:
        doubtful = not (clause.denies or _is_about(clause.text, f"{seen.task}\n{seen.given}\n{results}"))
    else:
        asked = subjects_in(seen.task)
        doubtful = any(tool.subjects & asked for tool in known)
        is_short = len(text.split()) < MANY_WORDS
        rearranges = len(text.split()) >= _FEW_WORDS and _telling(text) <= _telling(seen.task)
        may_need = bool(known) and is_short and not rearranges
        doubtful = doubtful or (may_need and names_particulars(seen.task))
    return "unclear" if doubtful and not _works_out(clause.text, seen) else "answer"


def _judged(clauses: Sequence[str], seen: Seen) -> tuple[Clause, Sign | None]:
    """Return the last clause before those that follow the answer, with its sign.

    Passed over are offers of more, and after evidence what announces nothing and has none: "Enjoy!"
    """
    kept = [*clauses[:-1]] if _ends_with_question(clauses, seen) else [*clauses]
    while kept[1:] and is_courtesy(kept[-1]):
        kept.pop()
    results, last = seen.found, read_clause(kept[-1])
    sign = sign_of(last, set(), seen.task, results)
    judged = last, sign
    for clause in map(read_clause, kept[: -_MOST_CLAUSES - 1 : -1] if results else ()):
        sign = sign if clause is last else sign_of(clause, set(), seen.task, results)
        if sign in ("plain", "mood"):
            break
        if clause.denies or ends_with_evidence(clause.text, seen):
            return clause, sign
        if sign and (
            speaks_of_oneself(clause.text)
            or not (speaks_to_reader(clause.text) or _CHEER.search(clause.text))
        ):
            break
    return judged


def _ends_with_question(clauses: Sequence[str], seen: Seen) -> bool:
    """Return whether a text ends with a question to the reader after something found.

    One about the speaker, such as "Shall I go on?", ends more than one thing found for a question. Before a
    look-up it follows a long text, and may be about anything.
    """
    last = clauses[-1]
    if not _QUESTION.search(last):
        return False
    if not seen.results:
        is_long = size_of(" ".join(clauses[:-1])) >= MANY_WORDS
        return is_long and sign_of(read_clause(clauses[-2]), set(), seen.task) is None
    evident = sum(ends_with_evidence(each, seen) for each in clauses[-_MOST_CLAUSES:-1])
    if speaks_of_oneself(last):
        return evident >= _LEAST_FINDINGS and _REQUEST_MARK.search(seen.task) is not None
    return evident > 0 and speaks_to_reader(last)


def concludes(text: str, tools: Mapping[str, str], seen: Seen) -> bool:
    """Return whether a text is the answer where nothing plainly is left to do.

    Less is a sign of an announcement there. A question at the end offers more; what the speaker would do is
    advice, where it rests on what was found; and what the speaker will do is an acknowledgement, where all
    that the tools said is that it is done. What stands in quotation marks is not said by the speaker.

    Args:
        tools: descriptions of the tools by their names.
    """
    clauses = [*_clauses(QUOTATION.sub("_quoted_", text))]
    results, is_offered = seen.found, False
    is_long = size_of(text) >= 2 * MANY_WORDS

    def advises(sign: Sign | None, clause: str) -> bool:
        if not results:
            return False
        if sign == "faint":
            return is_long and (denies(clause) or not speaks_of_oneself(clause))
        if sign == "plain":
            return speaks_for_others(clause) or (is_long and not speaks_of_oneself(clause))
        return sign == "mood"

    sign = _sign(clauses, seen, results)
    while clauses[1:] and (
        is_courtesy(clauses[-1])
        or _is_offered(clauses[-1])
        or (
            advises(sign, clauses[-1])
            and any(denies(each) or _adds(each, seen) for each in clauses[-_MOST_CLAUSES:-1])
        )
    ):
        is_offered = not is_courtesy(clauses.pop()) or is_offered
        sign = _sign(clauses, seen, results)
    if not clauses or _COLON.search(clauses[-1]):
        return False
    clause, known = clauses[-1], [_read_tool(name, description) for name, description in tools.items()]
    if not seen.results:
        return _is_said(clause, text, known, seen, is_offered=is_offered)
    if _QUESTION.search(clause) or lacks_total(text, seen):
        return False
    adds, denied = _adds(clause, seen), any(map(denies, clauses[-2:]))
    is_acknowledged = _is_acknowledged(seen)
    is_settled = denied or is_acknowledged or says_whether(clause)
    if _named(known, clause, telling_only=is_settled) and not adds:
        return False
    if is_acknowledged:
        acts = speaks_of_oneself(clause) and _is_restated(clause, seen.task)
        return sign in (None, "faint") or acts
    if sign == "plain" or is_offered or sign == "mood":
        return sign != "plain" and (adds or (sign != "mood" and (denied or says_whether(clause))))
    if sign == "faint":
        return (adds or says_whether(clause)) and not speaks_of_oneself(clause)
    is_answer = adds or denied or says_whether(clause)
    return (
        is_answer
        or _is_about(clause, f"{seen.task}\n{seen.given}\n{results}")
        or _tells(clauses, known, seen, results)
    )


def _sign(clauses: Sequence[str], seen: Seen, results: str) -> Sign | None:
    """Return the sign of an announcement in the last clause."""
    return sign_of(read_clause(clauses[-1]), set(), seen.task, results, is_done=True) if clauses else None


def _is_offered(clause: str) -> bool:
    return _QUESTION.search(clause) is not None and is_offer(clause)


def _is_said(clause: str, text: str, tools: Iterable[_Tool], seen: Seen, *, is_offered: bool) -> bool:
    """Return whether a text answers a task that the tools have nothing to do with.

    Args:
        clause: the last one that offers nothing.
        is_offered: whether an offer follows it.
    """
    words = size_of(text)
    if asks_about_speaker(seen.task):
        return words >= (_SOME_WORDS if _QUESTION.search(clause) else _FEW_WORDS)
    if _may_repeat(text, seen.task, tools):
        return True
    is_greeting = len(seen.task.split()) <= _LONGEST_GREETING and not _REQUEST.search(seen.task)
    if any(refuses(read_clause(each)) for each in _clauses(text)):
        return True  # none of the tools is for it
    if not is_greeting and _named(tools, text, telling_only=words >= MANY_WORDS):
        return False
    if _QUESTION.search(clause):
        return is_greeting or not (speaks_of_oneself(clause) or speaks_to_reader(clause))
    sign = sign_of(read_clause(clause), set(), seen.task)
    if is_greeting:
        return sign != "plain"
    if words >= MANY_WORDS:
        return True
    if sign in (None, "faint") and len(_LIST_MARK.findall(text)) > 1:
        return True
    if is_offered or sign == "faint":
        return words >= _SOME_WORDS or _is_restated(clause, seen.task)
    return sign is None


def _may_repeat(text: str, task: str, tools: Iterable[_Tool]) -> bool:
    """Return whether a text may be that of the task in other words: a translation.

    It is long enough, says what comes next only where that one does, and has no word of what is to be done
    with it. That is no act of a tool.
    """
    given = _GIVEN_TEXT.search(task)
    if given is None or _LEAST_SHARE * len(text) < len(given[0]):
        return False
    asked = task[: given.start()]
    if any(not begins_acts(f"{tool.act} {tool.name}").isdisjoint(begins_acts(asked)) for tool in tools):
        return False
    ours, theirs = (read_clause(each.strip(_MARKS)) for each in (text, given[0]))
    if sign_of(ours, set(), "") is None:
        return True
    return sign_of(theirs, set(), "") is not None and begins_words(text).isdisjoint(begins_words(asked))


def _repeats(text: str, task: str, tools: Iterable[_Tool]) -> bool:
    """Return whether a text plainly is one of the task in other words.

    It has words of it, or that one is no list, of which "It is sorted now" might be said.
    """
    given = _GIVEN_TEXT.search(task)
    if given is None or _NUMBERED.search(text) or not _may_repeat(text, task, tools):
        return False
    if not _LETTER.search(text) or (_OPEN_END.search(text) and not _OPEN_END.search(given[0])):
        return False
    is_list = _LISTED.search(given[0]) or _ENUMERATED.search(given[0].strip(_MARKS))
    return not is_list or len(begins_words(given[0]) & begins_words(text)) > 1


def _is_restated(clause: str, task: str) -> bool:
    """Return whether a clause has a telling word of the task, in some form."""
    return bool(begins_acts(clause) & begins_acts(task) - _COMMON_BEGINNINGS)


def _is_acknowledged(seen: Seen) -> bool:
    """Return whether a task is an order, and the tools said only that it is done."""
    return not _REQUEST_MARK.search(seen.task) and all(
        result == result.lower()
        and len(_SHORT_WORD.findall(result)) <= _LONGEST_ACKNOWLEDGEMENT
        and all(
            _occurs(figure, seen.task) for figure in _numbers_and_names(_NUMBER_OF_ENTRY.sub(" ", result))
        )
        for result in seen.results
    )


def _adds(clause: str, seen: Seen) -> bool:
    """Return whether a clause has something of the results beyond the task."""
    results = seen.found
    figures = [*_numbers_and_names(clause), *_numerals(clause)]
    if any(not _occurs(each, seen.task) and _occurs(each, results) for each in figures):
        return True
    if len(clause.split()) <= _FEW_WORDS and any(
        map(_Known(f"{seen.task}\n{results}", ()).supports, figures)
    ):
        return True
    if _has_evidence(clause, seen, Background(seen.task)):
        return True
    return not seen.found_beginnings.isdisjoint(begins_words(clause))


def lacks_total(text: str, seen: Seen) -> bool:
    """Return whether a total of several results is asked for, and a text has none.

    Its figures are all those of the results.
    """
    if len(seen.results) < 2 or _TOTAL.search(seen.task) is None:
        return False
    if not all(map(_NUMBER.search, seen.results)):
        return False
    shown = "\n".join((seen.task, *seen.results))
    return all(_occurs(each, shown) for each in (*_numbers_and_names(text), *_numerals(text)))


def _tells(clauses: Sequence[str], tools: Iterable[_Tool], seen: Seen, results: str) -> bool:
    """Return whether a text without evidence at its end has to do with what was found.

    That is a last clause about a tool, evidence or a denial in a clause before it, or results that
    acknowledge and tell nothing.
    """
    told, asked = subjects_in(results), subjects_in(seen.task)
    if told <= asked and all(_occurs(figure, seen.task) for figure in _numbers_and_names(results)):
        return True
    if any(tool.subjects & subjects_in(clauses[-1]) for tool in tools):
        return True
    before = clauses[-_MOST_CLAUSES:-1] if not speaks_of_oneself(clauses[-1]) else []
    return any(read_clause(each).denies or _adds(each.rstrip("?"), seen) for each in before)


def asks_back(text: str) -> bool:
    """Return whether a text ends with a question for something that is missing."""
    return _QUESTION.search(text) is not None and asks_openly(_last_clause(text))


def asks_figure(task: str) -> bool:
    """Return whether a task asks how much, or for a total."""
    return _asked_for(task)[0]


@lru_cache(maxsize=8)
def _asked_for(task: str) -> tuple[bool, bool]:
    """Return whether a task asks for a figure, and whether it speaks of an amount."""
    return _FIGURE_ASKED.search(task) is not None, _AMOUNT.search(task) is not None


def lacks_figure(text: str, task: str) -> bool:
    """Return whether a task asks for a figure, and a text adds none.

    Asking for a total is that, too. An identifier is no figure of a text, and neither is one of the task. A
    text that denies something needs none.
    """
    asks, is_of_amount = _asked_for(task)
    if not asks and (not is_of_amount or len(text.split()) >= MANY_WORDS):
        return False
    if shows_content(task) or denies(text) or any(_numerals(text)):
        return False
    words = text.lower().strip(" .!*").split()
    if len(words) <= _FEWEST_WORDS and not _ONE.isdisjoint(words):
        return False
    figures = _NUMBER_ALONE.findall(_without_list_marks(_NUMBERED_STEP.sub(" ", text)))
    given = {found[0] for found in _COUNTED.finditer(task)}
    return all(each.lstrip("-+~#$€£") in given for each in figures)


@lru_cache(maxsize=8)
def names_particulars(task: str) -> bool:
    """Return whether a task is about particular things that a model cannot know.

    It names a file or an identifier, lists several things, or asks for the total of things whose figures it
    does not give. That shows in its form, in any language, and whatever words the tools are described in.
    """
    plain = QUOTATION.sub(" ", task)
    if _IDENTIFIER.search(plain) or _FILE.search(plain):
        return True
    if _LISTED.search(plain) or _ENUMERATED.search(plain):
        return True
    given = [*_NUMBER.findall(plain), *_numerals(plain)]
    if len(given) > 1 or _TOTAL.search(plain) is None:
        return False
    return any(_asked_for(plain))


def gives_figures(task: str) -> bool:
    """Return whether a task has several numbers, from which others can be worked out."""
    return len(_NUMBER.findall(task)) > 1


def has_precise_figures(figures: Iterable[str]) -> bool:
    """Return whether one of the figures is an amount of money or an identifier."""
    return any(map(_PRECISE.fullmatch, figures))


def size_of(text: str) -> int:
    """Return the number of words; in scripts without spaces two characters are one."""
    words = len(text.split())
    return words if text.isascii() else words + sum(len(run) // 2 for run in _UNSPACED.findall(text))


def is_told_at_length(text: str, seen: Seen) -> bool:
    """Return whether a text is longer than those that come before a look-up.

    Where something was found, two of its clauses have evidence; elsewhere it is on what a model may know, and
    may be shorter where it has several lines, or advises.
    """
    size = size_of(text)
    if seen.results:
        found = (each for each in _clauses(text)[-_MOST_CLAUSES:] if ends_with_evidence(each, seen))
        return size >= 2 * MANY_WORDS and len(list(islice(found, 2))) > 1
    if asks_advice(seen.task):
        least = _SOME_WORDS
    else:
        least = MANY_WORDS if text.count("\n") >= _LINES or composes(seen.task) else 2 * MANY_WORDS
    return size >= least and not names_particulars(seen.task)


def is_composed(text: str, task: str, tools: Mapping[str, str]) -> bool:
    """Return whether a text is the one that a task orders, and that no tool writes.

    It has several lines, as announcements have not, and does not end with a colon.
    """
    verb = composes(task)
    if not verb or text.strip().count("\n") < _LINES or _OPEN_END.search(text):
        return False
    return act_of(verb) not in _beginnings_in(tools)


def _beginnings_in(tools: Mapping[str, str]) -> frozenset[str]:
    """Return the beginnings of all words of the tools' names and descriptions."""
    return begins_acts(" ".join(f"{name.replace('_', ' ')} {tools[name]}" for name in tools))


def is_beside_tools(task: str, tools: Mapping[str, str]) -> bool:
    """Return whether an English task plainly has nothing to do with the tools.

    Args:
        tools: descriptions of the tools by their names.
    """
    if names_particulars(task):
        return False
    if asks_about_speaker(task) and len(task.split()) <= _LONGEST_GREETING + 1:
        return True
    if not is_english(task):
        return False
    if _NUMBER.search(task) and any(_COMPUTES.search(f"{name} {tools[name]}") for name in tools):
        return False
    asked = subjects_in(QUOTATION.sub(" ", task))
    return not any(_read_tool(name, text).subjects & asked for name, text in tools.items())


def is_english(task: str) -> bool:
    """Return whether a task has a common word of English, or hardly any words."""
    words = re.findall(r"[\w']+", task.lower())
    return len(words) <= _FEW_WORDS or not _ENGLISH.isdisjoint(words)


def is_open_for(task: str, unused: Mapping[str, str], used: Mapping[str, str]) -> bool:
    """Return whether a task calls for a tool that was not used.

    It shares a subject with it that no used tool has; and where it only asks something, a tool that does more
    than to look up is called for by its verb.

    Args:
        unused, used: descriptions of the tools by their names.
    """
    if is_ordered(task, unused, used):
        return True
    had = frozenset[str]().union(*(_read_tool(name, text).subjects for name, text in used.items()))
    asked, acts = subjects_in(task) - had, begins_acts(task)
    only_asks = _REQUEST_MARK.search(task) is not None
    for name, text in unused.items():
        tool = _read_tool(name, text)
        shared, reads = tool.subjects & asked, is_reading(tool.act)
        if reads:  # "add it to my list" asks for no list
            shared = frozenset(each for each in shared if not tool.act or not each.startswith(tool.act))
        if shared and (not only_asks or reads or tool.act in acts):
            return True
    return False


def only_asks(task: str, name: str, description: str) -> bool:
    """Return whether a task only asks and forbids, and has no verb of a tool.

    A denial about the speaker or the reader forbids nothing: "I can't log in. What can you do?"
    """
    clauses = _clauses(task)
    asks = any(map(_QUESTION.search, clauses))
    forbidden = [each for each in clauses if denies(each) and not _QUESTION.search(each)]
    forbidden = [each for each in forbidden if not (speaks_of_oneself(each) or speaks_to_reader(each))]
    if not asks or not forbidden:
        return False
    wanted = " ".join(each for each in clauses if each not in forbidden)
    return begins_acts(wanted).isdisjoint({act_of(name.replace("_", " ")), act_of(description)})


def is_ordered(task: str, unused: Mapping[str, str], used: Mapping[str, str]) -> bool:
    """Return whether a task orders what an unused tool does, and no other has acted.

    Args:
        unused, used: descriptions of the tools by their names.
    """
    if not all(is_reading(act_of(text)) for text in used.values()):
        return False
    acts = {act_of(text) for text in unused.values()}
    return any(orders(task, act) for act in acts if not is_reading(act))


def _is_about(text: str, shown: str) -> bool:
    """Return whether a text shares a telling word or a number with what was shown."""
    return not _telling(text).isdisjoint(_telling(shown))


def _telling(text: str) -> set[str]:
    return set(_SHORT_WORD.findall(text.lower())) - _UNTELLING


def unmade_call(
    text: str,
    spelled: Sequence[SpelledCall] = (),
    seen: Seen = Seen(""),
    *,
    told: str = "",
    delivered: bool = False,
) -> str | None:
    """Return the name in what looks like a tool call written as text.

    Empty when it has none, ``None`` when the text holds nothing of the kind: a call that prose goes on after
    is an example, and an object with a name and without arguments is data, as is one that was asked for as
    JSON. For texts of which no call could be read: of a tool that does not exist, broken off, or spelled in
    another way.

    Args:
        spelled: what looks like calls of the offered tools, of :func:`spelled_calls`.
        told: the instructions; a form of the answer stands there.
        delivered: whether the text came with ``final-answer``, where a call is all of it.
    """
    if not delivered and (name := _signed(text)) is not None:
        return name
    asked = f"{seen.task}\n{told}"
    found = [
        each
        for each in spelled
        if each.tool != FINAL_ANSWER and (each.named or not _is_asked_for(each.keys, asked))
    ]
    if not found:
        return None
    lead, rest = text[: found[0].start], _TAG.sub("", text[found[-1].end :])
    if delivered and (len(lead.split()) > _LONGEST_LABEL or _WORD.search(rest)):
        return None
    if seen.results:
        goes_on = any(ends_with_evidence(each, seen) for each in _clauses(rest))
    else:
        goes_on = _WORD.search(rest) is not None
    return None if goes_on and re.search(r"\w", rest) else found[0].tool


def _signed(text: str) -> str | None:
    """Return the name in a call in one of the forms that models are trained for."""
    sign = _CALL_SIGNS.search(text)
    if sign is None:
        return None
    written = text[sign.start() :]
    is_whole = "}" in written and written.count("{") == written.count("}")
    if is_whole and _WORD.search(_TAG.sub("", written[written.rindex("}") :])):
        return None
    if is_whole and sign["key"] == "name" and not _ARGUMENTS.search(written):
        return None
    return next((each["name"] for each in _CALL_SIGNS.finditer(text) if each["name"]), "")


def _is_asked_for(keys: Iterable[str], asked: str) -> bool:
    """Return whether JSON with these keys was asked for."""
    return "json" in asked.casefold() and all(_occurs(key, asked) for key in keys)


# --- figures --------------------------------------------------------------------------------------------


def _figures(text: str) -> Iterable[str]:
    return (figure for figure in _numbers_and_names(text) if not _is_small(figure))


def _numbers_and_names(text: str) -> Iterable[str]:
    return (found["text"].rstrip(".,:/-") for found in _FIGURE.finditer(_without_list_marks(text)))


def _without_list_marks(text: str) -> str:
    """Return a text without the numbers of its parts, where there are several."""
    text = _LIST_MARK.sub(" ", text)
    return _NUMBERED.sub(" ", text) if len(_NUMBERED.findall(text)) > 1 else text


def _numerals(text: str) -> Iterable[str]:
    """Return the numbers that are written as words, in four languages."""
    return (_NUMERALS[word] for word in text.lower().replace(".", " ").split() if word in _NUMERALS)


def _is_small(figure: str) -> bool:
    return figure.isdecimal() and len(figure) < _LONGEST_NUMBER and int(figure) < _SMALL


def _occurs(figure: str, shown: str) -> bool:
    """Return whether the figure occurs in a text, and not as a part of a longer one."""
    if not figure.isdecimal():
        figure, shown = figure.lower(), shown.lower()
    for before, after in _places(figure, shown):
        goes_on = after[:1] in _WORD_MARKS or (after[:1] in _POINTS and after[1:] in _DIGITS)
        if not goes_on and before not in _WORD_MARKS_OR_POINT:
            return True
    return False


def _has_word(word: str, text: str) -> bool:
    """Return whether a text has a word of letters, in its case."""
    return any(
        not any(each.isalnum() or each == "_" for each in before + after[:1])
        for before, after in _places(word, text)
    )


def _places(part: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield, for each place of a part, the character before it and the two after."""
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        yield text[max(start - 1, 0) : start], text[end : end + 2]
        start = text.find(part, start + 1)


def _is_common(figure: str) -> bool:
    """Return whether a figure beside those found may be one that everybody knows."""
    return figure.isdecimal() and len(figure) <= _COMMON_DIGITS


def _is_within(figure: str, shown: str) -> bool:
    """Return whether a long identifier is a part of a longer one of a text."""
    return len(figure) >= _LONG_NAME and _LATIN.search(figure) is not None and figure in shown


class _Known:
    """The numbers of a text, and those that can be worked out from them."""

    def __init__(self, shown: str, results: Iterable[str]) -> None:
        self._every = tuple(_read(found[0]) for found in _COUNTED.finditer(shown))
        self.numbers = dict.fromkeys(self._every)
        self._counts = {count for result in results for count in _counts(result)}
        self._reached: list[float] | None = None
        self._sums: list[float] = []

    def supports(self, figure: str) -> bool:
        """Return whether a figure, or each part of one such as a date, is known."""
        if _QUANTITY.fullmatch(figure):
            return self._has(figure)
        parts = re.split(r"[:/-]", figure)
        if figure[0].isdecimal():  # "30-day", "690/month"
            parts = [part for part in parts if not part.isalpha()]
        if not all(map(_QUANTITY.fullmatch, parts)):
            return False
        return all((len(parts) > 1 and _is_small(part)) or self._has(part) for part in parts)

    def _has(self, quantity: str) -> bool:
        digits = _NUMBER.match(quantity)
        if digits is None:
            return True
        value = _read(digits[0])
        if value in self.numbers or value in self._counts or len(self.numbers) > _MOST_NUMBERS:
            return True
        if rounded := _ROUNDED.search(digits[0]):
            unit = 10 ** sum(map(str.isdecimal, rounded[0]))
            slack = min(0.5 * unit, _ROUNDING * value)
            reached = sorted(_operations(list(self.numbers)))
            return self._follows(value, 1e-9) or _has_between(reached, value - slack, value + slack)
        decimals = len(digits[0].replace(",", ".").rpartition(".")[2]) if re.search("[.,]", digits[0]) else 0
        return self._follows(value, 0.5 * 10 ** -min(decimals, 15) + 1e-9)

    def _follows(self, value: float, slack: float) -> bool:
        """Return whether a value can be worked out, within the rounding of its last digit."""
        numbers = list(self.numbers)
        low, high = value - slack, value + slack
        if not self._sums:
            self._sums = sorted({0.0, *numbers, *(a + b for a in numbers for b in numbers)})
        for part in self._sums:
            if any(_has_between(self._sums, low * n - part, high * n - part) for n in (1, 3, 4)):
                return True
        if self._reached is None:
            self._reached = sorted({*_operations(numbers), *_column_sums(numbers)})
        if _has_between(self._reached, low, high):
            return True
        return any(
            _has_between(self._reached, *sorted(ends))
            for each in numbers
            for ends in _before_last_operation(low, high, each)
        )


class _Totals(_Known):
    """The whole numbers of a text, and sums of them and of products of neighbours."""

    def _follows(self, value: float, slack: float) -> bool:
        if self._reached is None:
            numbers = list(self._every)
            products = [a * b for a, b in pairwise(numbers)]
            one_step = _operations(numbers)
            self._reached = sorted({*_sums_of_some(numbers), *_sums_of_some(products), *one_step})
        return _has_between(self._reached, value - 1e-9, value + 1e-9)


def _asks_for_total(seen: Seen) -> bool:
    """Return whether a task asks for a total of few enough whole numbers to be tried."""
    if _TOTAL.search(seen.task) is None:
        return False
    shown = "\n".join((seen.task, *seen.results))
    numbers = _NUMBER.findall(shown)
    return len(numbers) <= _MOST_SUMMED and all(map(str.isdecimal, numbers)) and not _PARTIAL.search(shown)


def _sums_of_some(numbers: Iterable[float]) -> set[float]:
    sums = {0.0}
    for number in numbers:
        sums |= {total + number for total in sums}
    return sums


def _read(text: str) -> float:
    """Return the number that is written, with its separators of thousands taken out."""
    whole, separator, rest = text.rpartition("." if text.rfind(".") > text.rfind(",") else ",")
    if not separator:
        return float(text[:_LONGEST_NUMBER])
    is_thousands = len(rest) == 3 and (separator == "," or "." in whole or "," in whole)
    digits = re.sub(r"[.,]", "", whole)
    return float((digits + rest if is_thousands else f"{digits}.{rest}")[:_LONGEST_NUMBER])


def _counts(result: str) -> tuple[float, ...]:
    """Return what can be counted in a result: lines, words, items and objects."""
    lines, words, items = result.count("\n") + 1, len(result.split()), result.count(",") + 1
    filled = sum(1 for line in result.splitlines() if line.strip())
    return (lines, filled, words, items, result.count("{"))


def _items_in(result: str) -> tuple[int, ...]:
    """Return how many lines or objects a result has."""
    return (sum(1 for line in result.splitlines() if line.strip()), result.count("{"))


def _operations(numbers: Sequence[float]) -> Iterable[float]:
    for a in numbers:
        for unit in _UNITS:
            yield a * unit
            yield a / unit
        if a >= _MILLION:
            yield a / _MILLION
            yield a / _MILLION / 1000
        for b in numbers:
            yield a + b
            yield a - b
            yield a * b
            yield a * b / 100
            if b:
                yield a / b
                yield a / b * 100


def _column_sums(numbers: Sequence[float]) -> Iterable[float]:
    """Return sums and means of neighbouring numbers, and of every second, third …"""
    for stride in range(1, _LONGEST_STRIDE + 1):
        for start in range(len(numbers)):
            for count, total in enumerate(accumulate(numbers[start::stride]), 1):
                yield total
                yield total / count


def _before_last_operation(low: float, high: float, number: float) -> Iterable[tuple[float, float]]:
    """Return the ranges that one operation with a number leads into low to high."""
    yield low - number, high - number
    yield low + number, high + number
    yield number - low, number - high
    yield low * number, high * number
    if number:
        yield low / number, high / number
        yield low * 100 / number, high * 100 / number
        yield low * number / 100, high * number / 100
    if low > 0:
        yield number / low, number / high


def _has_between(ordered: Sequence[float], low: float, high: float) -> bool:
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] <= high


# --- clauses --------------------------------------------------------------------------------------------


def _last_clause(text: str) -> str:
    """Return the last clause; empty where a text has none."""
    clauses = _clauses(text)
    return clauses[-1] if clauses else ""


@lru_cache(maxsize=64)
def _clauses(text: str) -> Sequence[str]:
    """Return the clauses with a letter or digit; a block of code is one of them."""
    found = tuple(each for each in _CLAUSE_END.split(_joined(text).strip()) if _LETTER.search(each))
    return tuple(each for each in found if not _MARK_ALONE.match(each)) or found


def _joined(text: str) -> str:
    """Return a text whose blocks of code and labelled items are one clause each."""
    if "```" in text:
        text = _BLOCK.sub(_as_one_clause, text)
    return _LABELLED.sub(r"\1\2 ", text)


def _as_one_clause(block: re.Match[str]) -> str:
    return f"\n`{_CODE_BREAK.sub(' ', block['code']).strip()}`\n"


def _works_out(clause: str, seen: Seen) -> bool:
    """Return whether a clause has a figure that follows from the task."""
    said = _read_evidence(clause).figures[:_MOST_FIGURES]
    figures = [each for each in said if not _occurs(each, seen.task)]
    known = _Known(seen.task, ()) if figures else None
    return known is not None and any(map(known.supports, figures))


def _words(text: str) -> set[str]:
    """Return the words in small letters.

    Of scripts without spaces they are each two characters in a row.
    """
    words = {word for word in _WORD.findall(text.lower()) if not word.isdecimal()}
    runs = [] if text.isascii() else _UNSPACED.findall(text)
    if not runs:
        return words
    pairs = {run[at : at + 2] for run in runs for at in range(len(run) - 1)}
    return pairs | {word for word in words if not _UNSPACED.search(word)}


def _squeezed(text: str) -> str:
    return _NO_LETTERS.sub(" ", f" {text.lower()} ")


@frozen(eq=False, repr=False)
class _Tool(Value):
    """The words of a tool.

    Attributes:
        name: in small letters, with spaces around its words.
        is_telling: whether the name has two words or more, and so is no common word.
        act: of its verb.
        subjects: of its name and description.
    """

    name: str
    is_telling: bool
    act: str
    subjects: frozenset[str]


@lru_cache(maxsize=1024)
def _read_tool(name: str, description: str) -> _Tool:
    """Return the words of a tool, which are looked at once."""
    squeezed = _squeezed(name)
    subjects = subjects_in(f"{name} {description}".replace("_", " "))
    return _Tool(squeezed, len(squeezed.split()) > 1, act_of(description), subjects)


def _named(tools: Iterable[_Tool], text: str, *, telling_only: bool) -> bool:
    """Return whether a text has the name of one of the tools."""
    squeezed = _squeezed(text)
    return bool([each for each in tools if each.name in squeezed and (each.is_telling or not telling_only)])
