"""Words of injected instructions by meaning, and how they combine into orders.

A combination is a structure (an imperative, a word that revokes, a target), not a sentence, so that it is the
same in every language and word order. The words are in ``injection_words.txt`` and are compared after
folding; single words of at least six letters also match with one typo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final, TypeAlias

from reactive_agents.core.texts import fold, folded_pattern

IMPERATIVES: Final = frozenset({"override", "reveal", "send", "act", "memory"})
"""Meanings of verbs that count less if they cannot be an order."""

FRAMES: Final[tuple[tuple[str, str, float], ...]] = (
    ("override", "override previous target", 0.85),
    ("override", "override given target", 0.8),
    ("override", "override your target", 0.72),
    ("override", "override system-prompt", 0.75),
    ("override", "override limits", 0.7),
    ("override", "override all target", 0.6),
    ("override", "override target", 0.35),
    ("override", "override all previous", 0.6),
    ("override", "override all given", 0.75),
    ("override", "override given", 0.5),
    ("override", "override all", 0.25),
    ("override", "override task", 0.5),
    ("override", "off your target", 0.62),
    ("override", "off given target", 0.62),
    ("override", "off limits", 0.55),
    ("override", "off system-prompt", 0.5),
    ("override", "off previous target", 0.4),
    ("override", "off task", 0.35),
    ("override", "off given", 0.45),
    ("override", "off all given", 0.62),
    ("override", "off given destination", 0.62),
    ("override", "override target lawless", 0.65),
    ("override", "off previous", 0.25),
    ("prompt-leak", "reveal system-prompt verbatim", 0.85),
    ("prompt-leak", "reveal system-prompt", 0.6),
    ("prompt-leak", "reveal given target", 0.62),
    ("prompt-leak", "reveal your target", 0.55),
    ("prompt-leak", "reveal content-above", 0.62),
    ("prompt-leak", "reveal secret target", 0.4),
    ("new-role", "role lawless", 0.75),
    ("new-role", "role from-now", 0.35),
    ("new-role", "role", 0.2),
    ("lawless", "lawless", 0.3),
    ("no-refusal", "no-refusal", 0.5),
    ("obedience", "obey-me from-now", 0.55),
    ("obedience", "obey-me", 0.4),
    ("obedience", "priority target", 0.5),
    ("new-task", "new-task", 0.3),
    ("new-task", "new-task from-now", 0.45),
    ("new-task", "new-task say", 0.62),
    ("new-task", "new-task act", 0.5),
    ("addressed", "addressed model", 0.45),
    ("addressed", "addressed act", 0.6),
    ("addressed", "addressed send", 0.6),
    ("addressed", "addressed praise", 0.6),
    ("addressed", "addressed say", 0.6),
    ("addressed", "vocative act", 0.45),
    ("addressed", "vocative send", 0.5),
    ("addressed", "vocative override", 0.5),
    ("secrecy", "hide", 0.35),
    ("secrecy", "hide act", 0.45),
    ("secrecy", "hide send", 0.5),
    ("secrecy", "hide user", 0.45),
    ("secrecy", "act hide user", 0.65),
    ("secrecy", "send hide user", 0.65),
    ("exfiltration", "send secret destination", 0.62),
    ("exfiltration", "send secret", 0.2),
    ("exfiltration", "send destination", 0.2),
    ("exfiltration", "reveal secret", 0.25),
    ("action", "act", 0.1),
    ("praise", "praise", 0.25),
    ("memory", "memory future", 0.62),
    ("authority", "authority", 0.4),
    ("say", "say", 0.25),
    ("pressure", "reward", 0.25),
    ("exfiltration", "send users-thing destination", 0.5),
    ("exfiltration", "send users-thing", 0.45),
    ("override", "override target reveal", 0.62),
    ("override", "override previous given", 0.62),
    ("override", "forgot your target", 0.62),
    ("override", "override just-say", 0.65),
    ("override", "override content-above", 0.62),
    ("prompt-leak", "reveal self", 0.45),
    ("new-role", "policy-settings", 0.62),
    ("addressed", "for-machines say", 0.65),
    ("addressed", "for-machines just-say", 0.9),
    ("answer", "include in-answer verbatim", 0.62),
    ("answer", "include in-answer", 0.3),
    ("mode", "mode", 0.4),
    ("mode", "mode act", 0.62),
    ("mode", "mode reveal", 0.62),
    ("pretext", "pretext", 0.2),
    ("pretext", "pretext act", 0.35),
    ("pretext", "pretext reveal", 0.35),
    ("forgot", "forgot", 0.45),
    ("first-do", "before-task first", 0.65),
    ("first-do", "reply-time", 0.2),
    ("tool-order", "call-verb tool reply-time", 0.65),
    ("tool-order", "call-verb tool destination", 0.6),
    ("tool-order", "call-verb tool path", 0.6),
    ("tool-order", "authority tool", 0.62),
    ("authority", "authority act", 0.5),
    ("authority", "authority praise", 0.62),
    ("praise", "praise for-machines", 0.62),
    ("answer", "include token-word in-answer", 0.45),
    ("answer", "include every-answer", 0.6),
    ("answer", "token-word every-answer", 0.6),
    ("tool-order", "approved tool", 0.65),
    ("tool-order", "approved limits", 0.65),
    ("tool-order", "call-verb tool from-now", 0.35),
    ("approval", "approved", 0.35),
    ("forged-thought", "forged", 0.22),
    ("forged-thought", "forged limits", 0.62),
    ("forged-thought", "forged lawless", 0.65),
    ("addressed", "for-machines", 0.45),
    ("addressed", "addressed call-verb destination", 0.62),
    ("addressed", "addressed call-verb tool", 0.65),
    ("tool-order", "call-verb tool hide", 0.62),
    ("addressed", "addressed reveal", 0.6),
    ("encoded-order", "decode obey-it", 0.65),
    ("new-task", "if-told task from-now", 0.6),
)
"""Kinds of attack, with the required meanings in a sentence and the weight.

