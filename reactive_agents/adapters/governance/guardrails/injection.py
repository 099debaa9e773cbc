"""Detection of prompt injection: texts that give orders to the model.

Disguised texts are decoded and the text is folded. Its words are looked up for their meanings, and the
meanings of a sentence are compared with structures of orders: an imperative, a word that revokes, a target.
Since this is no list of sentences, it also finds other wordings, word orders and misspellings. It does not
understand a text: an order in unlisted words passes, and only quotation marks and preceding words, which an
attacker can write too, distinguish a text about attacks from an attack. If that matters, add a
:class:`ModelJudge`; actions that must never happen have to be prevented elsewhere. The words are in
``injection_words.txt`` by their meanings, and the structures in ``injection_frames.txt``.

The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pkgutil import get_data
from typing import TypeAlias, cast

from attrs import frozen

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.core import disguised_texts
from reactive_agents.core.disguised_texts import Encoded
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.texts import Folded, count_invisible, fold, folded_pattern

CATEGORY = "prompt-injection"
DEFAULT_THRESHOLD = 0.6
LEAST_SCORE = 0.35
"""Findings below are not reported."""

_WORDS, _KINDS = (
    cast(bytes, get_data("reactive_agents.adapters.governance.guardrails", name)).decode()
    for name in ("injection_words.txt", "injection_frames.txt")
)
_FRAMES = tuple(
    (name, tuple(needed.split()), float(score))
    for name, score, needed in re.findall(r"^([a-z-]+) ([\d.]+): (.+)", _KINDS, re.M)
)
"""Kinds of attack, with the meanings of a sentence that each needs, and its weight."""
_IMPERATIVES = frozenset({"override", "reveal", "send", "act", "memory"})
"""Meanings of verbs that count less if they cannot be an order."""
_NEAR = 240
_LONGEST_WINDOW = 40
"""Words of a window; a longer sentence is split into windows that overlap by half."""
_MOST_ALIKE = 4
"""The number of first and of last words of one meaning that are used in a window."""
_SHORTEST_SENTENCE = 24
_WIDEST_GAP = 160
_FAR = 110
_LEAST_ALONE = 0.22
"""Lower weights only support other orders."""
_APART = 45
_WITH_OBJECT = ("override", "reveal", "role")
_BREAK = re.compile(r"[:;]\s")
_MARKS = "[.!?;。！？；…]"
_END = re.compile(
    rf"(?<!{_MARKS}){_MARKS}++(?=[\s\"')\]」]|\Z)|{_MARKS}(?=[^\x00-\x7f])"
    r"|\n\s*\n|\n(?=[ \t]*(?:[-*#>•]|\d{1,3}[.)])[ \t])"
)
_DESTINATION = re.compile(r"https?://|www\.|[\w.+-]{1,40}@[\w-]{1,40}\.\w|(?<!\d)\+\d\d \d")
_VOCATIVE = (",", ":")
_QUOTES = "\"'`"
_WIDE_QUOTES = ("「」", "“”")
_ELSEWHERE = re.compile(
    rf" (?:i|we) (?:gave|sent|told|wrote)\b|[ \t]{{0,3}}{alternatives('elsewhere')}"
    rf" (?!{alternatives('not_elsewhere')}\b)"
)
"""After "instructions" and the like: instructions for something else."""
_LEADS = word_set("before_order")
"""Words before a verb that is an order."""
_NEGATIONS = word_set("denies_order")
"""Words before a verb that is none."""
_REPORTS = word_set("reports_order")
"""Verbs of telling what others want: "asked you to"."""
_STOP = re.compile(r"[.,:;!?()\[\]<>{}\"'`*#|=…。，：；！？「」、\n]")
_OBLIGED = word_set("obliged")
"""Words before "to" and an order: "you have to"."""
_MARKUP = re.compile(
    folded_pattern(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|<<sys>>|<</sys>>"
        rf"|\[/?inst\]|<start_of_turn>|(?:^|\n)[ \t#*>\[\-=<]{{0,8}}{alternatives('system')}"
        r"(?: (?:message|prompt|note|update|notice|alert|policy))?[\]*>= ]{0,4} ?[:：]"
        rf"|(?:^|\n)[ \t#*]{{0,8}}{alternatives('system_note')} ?[:：]"
        r"|[<\[{(](?:system|admin|developer|assistant|important)"
        r"(?:[ _\-](?:message|prompt|note|instructions?|override))?[>\]})]"
        r"|\b(?:human|user):[^\n]{0,80}\n{1,3}assistant:|\"role\": ?\"system\""
        r"|[\-#=*]{2,40} ?(?:end|begin|start) of [a-z ]{0,30}"
        r"(?:prompt|document|instructions?|context|data|input)"
        r"|</(?:data|document|context|tool_result|user_input)>|\bsystem (?:note|override)\b"
    )
)
"""Markers of speakers in prompts."""
_HEADING = re.compile(
    folded_pattern(
        rf"(?:^|\n)[ \t#*_=>\[(<!\-]{{0,8}}{alternatives('new_of_heading')}"
        rf"(?: (?:important|urgent|system|secret|special))?[ _]{alternatives('task_of_heading')}"
        r"[ \t*_=\])>!\-]{0,8}(?:[:：]|\n)"
    )
)
"""Headings of another task."""
_DISCUSSED = re.compile(folded_pattern(expression("discussed")))
"""Words before a quoted text."""
_PATH = re.compile(r"(?<![\w.:/])\.{0,2}(?:/[\w.\-]{1,40}){2,8}|(?<![\w.:/])\./[\w.\-]{2,40}")
_TOOL = re.compile(r"(?<![\w.`(])[a-z]{2,20}(?:_[a-z]{2,20}){1,4}(?![\w`(]|\.\w)")
"""Names in the form of tool names, outside of code."""
_PRETEXT = re.compile(
    r"(?:strictly )?for test(?:ing)?(?: purposes)?|this is a test\b|test pipeline|tests do not fail"
)
"""Words about tests that justify an order instead of discussing one."""
_CLOSED_UP = re.compile(
    r"(?:ignore|disregard|forget)(?:all|any|the|your|of|my|these|those){0,4}(?:previous|prior|above|earlie"
    r"r|system)?(?:instruction|prompt|rule|guideline|direction)|systemprompt|doanythingnow"
)
_SECTION = re.compile(r"^\[(.+)\]\n([^\[]+)", re.M)
_WIDE = "\u3040-\u30ff\u3400-\u9fff"
_WIDE_LETTER = re.compile(f"[{_WIDE}]")
_WORD = re.compile(r"[^\W_]+")
_TERM_WORD = re.compile(r"[^\W_]+\*?|\*")
_LEAST_FUZZY = 6
_LEAST_STEM = 2
_LONGEST_WORD = 32
_MOST_KNOWN = 20_000
_Terms: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]


class Lexicon(dict[str, _Terms]):
    """The terms that begin with a folded word: their other words, and meaning.

    Single words of at least six letters also match with one typo.
    The result for a word is computed once, in time that depends on its length only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._terms: dict[str, _Terms] = {}
        self._stems: dict[str, _Terms] = {}
        self._slips: dict[str, str] = {}
        wide: list[str] = []
        for section in _SECTION.finditer(_WORDS):
            for term in filter(None, (" ".join(each.split()) for each in fold(section[2]).text.split(";"))):
                if _WIDE_LETTER.search(term):
                    wide.append(term)
                    self._terms[term] = (*self._terms.get(term, ()), ((), section[1]))
                else:
                    self._add(term, section[1])
        either = "|".join(map(re.escape, sorted(set(wide), key=len, reverse=True)))
        self._with_wide = re.compile(f"(?:{either})|[^\\W_{_WIDE}]+")

    def _add(self, term: str, name: str) -> None:
        first, *rest = _TERM_WORD.findall(term)
        into = self._stems if first.endswith("*") else self._terms
        word = first.removesuffix("*")
        into[word] = (*into.get(word, ()), (tuple(rest), name))
        if len(word) >= _LEAST_FUZZY and not rest:
            for slip in (word, *_without_one(word)):
                self._slips.setdefault(slip, word)

    def __missing__(self, word: str) -> _Terms:
        found = self._lookup(word[:_LONGEST_WORD])
        if len(word) > 16 and _CLOSED_UP.search(word):
            found = (*found, ((), "override!"), ((), "system-prompt"))
        if len(self) > _MOST_KNOWN:
            self.clear()
        if len(word) <= _LONGEST_WORD:  # one may be a file of megabytes
            self[word] = found
        return found

    def _lookup(self, word: str) -> _Terms:
        found = self._terms.get(word, ())
        for size in range(_LEAST_STEM, len(word) + 1):
            found += self._stems.get(word[:size], ())
        if found or len(word) < _LEAST_FUZZY - 1 or word.isdigit():
            return found
        meant = self._meant(word)
        near = (*self._terms.get(meant, ()), *self._stems.get(meant, ()))
        return tuple(each for each in near if not each[0])

    def _meant(self, word: str) -> str:
        """Return the known word that this one misspells; empty for none."""
        for slip in (word, *_without_one(word)):
            meant = self._slips.get(slip, "")
            if meant and word[0] == meant[0] and not word.startswith(meant) and not meant.startswith(word):
                return meant
        return ""

    def words(self, text: str) -> Iterator[re.Match[str]]:
        """Return the words of a folded text; in Chinese and Japanese, the known ones."""
        return (self._with_wide if _WIDE_LETTER.search(text) else _WORD).finditer(text)


