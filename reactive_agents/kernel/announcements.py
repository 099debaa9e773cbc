"""Signs that a clause announces what the speaker will do, by closed word classes.

Announcements are about the speaker and what comes next; answers are about their subject. So a clause is
judged by its pronouns of the first person, auxiliaries, adverbs of sequence and verb endings: classes of
words that a language does not add to, instead of sentences, which are endless. The tables are of
twelve languages; in others nothing is a sign, and what is no announcement by its form is judged by its
evidence.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

Sign: TypeAlias = Literal["plain", "faint"]
"""``plain``: it says what comes next. ``faint``: it is about the speaker, or names an act of a tool."""


def _table(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPEAKER = _table(
    "i i'm i'll i'd i've we we're we'll we'd we've me us ich wir mich mir uns je nous moi yo "
    "nosotros io noi eu nós ik wij я мы мне нам"
)
_HORTATIVE = _table(
    "let let's lass lassen laissez laissez-moi déjame déjeme dejadme permíteme permítame lasciami "
    "lasciatemi deixe-me deixa-me laat pozwól pozwólcie давайте давай позвольте hadi"
)
_WITH_SPEAKER = _table("i'll we'll i'd i'm would want able ready try can kann")
"""Signs of an intention where the speaker is the subject only."""
_INTENT = _table(
    "will shall should must need needs ought going gonna werde werden muss müssen möchte sollte sollten "
    "vais allons dois devons voudrais faut voy vamos necesito debo tengo quiero estoy vado devo "
    "dobbiamo voglio sto vou preciso devo quero estou zal zullen ga gaan moet moeten wil muszę musimy "
    "chcę нужно должен должны буду будем надо хочу"
)
_SEQUENCE = _table(
    "now next first firstly then before afterwards shortly soon again jetzt nun gleich zunächst zuerst "
    "nächstes danach dann maintenant d'abord ensuite puis bientôt ahora primero luego después enseguida "
    "ora adesso prima poi subito agora primeiro depois seguida nu eerst daarna vervolgens straks teraz "
    "najpierw zaraz następnie potem şimdi önce hemen birazdan сейчас теперь сначала затем далее потом"
)
_WAIT = _table(
    "moment moments sec minute augenblick instant momento momentito attimo momentje chwilę chwileczkę "
    "saniye dakika минутку секунду"
)
_FOLLOWING = _table(
    "next following upcoming nächste nächsten folgenden suivant suivante siguiente prossimo prossima "
    "seguente próximo próxima seguinte volgende następnej następny следующем следующее"
)
_NUMBERED = re.compile(r"\W*[^\W\d_]+ \d{1,2}\s*[:.)]")
_NEGATION = _table(
    "not no nothing none nobody never cannot can't couldn't don't doesn't didn't won't unable nicht "
    "kein keine keinen pas non ne não nada niet geen nie değil yok не нет"
)
_READER = _table(
    "you your you'd you're sie ihnen ihr vous usted ustedes você u jij siz вы вам ти pan pani lei"
)
_CONDITION = _table("if wenn falls si se als jeśli jeżeli eğer если")
_COMMON = _table(
    "about after also another anything before both call could deliver does each ends every find from "
    "get give given have here into item items know like look made make many more most much need once "
    "only other over page pages question return same search show some something task tell text than "
    "that their them then there these they thing this those time using want what when where which with "
    "word words work would your answer"
)
"""Words of tasks and descriptions that say nothing of their subject."""
_STEM = 6
"""Letters by which forms of one word are alike."""
_FINITE = _table("is are was were has have had can could will would may might must does do")
_ENDINGS = re.compile(
    r"(?:.(?:ar|er|ir)é|.[aei]remos|.(?:er|ir)ò|.(?:er|ir)emo|.[aei]rei|.erai"  # es, it, pt, fr
    r"|(?:y?[ae]c[ae]ğ[ıi]m|.[ıiuü]yorum|.y?[ae]l[ıi]m|.[ae]y[ıi]m)"  # Turkish
    r"|.{2}[аеияую]ю|.{3}[влнрж]ю|.{3}жу)\Z"  # Russian
)
_PARTICIPLE = re.compile(r".{2,}(?:ing|[aei]ndo)\Z")
_NO_PARTICIPLES = _table("nothing everything something anything during according including regarding king")
_UNSPACED = re.compile(
    r"我|让我|我们|咱们|正在|接下来|首先|稍等|马上|现在开始|将使用"  # Chinese
    r"|(?:(?<![てで]い)(?<!あり)(?<!おり)(?<!なり)ます|ましょう|ください|てみる)[。！\s]*\Z"  # Japanese
)
_NEGATION_UNSPACED = re.compile(r"不|没|ません|ない|無")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*'?")
_PART = re.compile(r"[,，、:：(]")
_SHARED = 4
"""Letters at the beginning that two forms of one verb have in common, at least."""


def sign_of(clause: str, acts: Collection[str], task: str, results: str = "") -> Sign | None:
    """Return the sign of an announcement in a clause, if it has one.

    Args:
        acts: verbs of the tools, the first words of their descriptions.
        task: its words are no signs.
        results: what tools returned; a participle that occurs there is a noun.
    """
    negative = denies(clause)
    if _UNSPACED.search(clause) and not negative:
        return "plain"
    parts = [words for part in _PART.split(clause) if (words := _words(part))]
    every = [word for words in parts for word in words]
    if not every:
        return None
    asked = set(_words(task))
    told = set(every) - asked
    speaks = bool(_SPEAKER & set(every) or _HORTATIVE & told)
    ordered = any({words[0], words[-1]} & _SEQUENCE - asked for words in parts) or bool(_FOLLOWING & told)
    intends = bool((_INTENT | _WITH_SPEAKER | _HORTATIVE) & told) or ordered
    if bool(_WAIT & told) or any(_ENDINGS.search(word) for word in told):
        return "plain"
    if not negative and ((speaks and intends) or _is_acting(parts, results)):
        return "plain"
    if (
        speaks
        or ordered
        or _INTENT & told
        or _NUMBERED.match(clause)
        or any(_is_act(word, acts) for word in told)
    ):
        return "faint"
    return None


def denies(clause: str) -> bool:
    """Return whether a clause has a negation."""
    return bool(_NEGATION & set(_words(clause)) or _NEGATION_UNSPACED.search(clause))


def is_about(task: str, description: str) -> bool:
    """Return whether a task has a word of a description that is no common one."""
    return not _stems(description.replace("_", " ")).isdisjoint(_stems(task))


def _stems(text: str) -> set[str]:
    return {word.rstrip("s")[:_STEM] for word in _words(text) if len(word) > 3 and word not in _COMMON}


def is_courtesy(clause: str) -> bool:
    """Return whether a clause offers the reader more, under a condition."""
    words = set(_words(clause))
    return bool(words & _READER and words & _CONDITION)


def _words(text: str) -> list[str]:
    """Return the words in small letters.

    Abbreviations, and an "i" that is no pronoun, are none of these.
    """
    words = _WORD.findall(text.replace("’", "'").replace("j'", "je "))
    return [w.lower() for w in words if w == "I" or not (w == "i" or (len(w) > 1 and w.isupper()))]


def _is_acting(parts: list[list[str]], results: str) -> bool:
    """Return whether a clause begins with a participle without a subject."""
    first, last = (_begins_with_participle(parts[at]) for at in (0, -1))
    head = parts[-1 if last else 0][0]
    return (last or (first and len(parts[-1]) <= 3)) and head not in results.lower()


def _begins_with_participle(words: list[str]) -> bool:
    if len(words) < 2 or words[0] in _NO_PARTICIPLES or words[1] in _FINITE:
        return False
    return _PARTICIPLE.search(words[0]) is not None


def _is_act(word: str, acts: Collection[str]) -> bool:
    return any(word == act or (len(act) >= _SHARED and word.startswith(act[:_SHARED])) for act in acts)