Weights of at least 0.6 are rare in texts for people; lower ones count only with other orders nearby.
"""

MARKUP: Final = re.compile(
    folded_pattern(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|<<sys>>|<</sys>>"
        r"|\[/?inst\]|<start_of_turn>"
        r"|(?:^|\n)[ \t#*>\[\-=<]{0,8}(?:system|sistem|sistema|systeme|система|系统|システム)"
        r"(?: (?:message|prompt|note|update|notice|alert|policy))?[\]*>= ]{0,4} ?[:：]"
        r"|(?:^|\n)[ \t#*]{0,8}(?:system(?:hinweis|meldung|nachricht|anweisung)|note systeme"
        r"|nota (?:di|del|do) sistema|mensaje del sistema|messaggio di sistema) ?[:：]"
        r"|[<\[{(](?:system|admin|developer|assistant|important)"
        r"(?:[ _\-](?:message|prompt|note|instructions?|override))?[>\]})]"
        r"|\b(?:human|user):[^\n]{0,80}\n{1,3}assistant:|\"role\": ?\"system\""
        r"|[\-#=*]{2,40} ?(?:end|begin|start) of [a-z ]{0,30}"
        r"(?:prompt|document|instructions?|context|data|input)"
        r"|</(?:data|document|context|tool_result|user_input)>|\bsystem (?:note|override)\b"
    )
)
"""Markers of speakers in prompts."""

HEADING: Final = re.compile(
    folded_pattern(
        r"(?:^|\n)[ \t#*_=>\[(<!\-]{0,8}(?:(?:your )?new|updated|additional|revised|override|priority|urgent"
        r"|neue|nouvelles?|nuevas?|nuove|nuovo|novas?|новые|новая|yeni)"
        r"(?: (?:important|urgent|system|secret|special))?[ _](?:instructions?|tasks?|directives?|rules"
        r"|anweisung(?:en)?|aufgaben?|instrucciones|tareas?|istruzioni|compito|instrucoes|tarefas?|инструкции"
        r"|задача|talimatlar)[ \t*_=\])>!\-]{0,8}(?:[:：]|\n)"
    )
)
"""Headings of another task."""

PATH: Final = re.compile(r"(?<![\w.:/])\.{0,2}(?:/[\w.\-]{1,40}){2,8}|(?<![\w.:/])\./[\w.\-]{2,40}")
TOOL: Final = re.compile(r"(?<![\w.`(])[a-z]{2,20}(?:_[a-z]{2,20}){1,4}(?![\w`(]|\.\w)")
"""Names in the form of tool names, outside of code."""

DISCUSSED: Final = re.compile(
    folded_pattern(
        r"\b(?:such as|e\.g\.|for example|for instance|examples?|phrases?|prompt[ \-]injections?|jailbreaks?"
        r"|jailbreaking|attack(?:s|ers?)?|malicious|payloads?|adversar\w{2,5}|injections?|strings?"
        r"|test(?:s|ing| cases?)?|detect\w{0,4}|assert\w{0,8}|regex|patterns?|filter(?:s|ed)?|block(?:s|ed)?"
        r"|flag(?:s|ged)?|grep|called|titled|wrote|writes|like|tricks?|scam|phishing|refuse\w?|typed"
        r"|beispiel\w{0,3}|angreifer|angriff\w{0,2}|exemple|attaquants?|ejemplo|ataques?|atacantes|aggressori"
        r"|saldirgan\w{0,5}|злоумышленник\w{0,3})\b|攻击者|攻撃者|注入|インジェクション"
    )
)
"""Words before a quoted text."""

PRETEXT: Final = re.compile(
    r"(?:strictly )?for test(?:ing)?(?: purposes)?|this is a test\b|test pipeline|tests do not fail"
)
"""Words about tests that justify an order instead of discussing one."""

CLOSED_UP: Final = re.compile(
    r"(?:ignore|disregard|forget)(?:all|any|the|your|of|my|these|those){0,4}(?:previous|prior|above|earlie"
    r"r|system)?(?:instruction|prompt|rule|guideline|direction)|systemprompt|doanythingnow"
)

_SECTION = re.compile(r"^\[(.+)\]\n([^\[]+)", re.M)
_FILE = files("reactive_agents.adapters.governance.guardrails") / "injection_words.txt"
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

    The result for a word is computed once, in time that depends on its length only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._terms: dict[str, _Terms] = {}
        self._stems: dict[str, _Terms] = {}
        self._slips: dict[str, str] = {}
        wide: list[str] = []
        for section in _SECTION.finditer(_FILE.read_text(encoding="utf-8")):
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
        if len(word) > 16 and CLOSED_UP.search(word):
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