def _without_one(word: str) -> Iterator[str]:
    return (word[:place] + word[place + 1 :] for place in range(1, len(word)))


_LEXICON = Lexicon()


@frozen
class _Meaning:
    name: str
    start: int
    end: int
    weight: float = 1.0
    anywhere: bool = False


@frozen
class _Said:
    start: int
    end: int
    name: str
    score: float


def prompt_injection(*, action: GuardrailAction = "block", threshold: float = DEFAULT_THRESHOLD) -> Check:
    """Return a check for prompt injection.

    Args:
        action: the reaction from the threshold on; weaker findings are warnings.
        threshold: 0 to 1.
    """

    def check(text: str) -> list[GuardrailFinding]:
        return [
            GuardrailFinding(
                CATEGORY, start, end, score, action if score >= threshold else "warn",
                f"The text seems to give orders to the model ({name}).",
            )
            for start, end, score, name in _injections(text)
            if score >= LEAST_SCORE
        ]  # fmt: skip

    return check


def _injections(text: str) -> Iterator[tuple[int, int, float, str]]:
    plain = fold(text)
    for said in _combined(_said(plain.text)):
        yield *plain.span(said.start, said.end), said.score, said.name
    for disguised in disguised_texts.spelt_texts(plain.text):
        yield from _unmasked(disguised, plain)
    if count_invisible(text) >= 8 and len(plain.text) < 0.98 * len(text):
        yield 0, len(text), 0.4, "invisible characters"
    for disguised in disguised_texts.nested_texts(text):
        yield from _unmasked(disguised, None)
    for disguised in disguised_texts.hidden_texts(text):
        strongest = max((each.score for each in _combined(_said(fold(disguised.text).text))), default=0.0)
        if strongest >= LEAST_SCORE:
            yield disguised.start, disguised.end, min(1.0, strongest + 0.25), disguised.how


