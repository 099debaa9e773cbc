"""Signs that a clause announces what the speaker will do, by closed word classes.

Announcements are about the speaker and what comes next; answers are about their subject. So a clause is
judged by its pronouns of the first person, auxiliaries, adverbs of sequence and verb endings: classes of
words that a language does not add to, instead of sentences, which are endless. They are in the files of
``core/languages``, for twelve languages; in others nothing is a sign, and what is no announcement by its form
is judged by its evidence.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from itertools import chain, pairwise
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.values import lazy_pattern

Sign: TypeAlias = Literal["plain", "mood", "faint"]
"""``plain``: it says what comes next. ``mood``: what the speaker would or can do, or advises. ``faint``: it
is about the speaker, or names an act of a tool."""


_SUBJECT = word_set("i_or_we")
"""Pronouns of the first person, as a subject."""
ME_OR_US = word_set("me_or_us")
"""They are no sign that the speaker acts: "it reaches us"."""
_SPEAKER = _SUBJECT | ME_OR_US
_HORTATIVE = word_set("let_me")
"""Beginnings of what is to be done together, or by the speaker."""
_LET = word_set("let")
"""They are about the speaker with a pronoun of it only: "let me", and not "let it rest"."""
_WITH_SPEAKER = word_set("intends_with_speaker")
"""Signs of an intention where the speaker is the subject only."""
_INTENT = word_set("intends")
"""Auxiliaries and verbs of what one will do, or has to."""
_MODAL = word_set("modal")
"""Those that say nothing of who intends."""
_MOOD = word_set("mood")
"""Those of what one would, can or should do, or is, which are also those of advice."""
_ADVICE = word_set("advice")
"""Those by which one advises."""
_PROGRESSIVE = word_set("progressive")
"""What stands before a participle of what goes on: "I'm checking"."""
_HAS_TO = lazy_pattern(r"\b(?:have|has|got) to\b")
_SEQUENCE = word_set("sequence")
"""Adverbs of what comes now or next."""
_UNTIL = word_set("until")
"""Words before one of sequence that tell a time: "until then"."""
_WISH = word_set("wish")
_AFTERWARDS = word_set("afterwards")
"""Words of sequence that stand in instructions too."""
_WAIT = word_set("wait")
"""Short times, for which one asks to wait."""
_MEANWHILE = lazy_pattern(
    rf"\b{alternatives('at_the_moment')}\s+(?:{alternatives('this_moment')}\s+|l['’])?{alternatives('moment')}"
)
"""A time that is no waiting: "closed at the moment"."""
_LASTING = lazy_pattern(r"(?<![\d.,])(?!1\D)[\d.,]+(?:[\s-]|\s?-\s?)[^\W\d_]+")
"""A length of time, which is no waiting either: "a 45-minute slot"."""
_FOLLOWING = word_set("following")
"""Adjectives of what comes next."""
_NUMBERED = lazy_pattern(r"\W*[^\W\d_]+ \d{1,2}\s*[:.)](?!\d)")
_NEGATION = word_set("negation")
_UNAVAILABLE = word_set("unavailable")
"""Adjectives by which something is said not to be there."""
_ABILITY = word_set("ability") | _UNAVAILABLE
"""Auxiliaries and adjectives of being able and willing."""
_I_CAN = word_set("i_can")
"""Forms of being able that are of the first person without a pronoun."""
_LACKING = lazy_pattern(expression("lacking"))
"""Words of having no access or means."""
_REFUSED_UNSPACED = lazy_pattern(alternatives("refused_unspaced"))
_READER = word_set("reader")
"""Pronouns of the second person."""
_ENGLISH_WORDS = word_set("english_in_question")
_WHETHER = word_set("whether")
"""Words that answer a question by yes or no."""
_CONDITION = word_set("if_reader_wishes")
"""Words of a condition, in an offer to the reader."""
_COMMON = word_set("common")
"""Words of tasks and descriptions that say nothing of their subject."""
_ASKING = word_set("asking")
_ASKING_ELSEWHERE = word_set("asking_elsewhere")
_ASKING_FOR = word_set("asking_for")
_ASKING_WHAT = _ASKING | _ASKING_ELSEWHERE | _ASKING_FOR
"""Words that begin a question which no yes or no answers."""
_ASKING_HOW_MUCH = lazy_pattern(expression("asking_how_much"))
_ASKING_UNSPACED = lazy_pattern(alternatives("asking_unspaced"))
"""Words of questions that no yes or no answers."""
_ASKING_TO_TELL = lazy_pattern(
    rf"(?:(?:\A\W*+|[,:–] ?|\b{alternatives('before_tell_me')} ){alternatives('tell_me_first')}"
    rf"|send (?=[^,.]+ to (?:me|us)\b))\b|{expression('tell_me')}",
    re.IGNORECASE,
)
"""An imperative by which the reader is to tell something."""
_NEEDING = lazy_pattern(expression("needing"), re.IGNORECASE)
"""What the speaker has to be told, or lacks."""
_NO_WISH = word_set("no_wish")
"""What "Tell me if you need more" asks for, which is nothing that the speaker lacks."""
_READERS_OWN = word_set("readers_own")
"""Possessive pronouns of the second person."""
SUBORDINATE = _ASKING | {"whether", "if", "that"}
"""Words by which a subordinate clause begins."""
_WE = word_set("we")
_COMPOSING = word_set("composing")
"""Verbs of writing a text."""
_ADVISING = word_set("advising")
_EXPLAINING = lazy_pattern(
    rf"\A\W*{alternatives('explaining')}\b|{expression('explaining_within')}", re.IGNORECASE
)
_ONESELF = word_set("oneself")
_OWN = word_set("own")
_PARTICULAR = lazy_pattern(r"\d|(?<=[\w,;:(] )(?!I\b)[^\W\d_a-z]")
_READING = word_set("reading_beginning")
"""Beginnings of verbs that say nothing of what a tool does."""
_STEM = 6
"""Letters by which forms of one word are alike."""
FINITE = word_set("finite")
_ENDINGS = lazy_pattern(rf"{alternatives('future_ending')}(?!\S)")
_INTENTIONS = _INTENT | _WITH_SPEAKER | _HORTATIVE
_SIGNS = _INTENTIONS | _SPEAKER | _SEQUENCE | _WAIT | _FOLLOWING
_PARTICIPLES = ("ing", "ando", "endo", "indo")
_NO_PARTICIPLES = word_set("no_participle")
"""Words that end as participles do."""
_UNSPACED = lazy_pattern(alternatives("announces_unspaced"))
"""Announcements by a part of a text, as in languages whose words have no blanks between them."""
_CAN_UNSPACED = lazy_pattern(alternatives("can_unspaced"))
_CONTRACTED = lazy_pattern(r"n't(?!\S)")
_NEGATION_UNSPACED = lazy_pattern(alternatives("negation_unspaced"))
_WORD = lazy_pattern(r"[^\W\d_]+(?:['’-][^\W\d_]+)*'?")
_PART = lazy_pattern(r"[,，、:：(]")
QUOTATION = lazy_pattern(r"\"[^\"\n]*\"|(?<!\w)'[^'\n]+'(?!\w)|“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|「[^「」]*」")
_NOT_SAID = lazy_pattern(rf"`[^`\n]*`|{QUOTATION.pattern}|{expression('let_me_know')}", re.IGNORECASE)
"""What stands in quotation marks, or as code, is not said by the speaker; "let me know" asks the reader."""
_DIGITS = lazy_pattern(r"\d+")
_BRACKETED = lazy_pattern(r"\([^()]*\)")
_TASK_PART = lazy_pattern(r"[.!?,;:]")
_LONGEST_WAIT = 8
_EARLY = 3
"""Words of a part among which one speaks of doing something together."""
_ORDER = 3
"""Words of a task that have its verb: "Please send it", "Can you send it"."""
_SHARED = 4
"""Letters at the beginning that two forms of one verb have in common, at least."""


@frozen(eq=False, repr=False)
class Clause:
    """A clause with its words in small letters.

    Attributes:
        said: its text with a word in place of what it quotes.
        parts: the words of each part between commas, colons and brackets, without empty ones.
        words: all of them.
        denies: whether it has a negation.
        may_end: whether one of the words may have an ending of the future.
    """

    text: str
    said: str
    parts: list[list[str]]
    words: set[str]
    denies: bool
    may_end: bool


@lru_cache(maxsize=64)
def read_clause(text: str) -> Clause:
    """Return the clause of a text, whose words are looked at once.

    What it quotes is one word.
    """
    said = _NOT_SAID.sub("_quoted_", text)
    parts = [words for part in _PART.split(said) if (words := _words(part))]
    every = {word for words in parts for word in words}
    denied = _denies(every if said == text else {*_words(text)}, text)
    return Clause(text, said, parts, every, denied, _ENDINGS.search(" ".join(every)) is not None)


def _denies(words: Set[str], text: str) -> bool:
    if not _NEGATION.isdisjoint(words) or any(map(_CONTRACTED.search, words)):
        return True
    return not text.isascii() and _NEGATION_UNSPACED.search(text) is not None


def sign_of(
    clause: Clause, acts: Set[str], task: str, results: str = "", *, is_done: bool = False
) -> Sign | None:
    """Return the sign of an announcement in a clause, if it has one.

    Args:
        acts: the tools' verbs, each as :func:`act_of` returns it.
        task: its words are no signs.
        results: what tools returned; a participle that occurs there, or in the task, is a noun.
        is_done: whether nothing seems left to do, so that a speaker who intends nothing tells what was done.
    """
    every, negative = clause.words, clause.denies
    if not negative and not clause.text.isascii():
        if _UNSPACED.search(clause.said):
            return "plain"
        if _CAN_UNSPACED.search(clause.text):
            return "mood"
    if not every:
        return None
    is_plain = _SIGNS.isdisjoint(every) and acts.isdisjoint([word[:_SHARED] for word in every])
    if is_plain and not clause.may_end:  # the words of the task make no difference
        if not negative and _is_acting(clause, results, task):
            return "plain"
        return "faint" if _NUMBERED.match(clause.text) else None
    asked = frozenset(_words_of_task(task))
    told = _told_in(clause, asked)
    speaks = bool(_SUBJECT & every or _HORTATIVE & told)
    ordered, ends_soon = _sequence_in(clause, asked, speaks=speaks)
    ordered = ordered or bool(_FOLLOWING & told)
    signs = _INTENTIONS & told
    has_to = _HAS_TO.search(clause.text.lower()) is not None
    intends = bool(signs) or ordered or ends_soon or has_to
    if _waits(clause, asked, speaks=speaks) or (clause.may_end and _ENDINGS.search(" ".join(told))):
        return "plain"
    if not negative and ((speaks and intends) or _is_acting(clause, results, task)):
        is_advice = not _ADVICE.isdisjoint(signs) or not (ordered or (signs and ends_soon))
        is_mood = speaks and signs <= _MOOD and bool(signs or ends_soon) and is_advice and not has_to
        return "mood" if is_mood and not any(map(_is_progressive, clause.parts)) else "plain"
    is_act = acts & {word[:_SHARED] for word in told}
    intent = _INTENT & told
    if intent <= _MODAL and not speaks and clause.parts[0][0] not in _MODAL:
        intent = frozenset()  # "they will buy it"
    if (speaks and not is_done) or ordered or ends_soon or intent or is_act or _NUMBERED.match(clause.text):
        return "faint"
    return None


def _told_in(clause: Clause, asked: Set[str]) -> Set[str]:
    """Return the words of a clause that may be signs, without those of the task."""
    told = clause.words - asked
    if not ME_OR_US & clause.words:
        told = told - _LET
    told = told - (_HORTATIVE - {word for words in clause.parts for word in words[:_EARLY]})
    if not _WITH_SPEAKER.isdisjoint(told):
        for word, after in chain.from_iterable(map(pairwise, clause.parts)):
            if word in _READER or (word in _ADVICE and after == "want"):
                told = told - {after}  # "what you want", "I'd want"
    return told


def _sequence_in(clause: Clause, asked: Set[str], *, speaks: bool) -> tuple[bool, bool]:
    """Return whether a part begins, and whether one ends, with a word of sequence."""
    begins = ends = False
    for number, words in enumerate(clause.parts):
        if number and words[0] in _AFTERWARDS and not speaks:
            continue  # "put it into the water, then cool it"
        begins = begins or words[0] in _SEQUENCE - asked
        is_told = FINITE & set(words) or not _UNTIL.isdisjoint(words[-2:-1]) or not _WISH.isdisjoint(words)
        # "is on now" tells how it is, "until then" when
        ends = ends or (not is_told and words[-1] in _SEQUENCE)
    return begins, ends


def _waits(clause: Clause, asked: Set[str], *, speaks: bool) -> bool:
    """Return whether a clause asks for a moment."""
    if clause.denies or _WAIT.isdisjoint(clause.words - asked) or _MEANWHILE.search(clause.text.lower()):
        return False
    if not speaks and sum(map(len, clause.parts)) > _LONGEST_WAIT:
        return False  # "it can take a minute until it is gone from the list"
    return not _WAIT.isdisjoint(_words(_LASTING.sub(" ", clause.text)))


def _is_progressive(words: list[str]) -> bool:
    """Return whether a part has the progressive form: "I'm checking"."""
    return not _PROGRESSIVE.isdisjoint(words) and any(map(_is_participle, words))


def denies(text: str) -> bool:
    """Return whether a text has a negation."""
    return read_clause(text).denies


def refuses(clause: Clause) -> bool:
    """Return whether the speaker says not to be able to do something."""
    if not clause.text.isascii() and _REFUSED_UNSPACED.search(clause.text):
        return True
    if not (clause.denies and (_SPEAKER | _I_CAN) & clause.words):
        return False
    return bool(_ABILITY & clause.words or _LACKING.search(clause.text.lower().replace("’", "'")))


def is_unavailable(clause: Clause, known: str) -> bool:
    """Return whether a clause says that something is not there or not possible.

    Args:
        known: texts whose words say so of their subject, as where a task asks whether a room is available.
    """
    return clause.denies and bool(_UNAVAILABLE & clause.words - set(_words(known)))


def act_of(description: str) -> str:
    """Return the first letters of the verb that a tool's description begins with.

    Forms of one verb have them in common. Empty where there is no verb.
    """
    words = description.split(maxsplit=1)
    return words[0].lower()[:_SHARED] if words and len(words[0]) > 2 else ""


def subjects_in(text: str) -> frozenset[str]:
    """Return the beginnings of the words of a text that are no common ones."""
    words = _words(text)
    return frozenset([word.rstrip("s")[:_STEM] for word in words if word[3:] and word not in _COMMON])


@lru_cache(maxsize=8)
def subjects_of_task(task: str) -> frozenset[str]:
    """Return the subjects of a task, which every text without a call is compared with."""
    return subjects_in(task)


def speaks_of_oneself(clause: str) -> bool:
    """Return whether a clause has a pronoun of the first person."""
    return bool(_SPEAKER & set(_words(clause)))


def speaks_for_others(clause: str) -> bool:
    """Return whether a clause is about "we" alone, as that of a shop."""
    words = set(_words(clause))
    return not _WE.isdisjoint(words) and _WE.issuperset(words & (_SPEAKER | _HORTATIVE))


def composes(task: str) -> str:
    """Return the verb of writing that a task begins with; empty for none."""
    return next((word for word in _words_of_task(task)[:_ORDER] if word in _COMPOSING), "")


def speaks_to_reader(clause: str) -> bool:
    """Return whether a clause has a pronoun of the second person."""
    return bool(_READER & set(_words(clause)))


def asks_about_speaker(task: str) -> bool:
    """Return whether a task asks the model about itself.

    "What can you do?" and "Are you a person?" do, "Can you do it?" does not.
    """
    words = _words_of_task(task)
    if words[:1] == ("are",) and not _READER.isdisjoint(words[1:2]):
        return True
    return not _READER.isdisjoint(words) and any(
        (_ASKING | _ASKING_ELSEWHERE) & {word.partition("'")[0] for word in words[:2]}
        and _READER & set(words)
        for words in map(_words, _TASK_PART.split(task))
    )


def asks_advice(task: str) -> bool:
    """Return whether a task asks how something is done, what it means, or for advice.

    It names nothing in particular, by a capital letter, a digit or what is the speaker's own.
    """
    words = _words(task)
    start = words[1:] if words[:1] == ["how"] else words
    if not words or start[:1] == words[:1] == ["do"]:
        return False
    is_asked = not _ADVISING.isdisjoint(start[:1])
    is_asked = is_asked and (start[:1] == ["to"] or not _ONESELF.isdisjoint(start[1:2]))
    if not is_asked and _EXPLAINING.search(task) is None:
        return False
    return _PARTICULAR.search(task) is None and _OWN.isdisjoint(words)


def is_of_oneself(task: str) -> bool:
    """Return whether a task has a possessive, or a word such as "this" or "today"."""
    return not _OWN.isdisjoint(_words(task))


def begins_acts(task: str) -> frozenset[str]:
    """Return the beginnings of all words, as :func:`act_of` returns that of a verb."""
    return frozenset(word[:_SHARED] for word in _words(task))


def orders(task: str, act: str) -> bool:
    """Return whether a task begins with a verb, as :func:`act_of` returns it."""
    return bool(act) and any(word.startswith(act) for word in _words_of_task(task)[:_ORDER])


def begins_words(text: str) -> frozenset[str]:
    """Return the beginnings of words that are neither short nor common."""
    return frozenset(word[:_SHARED] for word in _words(text) if word[3:] and word not in _COMMON)


def is_reading(act: str) -> bool:
    """Return whether the verb of a tool says only that it looks something up."""
    return not act or act in _READING


def says_whether(clause: str) -> bool:
    """Return whether a clause begins with a yes or no."""
    return bool(_WHETHER & set(_words(clause)[:1]))


def asks_openly(question: str) -> bool:
    """Return whether a question asks for something, and no yes or no answers it.

    One part of it begins so: "Sure, and which room?"
    """
    clause = read_clause(question)
    if any(_ASKING_FOR & set(words[:3]) and not FINITE & set(words[:1]) for words in clause.parts):
        return True
    return bool(_ASKING_HOW_MUCH.search(question.lower()) or _ASKING_UNSPACED.search(question))


def asks_what(task: str) -> bool:
    """Return whether a task begins with a word such as "what" or "how"."""
    return not _ASKING_WHAT.isdisjoint([each.partition("'")[0] for each in _words_of_task(task)[:1]])


def asked_for(clause: str) -> str:
    """Return what a clause tells the reader to name; empty for none.

    "Tell me if you need more" asks for nothing, as "Give me a moment" does.
    """
    found = _ASKING_TO_TELL.search(clause)
    words = set() if found is None else {*_words(clause[found.end() :])}
    return "" if found is None or words & (_WAIT | _CONDITION | _NO_WISH) else clause[found.end() :]


def needed_in(clause: str) -> str:
    """Return a clause that says what the speaker lacks; empty for others."""
    found = _NEEDING.search(clause)
    return "" if found is None or {*_words(clause)} & (_WAIT | _CONDITION) else clause


def is_of_reader(clause: str) -> bool:
    """Return whether a clause has a personal or possessive pronoun of the reader."""
    return not (_READER | _READERS_OWN).isdisjoint(_words(clause))


def is_courtesy(clause: str | Clause) -> bool:
    """Return whether a clause offers the reader more on a condition, or is a wish."""
    words = clause.words if isinstance(clause, Clause) else set(_words(clause))
    return bool(words & _READER and words & _CONDITION) or not _WISH.isdisjoint(words)


def is_offer(question: str) -> bool:
    """Return whether a question offers something.

    It is about the speaker or the reader, or is answered with a yes or no. Those of other languages than
    English need no pronoun.
    """
    words = set(_words(question))
    if words & (_SPEAKER | _READER) or "else" in words or FINITE & set(_words(question)[:1]):
        return True
    return len(words) > 1 and not words & _ENGLISH_WORDS


@lru_cache(maxsize=8)
def _words_of_task(task: str) -> tuple[str, ...]:
    """Return the words of a task, which are looked at by many rules."""
    return tuple(_words(task))


def _words(text: str) -> list[str]:
    """Return the words in small letters.

    Abbreviations, and an "i" that is no pronoun, are none of these.
    """
    words: list[str] = []
    for word in _WORD.findall(text.replace("’", "'").replace("j'", "je ")):
        if word.islower():
            if word != "i":
                words.append(word)
        elif not word[1:] or not word.isupper():
            words.append(word.lower())
    return words


def _is_acting(clause: Clause, results: str, task: str) -> bool:
    """Return whether a clause begins with a participle without a subject.

    What stands in brackets, or after a colon and a verb, explains what was said before it.
    """
    parts = clause.parts
    if "(" in clause.text or ":" in clause.text:
        said, colon, _ = _BRACKETED.sub(" ", clause.said).partition(": ")
        if _BRACKETED.search(clause.text) or (colon and not FINITE.isdisjoint(_words(said))):
            parts = [words for part in _PART.split(said) if (words := _words(part))] or parts
    _, comma, tail = clause.text.rpartition(",")
    if comma and any(re.search(rf"\b{each}\b", results) for each in _DIGITS.findall(tail)):
        return False  # "line 19, leaving in 4 minutes" tells what was found
    last = len(parts) < 3 and _begins_with_participle(parts[-1])  # of more it may be the last of a list
    if not last and (len(parts[-1]) > 3 or not _begins_with_participle(parts[0])):
        return False
    participle = parts[-1 if last else 0][0]
    return participle not in results.lower() and participle not in _words_of_task(task)


def _begins_with_participle(words: list[str]) -> bool:
    if len(words) < 2 or not _is_participle(words[0]) or words[0] in _NO_PARTICIPLES or words[1] == "and":
        return False
    finite = next((word for word in words[1:] if word in FINITE or word in SUBORDINATE), "")
    return finite not in FINITE  # "using it would be simpler", and not "checking whether it is"


def _is_participle(word: str) -> bool:
    return word.endswith(_PARTICIPLES) and len(word) > (4 if word.endswith("ing") else 5)
