"""Items that a task lists and that a run has asked nothing about.

A model that stops early has looked up one of several things, and answers with that. Which things a task is
about shows in its form: what was looked up stands in a list of the task, between commas or a word such as
"and", and so do the others. That needs no knowledge of the tools, and no verbs of any language. Where the
form leaves it open, nothing is an item. Beside a file that was read or written, the other files that a task
names are items too, and so are the addresses after the same word as one that was written to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from itertools import pairwise

from reactive_agents.core.languages import alternatives, word_set
from reactive_agents.kernel.announcements import FINITE, denies
from reactive_agents.kernel.clauses import ADDRESS, OR, OTHERWISE, UNSPACED

_WORDS = f"(?:{alternatives('and')}|{alternatives('or')})"
_COMMA = r"[,;、，]"
_SEPARATOR = re.compile(
    rf"(?:\s*{_COMMA}?\s+(?P<last>{_WORDS}|&)\s+|\s*{_COMMA}\s*|\s*(?P<last_unspaced>{alternatives('and_unspaced')})\s*"
    r"|\n\s*(?:[-*•]|\d{1,2}[.)])\s+)"
)
"""What stands between two items of a list, in some twelve languages; a word stands before the last one."""
_GAP = re.compile(r"\s{2,}")
_PART = re.compile(r"[^\n.?!:()]+(?:\n\s*(?:[-*•]|\d{1,2}[.)])\s+[^\n.?!:()]+)*")
_QUESTION = re.compile(
    r"who\b|(?:which|whose)\b.*\b(?:more|less|most|least|\w{2,}er|\w{2,}est|better|worse|best|worst)\b",
    re.IGNORECASE,
)
_FILE = re.compile(r"(?<![\w@/.:-])[\w-]+(?:/[\w-]+)*\.[a-z]{2,4}(?![\w/]|\.\w)")
_DETERMINER = re.compile(rf"{alternatives('article')}\s+(?=\S)")
"""An article before an item, which is no part of what is looked up."""
_ARTICLE = re.compile(alternatives("article"))
_CONTRACTED = {
    short: long.replace("+", " ")
    for short, _, long in (each.partition("=") for each in word_set("contracted"))
}
"""Prepositions with an article in one word, in full."""
_WORD = re.compile(r"\w[\w'’]*")
_LIST_WORDS = word_set("and") | word_set("or")
_OF = word_set("of_noun")
"""Words between a noun and what it is of: "a bag of rice"."""
_QUOTED = re.compile(
    r"(?<!\w)(?:'([^'\n]+)'|\"([^\"\n]+)\"|“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»)(?!\w)"
)
_PAIR = 2
"""Parts with a comma between them alone, which may also be a sentence and what follows."""
_LONGEST_ITEM = 60
_MOST_ITEMS = 20
_LONGEST_NAME = 4
_INNER_MARK = "\0"


def open_items(task: str, asked: Iterable[str], seen: str) -> tuple[str, ...]:
    """Return items in one list with something asked about that were left out.

    Args:
        task: in the user's words.
        asked: the texts that tools were given as arguments.
        seen: everything that the calls and their results say.
    """
    files, lists, quoted = _named_in(task)
    known, found = seen.casefold(), dict[str, None]()
    asked = list(asked)
    if not denies(task):
        named = files if any(map(_FILE.fullmatch, asked)) else ()
        if any("@" in each for each in asked):
            named = (*named, *_addresses_beside(task, frozenset(map(str.casefold, asked))))
        found |= dict.fromkeys(each for each in named if each.casefold() not in known)
    for item in dict.fromkeys(_bare(each) for each in asked):
        if 0 < len(item) <= _LONGEST_ITEM:
            for parts in lists:
                others = [*_beside(parts, item, known)] or [*_parallel(parts, item, known)]
                found |= dict.fromkeys(others)
            for items in quoted:
                if item in items:
                    found |= dict.fromkeys(each for each in items if each.casefold() not in known)
    return tuple(found)[:_MOST_ITEMS]


def names_items(task: str) -> bool:
    """Return whether a task has a list, or names a file."""
    return any(_named_in(task))


def lists_in(task: str) -> tuple[list[str], ...]:
    """Return the parts of each list of a task, as the words between its commas."""
    return _named_in(task)[1]


@lru_cache(maxsize=8)
def _named_in(task: str) -> tuple[tuple[str, ...], tuple[list[str], ...], tuple[list[str], ...]]:
    """Return the files of a task, the parts of its lists, and lists of quotations."""
    # the time of the other expressions grows with the cube of a gap's length
    task = _GAP.sub(lambda gap: "\n" if "\n" in gap[0] else " ", task)
    files = tuple(each[0] for each in _FILE.finditer(task))
    if _SEPARATOR.search(task) is None:
        return files, (), ()
    return files, tuple(_lists(task)), tuple(_quoted_lists(task))


def _addresses_beside(task: str, asked: Set[str]) -> list[str]:
    """Return the addresses after the same word as one that was asked about.

    "To a@x.org that it rains and to b@x.org that it snows", and not "from a@x.org to b@x.org". The word of
    the first one of a list holds for the others; names count as one word; after a verb such as "is" stands
    whose address it is.
    """
    places: dict[str, list[str]] = {}
    end, word = 0, ""
    for found in ADDRESS.finditer(task):
        words = _WORD.findall(task, max(end, found.start() - _LONGEST_ITEM), found.start())
        if words and words[-1].casefold() not in _LIST_WORDS:
            word = "" if _is_name(words[-1]) else words[-1].casefold()
        if word not in FINITE:
            places.setdefault(word, []).append(found[0])
        end = found.end()
    alike = (each for each in places.values() if not asked.isdisjoint(map(str.casefold, each)))
    return [address for each in alike for address in each]


def _quoted_lists(task: str) -> Iterator[list[str]]:
    """Yield quotations of one sentence with a comma or an "and" between them.

    "Add 'milk' to the list and mark 'tea' as done", and not "Add 'milk' to the list 'weekend'". With an "or"
    between them one may do.
    """
    items, end, is_choice = list[str](), 0, False
    for found in _QUOTED.finditer(task):
        between = task[end : found.start()]
        if items and (_SEPARATOR.search(between) is None or _PART.fullmatch(between) is None):
            if not is_choice:
                yield items
            items, is_choice = [], False
        is_choice = is_choice or (bool(items) and OR.search(between) is not None)
        items.append(next(filter(None, found.groups())).strip())
        end = found.end()
    if items[1:] and not is_choice:
        yield items


def _bare(item: str) -> str:
    """Return an item without blanks around it and an article before it."""
    item = item.strip()
    article = _DETERMINER.match(item)
    return item if article is None else item[article.end() :]


def _lists(task: str) -> Iterator[list[str]]:
    """Yield the parts of each list; the one after a word such as "and" is its last.

    Such a word of one language is another word in another: each that the task has is tried alone.
    """
    task = re.sub(r"(?<=\w)[.:](?=\w)", _INNER_MARK, task)  # within a name, a number or a time
    found = dict.fromkeys(between["last"] for between in _SEPARATOR.finditer(task))
    words = [word for word in found if word] or [None]
    for word in words:
        yield from _lists_with(task, word)


def _lists_with(task: str, word: str | None) -> Iterator[list[str]]:
    for place in _PART.finditer(task):
        parts, start, is_last = list[str](), 0, False
        found = [each for each in _SEPARATOR.finditer(place[0]) if each["last"] in (None, word)]
        for between in (*found, None):
            end = len(place[0]) if between is None else between.start()
            parts.append(_bare(place[0][start:end].replace(_INNER_MARK, ".")))
            if between is None or is_last:
                if is_last or len(parts) != _PAIR or _are_names(parts):
                    yield parts
                parts, is_last = [], False
            if between is not None:
                start, is_last = between.end(), bool(between["last"] or between["last_unspaced"])


def _are_names(parts: list[str]) -> bool:
    """Return whether the words around the comma between two parts are names."""
    return all(map(_is_name, (*parts[0].split()[-1:], *parts[1].split()[:1])))


def _beside(parts: list[str], item: str, known: str) -> Iterator[str]:
    """Yield the other, unknown parts of a list that has the item, in its form."""
    words, size = item.split(), len(item.split())
    folded = item.casefold()
    at = next((n for n, part in enumerate(parts) if _has(part, folded, n, len(parts))), None)
    if at is None:
        return
    named = all(map(_is_name, words))
    asks = len(parts) > 2 and _QUESTION.match(parts[0]) is not None and not named
    for number, part in enumerate(parts):
        if asks and not number:
            continue  # "Which account holds more, savings or giro?"
        given, is_edge = part.split(), number in (0, len(parts) - 1)
        if number == at or not given or OTHERWISE.match(part) or _is_known(given, known, number, len(parts)):
            continue
        if number == 0 and named and len(given) > size:
            given = given[1:]  # the first word of a sentence is no name
        if named and len(given) <= _LONGEST_NAME and all(map(_is_name, given)):
            yield " ".join(given)
        elif len(given) == size or (len(given) > size and is_edge and (named or len(parts) > 2)):
            chosen = given[-size:] if number == 0 else given[:size]
            is_unit = words[0][1:] and chosen[0].islower() and not chosen[0][1:]  # "per 100 g, pears or figs"
            if not is_unit and _alike(words, chosen):
                yield " ".join(chosen)


def _parallel(parts: list[str], item: str, known: str) -> Iterator[str]:
    """Yield unknown items of parts that are built as the one before, with the item.

    "To Ann and to Bo that it rains", "in the den to 19 and in the attic to 16", "a bag of rice and a bottle
    of oil". A common noun is followed by the same word, or ends its part.
    """
    words, named = item.split(), all(map(_is_name, item.split()))
    size = len(words)
    for one, other in pairwise(parts):
        said, given = (
            " ".join(_CONTRACTED.get(word, word) for word in each.split()).split() for each in (one, other)
        )
        ats = [
            at for at in range(1, len(said)) if " ".join(said[at : at + size]).casefold() == item.casefold()
        ]
        if not ats or not given or _is_name(given[0]):
            continue
        at = ats[-1]
        before = said[at - 1]
        if before in _OF and given[1:2] == [before]:
            start = 2
        elif given[0] in said[:at]:
            start = at - max(n for n in range(at) if said[n] == given[0])
        else:
            continue
        chosen = given[start : start + size]
        beside = given[start - 1 : start]
        is_like = beside == [before] or all(map(_ARTICLE.fullmatch, (before, *beside)))
        if not is_like or len(chosen) < size or not _alike(words, chosen):
            continue
        if (named or said[at + size :][:1] == given[start + size :][:1]) and not _is_in(chosen, known):
            yield " ".join(chosen)


def _is_in(words: list[str], known: str) -> bool:
    return " ".join(words).casefold() in known


def _is_known(words: list[str], known: str, number: int, count: int) -> bool:
    """Return whether a part, or its inner end, was asked about."""
    words = [re.sub(r"['’]s\Z", "", word.casefold()) for word in words]  # "Ann's and Bob's"
    if _is_in(words, known):
        return True
    most = min(len(words), 2 * _LONGEST_NAME)
    ends = [words[-size:] for size in range(1, most)] if number == 0 else []
    starts = [words[:size] for size in range(1, most)] if number == count - 1 else []
    return any(re.search(rf"(?<!\w){re.escape(' '.join(each))}(?!\w)", known) for each in (*ends, *starts))


def _has(part: str, folded: str, number: int, count: int) -> bool:
    """Return whether a part is the item, or has it at the inner end of the list."""
    text = part.casefold()
    if text == folded:
        return True
    if number == 0 and re.search(rf"(?<!\w){re.escape(folded)}\Z", text):
        return True
    return number == count - 1 and re.match(rf"{re.escape(folded)}(?!\w)", text) is not None


def _is_name(word: str) -> bool:
    return word[:1].isupper() or any(map(str.isdigit, word))


def _alike(words: list[str], others: list[str]) -> bool:
    """Return whether two items have one form: names, numbers, marks and length."""
    return all(
        _is_name(one) == _is_name(other)
        and any(map(str.isdigit, one)) == any(map(str.isdigit, other))
        and {*re.sub(r"\w", "", one)} == {*re.sub(r"\w", "", other)}
        and (UNSPACED.search(other) is None or len(other) <= 2 * len(one) + 2)
        for one, other in zip(words, others, strict=True)
    )