def _unmasked(disguised: Encoded, plain: Folded | None) -> Iterator[tuple[int, int, float, str]]:
    read = fold(disguised.text).text
    found = [each for each in _combined(_said(read)) if each.score >= LEAST_SCORE + 0.05]
    if disguised.how == "spaced letters" and _CLOSED_UP.search(re.sub(r"\W", "", read)):
        found.append(_Said(0, len(read), "override", 0.8))
    for each in found:
        start, end = disguised.start, disguised.end
        if plain is not None and disguised.how == "digits for letters":
            start, end = disguised.start + each.start, disguised.start + each.end
            if plain.text[start:end] == read[each.start : each.end]:
                continue  # nothing was disguised here
        elif disguised.how in ("rot13", "reversed text") and each.score < 0.6:
            continue
        if plain is not None:
            start, end = plain.span(start, end)
        yield start, end, min(1.0, each.score + 0.1), f"{each.name}, {disguised.how}"


# --- the orders of a folded text ------------------------------------------------------------------------


def _said(text: str) -> list[_Said]:
    """Return the orders in a folded text, each with its score and place."""
    found = [
        _Said(*match.span(), name, score * _weight_of_place(text, *match.span()))
        for pattern, name, score in ((_MARKUP, "markup", 0.45), (_HEADING, "new-task", 0.62))
        for match in pattern.finditer(text)
    ]
    for window in _windows(text):
        strongest: dict[str, _Said] = {}
        for name, needed, score in _FRAMES:
            said = _fitting(name, needed, score, window, text)
            if said is not None and (name not in strongest or said.score > strongest[name].score):
                strongest[name] = said
        found += strongest.values()
    return sorted(found, key=lambda each: (each.start, each.end))


