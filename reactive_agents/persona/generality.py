"""Whether a lesson may leave the room that it was learned in.

A lesson for every room of a tenant contains no word that only its first room uses, no name, no number and no
quotation. Rooms are compared by their words alone, so that this works in every language: a lesson with a word
that only one room has used stays there until a person approves it. Words of the persona's instructions and
tools are allowed everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import field, frozen

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words, such as Thai, Khmer, Japanese and Chinese."""
_LETTERS = rf"(?:(?![{_SPACELESS}])[^\W\d_])+"
_WORD = re.compile(rf"[{_SPACELESS}]+|{_LETTERS}(?:['\u2019]{_LETTERS})*")
_NUMBER = re.compile(r"[^\s\w]?(?<!\w)\w*\d[\w.,:/%-]*")
_ADDRESS = re.compile(r"(?<!\S)\S*(?:@|://|www\.)\S*")
_QUOTATION = re.compile(
    '["\u201c\u201d\u201e\u00ab\u00bb`\u300c\u300e][^"\u201c\u201d\u201e\u00ab\u00bb`\u300d\u300f]*'
    "[\"\u201c\u201d\u00ab\u00bb`\u300d\u300f]?|(?<!\\w)['\u2018\u2019][^'\u2018\u2019]*['\u2018\u2019](?!\\w)"
)
_SENTENCE_END = re.compile(r"[.!?:]\s|\n")
_STEM = 5
"""Length of the prefix by which words are compared, so that inflected forms are equal."""
_ENDING = 4
"""Letters that may follow a shorter word of the room: "Adalar" is "Ada"."""


@frozen
class RoomWords:
    """The words for judging a lesson of one room, in lower case.

    Attributes:
        own: prefixes of the words used in the room and of the speakers' names; pairs of letters in scripts
            without spaces.
        names: words of the room with a capital within a sentence, and the speakers' names.
        elsewhere: words of other rooms.
        known: words of the persona's instructions, tools and templates.
    """

    own: frozenset[str]
    names: frozenset[str]
    elsewhere: frozenset[str] = field(repr=False)
    known: frozenset[str] = field(repr=False)


def room_words(
    said: Iterable[str], speakers: Iterable[str], *, elsewhere: Iterable[str], known: Iterable[str]
) -> RoomWords:
    """Return the words of a room.

    Args:
        said: texts of the room.
        speakers: names and ids of its speakers.
        elsewhere: texts of other rooms.
        known: instructions, names of tools and other texts of the program.
    """
    texts, people = tuple(said), _words(speakers)
    names = frozenset(name.casefold() for text in texts for name in _names(text))
    words, others, common = _words(texts) | people, _words(elsewhere), _words(known)
    own = frozenset(word[:_STEM] for word in words) | _all_pairs(words)
    return RoomWords(own, names | people, others | _all_pairs(others), common | _all_pairs(common))


def general_form(lesson: str, words: RoomWords) -> str:
    """Return a lesson without quotations, addresses, numbers and names.

    The lesson is general if nothing had to be replaced.
    """
    text = _QUOTATION.sub("[quotation]", lesson)
    text = _ADDRESS.sub("[address]", text)
    text = _NUMBER.sub("[number]", text)
    placeholders = ("quotation", "address", "number")

    def shown(found: re.Match[str]) -> str:
        word, folded = found[0], found[0].casefold()
        if word in placeholders and text[found.start() - 1 : found.start()] == "[":
            return word
        if folded in words.known:
            return word
        is_name = folded in words.names or (word[0].isupper() and not _begins(text, found.start()))
        return "[name]" if is_name or _is_private(folded, words) else word

    return _WORD.sub(shown, text)


def _is_private(word: str, words: RoomWords) -> bool:
    """Return whether a word was used only in this room."""
    if word in words.elsewhere:
        return False
    shared = words.elsewhere | words.known
    shorter = {word[:size] for size in range(2, _STEM) if size < len(word) <= size + _ENDING}
    parts = shorter | (_pairs(word) | set(word) if _is_spaceless(word) else set())
    return word[:_STEM] in words.own or not shared >= parts & words.own


def is_general(lesson: str, words: RoomWords) -> bool:
    """Return whether a lesson may be used in other rooms."""
    return general_form(lesson, words) == lesson


def _names(text: str) -> list[str]:
    return [
        found[0]
        for found in _WORD.finditer(text)
        if found[0][0].isupper() and not _begins(text, found.start())
    ]


def _begins(text: str, start: int) -> bool:
    gap = start
    while gap and not (text[gap - 1].isalnum() or text[gap - 1] == "_"):
        gap -= 1
    return not gap or _SENTENCE_END.search(text, gap, start) is not None


def _is_spaceless(word: str) -> bool:
    return re.match(f"[{_SPACELESS}]", word) is not None


def _pairs(word: str) -> set[str]:
    return {word[at : at + 2] for at in range(len(word) - 1)} or {word}


def _all_pairs(words: Iterable[str]) -> frozenset[str]:
    return frozenset(pair for word in words if _is_spaceless(word) for pair in _pairs(word))


def _words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word.casefold() for text in texts for word in _WORD.findall(text))