def _windows(text: str) -> Iterator[dict[str, list[_Meaning]]]:
    """Return the meanings in each sentence by name, in parts of a long sentence."""
    words = list(_LEXICON.words(text))
    meanings, places = _meanings(text, words)
    starts = [0]
    ends = [match.start() for match in _END.finditer(text)]
    for place in range(1, len(words)):
        before, here = words[place - 1].end(), words[place].start()
        ended = bisect_left(ends, here) > bisect_left(ends, before)
        long_enough = before - words[starts[-1]].start() >= _SHORTEST_SENTENCE
        if (ended and long_enough) or here - before > _WIDEST_GAP:
            starts.append(place)
    for first, last in zip(starts, [*starts[1:], len(words)], strict=True):
        for begin in range(first, max(last - _LONGEST_WINDOW // 2, first + 1), _LONGEST_WINDOW // 2):
            lower = bisect_left(places, begin)
            upper = bisect_left(places, min(begin + _LONGEST_WINDOW, last))
            if lower < upper:
                by_name: dict[str, list[_Meaning]] = {}
                for each in meanings[lower:upper]:
                    by_name.setdefault(each.name, []).append(each)
                yield {
                    name: each[:_MOST_ALIKE] + each[_MOST_ALIKE:][-_MOST_ALIKE:]
                    for name, each in by_name.items()
                }


def _meanings(text: str, words: Sequence[re.Match[str]]) -> tuple[list[_Meaning], list[int]]:
    """Return the meanings in a text, and the place of the first word of each."""
    read = [word[0] for word in words]
    found: list[tuple[int, _Meaning]] = []
    for place, word in enumerate(read):
        for rest, name in _LEXICON[word]:
            last = place + len(rest)
            if rest and not _follows(rest, read, place + 1):
                continue
            start, end = words[place].start(), words[last].end()
            weight = _imperative(text, words, place) if name in _IMPERATIVES else 1.0
            found.append((place, _Meaning(name.removesuffix("!"), start, end, weight, name.endswith("!"))))
            if name == "model" and text[end : end + 1] in _VOCATIVE:
                found.append((place, _Meaning("vocative", start, end)))
    starts = [word.start() for word in words]
    for name, pattern in (
        ("destination", _DESTINATION),
        ("tool", _TOOL),
        ("path", _PATH),
    ):
        for match in pattern.finditer(text):
            place = max(0, bisect_left(starts, match.start() + 1) - 1)
            found.append((place, _Meaning(name, *match.span())))
    found.sort(key=lambda each: each[0])
    return [each for _, each in found], [place for place, _ in found]


def _follows(rest: Sequence[str], read: Sequence[str], place: int) -> bool:
    if place + len(rest) > len(read):
        return False
    for at, term in enumerate(rest, place):  # nearly always the first one differs
        if read[at] != term and not (term[-1] == "*" and read[at].startswith(term[:-1])):
            return False
    return True


def _imperative(text: str, words: Sequence[re.Match[str]], place: int) -> float:
    """Return the weight of a verb: 1 if it can be an order, less in a statement."""
    if not place:
        return 1.0
    before = words[place - 1][0]
    if before in _NEGATIONS:
        return 0.3
    if before in ("to", "may"):
        obliged = place > 1 and words[place - 2][0] in _OBLIGED
        return 1.0 if obliged and not (place > 2 and words[place - 3][0] in _REPORTS) else 0.5
    gap = text[words[place - 1].end() : words[place].start()]
    return 1.0 if before in _LEADS or _STOP.search(gap) or not words[place][0].isascii() else 0.55


def _fitting(
    name: str, needed: Sequence[str], score: float, window: Mapping[str, Sequence[_Meaning]], text: str
) -> _Said | None:
    """Return the order in the meanings of a sentence, if it is complete.

    The first meaning is the verb, the last its object; meanings in between belong to the object.
    """
    if any(each not in window for each in needed):
        return None
    best: _Said | None = None
    for verb in window[needed[0]]:
        target = min(window[needed[-1]], key=lambda each: _distance(verb, each))
        others = [min(window[each], key=lambda one: _distance(target, one)) for each in needed[1:-1]]
        parts = (verb, target, *others)
        start, end = min(each.start for each in parts), max(each.end for each in parts)
        weight = min(each.weight for each in parts) * _weight_of_place(text, start, end)
        if any(_distance(target, each) > _APART for each in others):
            weight *= 0.5
        if end - start > _FAR or _BREAK.search(text, start, end):
            weight *= 0.7
        if needed[0] in _WITH_OBJECT:
            if target.end < verb.start and not verb.anywhere:
                weight *= 0.5
            if _ELSEWHERE.match(text, target.end):
                weight *= 0.45
        if best is None or score * weight > best.score:
            best = _Said(start, end, name, score * weight)
    return best


def _distance(first: _Meaning, second: _Meaning) -> int:
    return max(first.start - second.end, second.start - first.end, 0)


def _weight_of_place(text: str, start: int, end: int) -> float:
    """Return the weight of a match: 1, less for quoted or discussed instructions."""
    before = _PRETEXT.sub("", text[max(0, start - 110) : start])
    same_line = before.rpartition("\n")[2][-50:]
    after = text[end : end + 90].partition("\n")[0]
    quoted = any(same_line.count(mark) % 2 == 1 and mark in after for mark in _QUOTES) or any(
        same_line.count(pair[0]) > same_line.count(pair[1]) and pair[1] in after for pair in _WIDE_QUOTES
    )
    if quoted:
        return 0.4 if _DISCUSSED.search(before) else 0.72
    return 0.65 if _DISCUSSED.search(before.rpartition("\n")[2]) else 1.0


def _combined(found: Sequence[_Said]) -> list[_Said]:
    """Return the orders, with scores raised by other kinds of orders nearby."""
    combined: list[_Said] = []
    for index, said in enumerate(found):
        if said.score < _LEAST_ALONE:
            continue
        strongest = {said.name: said.score}
        for other in found[max(0, index - 12) : index + 13]:
            if other.name == said.name or abs(other.start - said.start) > _NEAR:
                continue
            if other.score > strongest.get(other.name, 0.0):
                strongest[other.name] = other.score
        left = 1.0
        for score in strongest.values():
            left *= 1 - score
        combined.append(_Said(said.start, said.end, said.name, 1 - left))
    return combined


_OF_OTHER_TOOLS = re.compile(
    r"\b(?:before|prior to|after|whenever|when|if|each time|every time)\b.{0,60}"
    r"\b(?:us(?:e|es|ing)|call(?:s|ed|ing)?|invok(?:e|es|ing)|run(?:ning)?|available|present|asks?|requests?|wants?)\b"
    r".{0,80}\b(?:read|open|fetch|load|pass|include|send|add|append|forward|copy|attach|put|bcc|upload)\b"
)
_PRIVATE_FILE = r"~/\.|\.ssh\b|id_(?:rsa|ed25519|ecdsa)|\.aws\b|\.env\b|/etc/(?:passwd|shadow)|mcp\.json"
_CONVERSATION = r"(?:full|whole|entire|complete) (?:conversation|chat)|system prompt"
_PRIVATE = re.compile(
    rf"{_PRIVATE_FILE}|{_CONVERSATION}|credentials?\b|api[ _-]?keys?\b|\bpasswords?\b|private keys?\b|"
    r"\bbcc\b|other tools?\b|\w tool\b.{0,40}\b(?:recipient|address|to)\b"
)
_HANDED_OVER = re.compile(
    r"\b(?:pass|include|send|provide|supply|attach|forward|put|append|copy)\b.{0,40}\bcontents?\b.{0,30}"
    rf"(?:{_PRIVATE_FILE})|"
    r"<\s*(?:important|critical|system|instructions?|hidden|secret)\s*>.{0,200}"
    rf"(?:{_PRIVATE_FILE}|{_CONVERSATION})|"
    r"\bbefore (?:any|all|each|every) (?:of the )?(?:other )?(?:tools?|calls?)\b.{0,40}"
    rf"\b(?:call|use|invoke|run)\b.{{0,60}}(?:{_PRIVATE_FILE}|{_CONVERSATION})"
)
_DIVERTED = re.compile(
    r"\b(?:whenever|when|if|each time|every time|before|after)\b.{0,60}"
    r"\b(?:recipient|bcc|cc|address|account|iban|payee|destination|receiver)\b.{0,30}"
    r"\b(?:changed|replaced|redirected|rewritten|swapped|rerouted|change|replace|redirect)\b.{0,20}"
    r"\b(?:to|by|with)\b.{0,20}(?:\S@\S+\.\w|https?://)"
)
_FIRST = re.compile(
    r"\b(?:must|always|have to|need to|be sure to)\b.{0,40}\b(?:call|use|invoke|run)\b"
    r".{0,40}\b(?:first|before)\b"
)
_HIDDEN = re.compile(
    r"\b(?:do not|don't|never|without)\b.{0,30}"
    r"\b(?:mention(?:ing)?|tell(?:ing)?|inform(?:ing)?|reveal(?:ing)?|notify(?:ing)?|show(?:ing)?)\b"
    r".{0,30}\b(?:user|anyone|this|it)\b|"
    # German, Dutch; French, Spanish and Portuguese, Italian
    r"\b(?:sage?|erwahne?|erwaehne?|verrate?|erzahle?|zeige?|teile|informiere?|vertel|zeg|meld|toon)\b.{0,30}"
    r"\b(?:nutzer\w*|benutzer\w*|anwender\w*|niemand\w*|gebruiker)\b.{0,20}\b(?:nichts?|niets?)\b\s*(?:[^\w\s]|$|davon)|"
    r"\bohne\b.{0,20}\b(?:be)?nutzer\w*\b.{0,20}\b(?:zu (?:sagen|informieren|erwahnen)|mitzuteilen)|"
    r"\bn(?:e|')\W?.{0,12}\b(?:di[st]|dites|parle[zsr]?|mentionne[zsr]?|revele[zsr]?|montre[zsr]?|informe[zsr]?)\b"
    r".{0,20}\b(?:pas|rien|jamais)\b.{0,20}\butilisateur|"
    r"\bn(?:o|ao)\b.{0,12}\b(?:di(?:g|le)\w*|cont\w+|cuent\w+|mencion\w+|inform\w+|revel\w+|muestr\w+|mostr\w+)\b"
    r".{0,30}\busuari[oa]|"
    r"\bnon\b.{0,12}\b(?:dir\w*|menzion\w+|rivel\w+|mostr\w+|inform\w+)\b.{0,30}\butente"
)
_UNSEEN = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}|[A-Za-z][\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Variation selectors: a symbol has at most one, a letter none."""


def orders_of_description(text: str) -> str:
    """Return why a tool's description looks like orders beyond the tool; empty if not.

    A description should say what its tool does. If it asks for private files or whole conversations, changes
    calls of other tools, wants to be called before them or kept from the user, or has invisible text, it is
    an attack, even without overriding instructions.
    """
    if _UNSEEN.search(text):
        return "It has text in signs that are not seen."
    looks = fold(" ".join(text.split())).text
    if _OF_OTHER_TOOLS.search(looks) and _PRIVATE.search(looks):
        return "It asks for private data, or for changes of other calls."
    if _FIRST.search(looks) and _PRIVATE.search(looks):
        return "It wants to be called first, with private data."
    if _HANDED_OVER.search(looks):
        return "It asks for private data."
    if _DIVERTED.search(looks):
        return "It asks for changes of other calls."
    return "It wants to be kept from the user." if _HIDDEN.search(looks) else ""
