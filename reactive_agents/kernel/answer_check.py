"""Whether a text is an answer, by its structure and what the run has seen.

Models that slip announce a call and do not make it, offer to make it, or answer with figures that they have
not looked up. Lists of such sentences would be endless, and useless in other languages. An answer differs
from an announcement in that it ends with something that was found.

All functions are pure and total. What they cannot judge counts in the model's favour. Their work is linear in
the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Literal, TypeAlias

from reactive_agents.core.figures import (
    LIST_MARK,
    NUMBER,
    NUMBERED,
    KnownNumbers,
    numbers_and_names,
    numerals,
    occurs,
)
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel.announcements import (
    QUOTATION,
    Clause,
    Sign,
    act_of,
    asks_about_speaker,
    asks_advice,
    asks_what,
    begins_acts,
    begins_words,
    composes,
    denies,
    is_courtesy,
    is_offer,
    is_reading,
    is_unavailable,
    read_clause,
    refuses,
    says_whether,
    sign_of,
    speaks_for_others,
    speaks_of_oneself,
    speaks_to_reader,
    subjects_in,
    subjects_of_task,
)
from reactive_agents.kernel.call_parsing.spelled_calls import SpelledCall
from reactive_agents.kernel.clauses import (
    FEW_WORDS,
    LETTER,
    LONGEST_GREETING,
    MANY_WORDS,
    OPEN_END,
    QUESTION,
    REQUEST_MARK,
    SHORT_WORD,
    UNTELLING,
    WORD,
    ToolWords,
    asks_mean,
    asks_total,
    beginnings_in,
    clauses_of,
    has_thanks,
    is_english,
    is_unread,
    joined,
    last_clause,
    lists_things,
    may_be_order,
    names_one_of,
    names_particulars,
    read_tool,
    size_of,
    squeezed,
    telling_words,
    words_of,
)
from reactive_agents.kernel.evidence import (
    Background,
    Seen,
    ends_with_evidence,
    follows_from_task,
    has_evidence,
)

Judgement: TypeAlias = Literal["answer", "announcement", "unclear"]
_SENTENCE_END = lazy_pattern(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")
_COMMON_BEGINNINGS = frozenset(word[:4] for word in UNTELLING | word_set("untelling_in_answer"))
"""Words that a text and a task have in common by chance."""
_COLON = lazy_pattern(r"(?:[:：…]|\.\.\.)[\s\"'*_)]*\Z")
_REQUEST = lazy_pattern(r"[?？؟\d]")
_GIVEN_TEXT = lazy_pattern(rf"{QUOTATION.pattern}|[:：](?!\d)\s*\S.{{5,}}\Z", re.DOTALL)
"""A text in a task that something is to be done with."""
_LEAST_SHARE = 3
_LEAST_FINDINGS = 2
_MOST_CLAUSES = 20
"""Clauses of a text that are looked at for evidence, the last ones."""
_HELLO = lazy_pattern(
    rf"\A¡?(?:{alternatives('hello')}(?: there| again)?|{alternatives('ready_to_help')}"
    rf"|{alternatives('hello_unspaced')})\b ?[.,!:;。！，、]*",
    re.IGNORECASE,
)
_GREETING = lazy_pattern(expression("greeting", after=""), re.IGNORECASE)
"""In tasks for which a greeting may be the answer."""
_MAY_I_HELP = lazy_pattern(
    rf"{alternatives('may_i_help')}(?: {alternatives('today')})? ?[.?!？。]*", re.IGNORECASE
)
"""A greeting, and an offer of help that is about nothing in particular."""
_CHEER = lazy_pattern(r"\A(?:\S+[ \u00a0\u202f]){0,4}\S*!\Z")
"""A remark such as "Keep going!", or "Bonne route !"."""
_LINES = 2
"""Ends of lines in a text that is more than a remark."""
_QUOTES = " \n\"'“”„«»「」"
_UNKNOWN = word_set("unknown")
_MARKS = f"{_QUOTES}:："
_SOME_WORDS = 12
"""Words that announcements seldom have."""
_LONGEST_ACKNOWLEDGEMENT = 3
_CALL_TAGS = r"<(?:tool_call|function[=_ ]|tool_code|invoke)|\[TOOL_CALLS\]|<\|(?:tool|python_tag)"
_BEGINS_CALL = lazy_pattern(rf"\s*(?:{_CALL_TAGS})", re.IGNORECASE)
_CALL_SIGNS = lazy_pattern(
    rf"{_CALL_TAGS}|^functions\.\w+:\d+\s*(?:[<{{]|$)|^[ \t]*Action(?: Input)?[ \t]*:"
    r"|\{\s*[\"'](?P<key>name|tool|tool_name|function|action)[\"']\s*:\s*[\"'](?P<name>[\w.-]+)",
    re.IGNORECASE | re.MULTILINE,
)
_ARGUMENTS = lazy_pattern(r"[\"'](?:arguments|args|parameters|params|input|kwargs)[\"']", re.IGNORECASE)
_NUMBER_OF_ENTRY = lazy_pattern(r"(?:#|\bid\W{0,4})\d+")
"""By which a tool names what it stored: "#14"."""
_PASSING = lazy_pattern(
    r"\b(?:again|later|moment|busy|retry|temporar\w*|time[d -]?out|rate.?limit\w*|429|50\d)\b", re.IGNORECASE
)
"""In errors that another try may not meet."""
_FAILED = lazy_pattern(
    rf"\W*(?:(?!{alternatives('negation')}\b)[^\W\d]\w*[ :]\s*){{0,2}}(?P<sign>{alternatives('failed')})\b"
    rf"(?!-|(?: [^\W\d]+){{1,3}} ?: ?\d|(?: [^\W\d]+){{0,3}} ?: ?(?:0|{alternatives('negation')})\b(?! \w))",
    re.IGNORECASE,
)
"""The beginning of a result that is an error: "Error: …", "Permission denied".

A number or "none" after the name of something is data: "Denied requests: 2", "Failed: 0, passed: 9".
"""
_FAILED_FIELD = lazy_pattern(
    r"\s*\{(?:[^{}]*,)?\s*[\"'](?:error[\"']\s*:(?!\s*(?:null\b|None\b|false\b|[\"']{2}|\[\]|\{\}|0\b))"
    r"|(?:success|ok)[\"']\s*:\s*(?:false\b|0\b)|status[\"']\s*:\s*[\"'](?:error|fail(?:ed|ure)?)[\"'])",
    re.IGNORECASE,
)
"""The field of a result by which a call has failed: ``{"success": false}``."""
_DENIAL = frozenset({"denied", "forbidden", "unauthorised", "unauthorized"})
_PERMISSION = lazy_pattern(expression("permission"), re.IGNORECASE)
"""Words of a task to which a denial is the answer."""
_TAG = lazy_pattern(r"</?[\w|]{1,20}>")
_LONGEST_LABEL = 3
"""Words before a delivered call: "Step 2:", "I call"."""
NOTHING_SEEN = Seen("")


def announces(text: str, seen: Seen) -> bool:
    """Return whether a text ends with what comes next, and states nothing found."""
    return _sign(clauses_of(text), seen) == "plain" and not any(
        _adds(each, seen) for each in clauses_of(text)
    )


def explains(text: str, task: str, errors: Sequence[str]) -> bool:
    """Return whether a text says why the tools failed, and claims nothing else.

    Its figures all occur in the errors or the task. It shares words of the errors that the task does not
    have: half of what its last clause adds to the task, or, where it denies something, any. The errors are
    English: in another language it denies something as they do.
    """
    shown = "\n".join((task, *errors))
    if not all(occurs(figure, shown) for figure in numbers_and_names(text)):
        return False
    told = words_of("\n".join(errors)) - words_of(task)
    added = words_of(last_clause(text)) - words_of(task)
    is_denied = any(denies(each.rpartition("): ")[2]) for each in errors)
    shares_no_words = is_denied and not is_english(task)  # an answer in a language other than the error's
    if denies_or_lacks(text) and (shares_no_words or told & words_of(text)):
        return True
    return bool(added) and 2 * len(added & told) >= len(added)


def tells_failure(text: str, error: str, *, is_repeated: bool = False) -> bool:
    """Return whether a text says what a tool said of its failure.

    A clause of it denies something, or calls it unknown, and has a word of the error, or it begins with a no
    where the error denies something, too. Of an error without a denial it may have several words alone:
    "Roma was full". What may pass, such as a timeout, is no reason to end.

    Args:
        is_repeated: whether the tool failed the time before too, so that it has not passed.
    """
    _, _, detail = error.rpartition("): ")
    if _PASSING.search(detail) and not is_repeated:
        return False
    told = begins_words(detail)
    clauses = clauses_of(text)
    if clauses and says_whether(clauses[0]) and denies(clauses[0]) and denies(detail):
        return True
    if any(denies_or_lacks(each) and told & begins_words(each) for each in clauses):
        return True
    found, said = words_of(detail), [words_of(each) - UNTELLING for each in clauses]
    return not denies(detail) and any(len(each) > 1 and each <= found for each in said)


def denies_or_lacks(text: str) -> bool:
    """Return whether a text has a negation, or says that something is unknown."""
    clause = read_clause(text)
    return clause.denies or not _UNKNOWN.isdisjoint(clause.words)


def is_empty(result: str) -> bool:
    """Return whether a result holds nothing, as an empty list."""
    return not LETTER.search(result) or result.strip().casefold() in ("null", "none")


def reports_failure(result: str, task: str) -> bool:
    """Return whether a result says at its beginning that the call failed.

    A word of the task, as in "Fix the failed build", tells nothing of that, nor does a denial where the task
    asks whether something is allowed.
    """
    sign = _FAILED_FIELD if result.lstrip().startswith("{") else _FAILED
    found = sign.match(result)
    if found is None or sign is _FAILED_FIELD:
        return found is not None
    word = found["sign"].lower()
    return word not in task.lower() and not (word in _DENIAL and _PERMISSION.search(task))


def ends_with_result(text: str, seen: Seen) -> bool:
    """Return whether a text ends with a whole result, such as a translation."""
    ended = text.strip(_MARKS)
    return any(
        size_of(result) > 1 and ended.endswith(result)
        for result in (each.strip(_MARKS) for each in seen.results)
    )


def denies_in_part(text: str) -> bool:
    """Return whether a clause of a text has a negation."""
    return any(read_clause(each).denies for each in clauses_of(text))


def is_refusal(text: str, seen: Seen) -> bool:
    """Return whether a text says only that the task cannot be done.

    Each clause of more than two words denies something, and one of them is about the speaker's ability, or
    says that something is not available. It has no evidence, and no figure besides those of the task.
    """
    said = [read_clause(each) for each in clauses_of(text) if size_of(each) > 2]
    clauses = [each for each in said if not is_courtesy(each)]
    if not all(each.denies for each in clauses) or asks_about_speaker(seen.task):
        return False
    known = "\n".join((seen.task, *seen.results))
    if not any(refuses(each) or is_unavailable(each, known) for each in clauses):
        return False
    if any(not occurs(figure, seen.task) for figure in numbers_and_names(text)):
        return False
    return not ends_with_evidence(text, seen)


def has_no_tool(text: str, task: str, tools: Mapping[str, str]) -> bool:
    """Return whether a text says that the order cannot be done, and no tool does it.

    Args:
        tools: descriptions of the tools by their names.
    """
    denied = [clause for each in clauses_of(text) if refuses(clause := read_clause(each))]
    told = {start for clause in denied for start in begins_acts(clause.text)}
    act = act_of(task)
    return act in told and act not in beginnings_in(tools) and not is_reading(act)


def judge_text(text: str, tools: Mapping[str, str], seen: Seen) -> Judgement:
    """Return whether a text without a call is an answer, by its last clause.

    It announces when it ends with a question, a colon or an ellipsis, says what the speaker does next, or
    names a tool and nothing found. It is an answer when it ends with evidence, or when nothing speaks
    against it: no sign of an announcement, no results that it tells nothing of, and no unused tool for what
    the task asks. A last clause that offers the reader more, if they wish, is passed over.

    Args:
        tools: descriptions of the tools by their names.
    """
    text, clauses = joined(text), clauses_of(text)
    known = [read_tool(name, description) for name, description in tools.items()]
    if not seen.results and _repeats(text, seen.task, known):
        return "answer"
    if not clauses or (OPEN_END.search(text) and not _ends_with_question(clauses, seen)):
        return "announcement"
    results = seen.found
    acts = {tool.act for tool in known if tool.act and not results}
    clause, sign = _judged(clauses, acts, seen)
    if sign in ("plain", "mood"):
        return "unclear" if sign == "mood" and size_of(text) >= MANY_WORDS else "announcement"
    evident = bool(results) and has_evidence(
        clause.text, seen, Background(" ".join((seen.background.text, *tools)))
    )
    in_text = squeezed(text)
    named = [tool for tool in known if tool.name in in_text]
    if not evident and _announces_in_sentence(text, clause.text, named, acts, seen):
        return "announcement"
    if any(tool.is_telling for tool in named):
        if names_one_of(named, clause.text, telling_only=True):
            return "unclear"
        if not (asks_about_speaker(seen.task) or any(ends_with_evidence(each, seen) for each in clauses)):
            return "unclear"
    if evident:
        return "answer"
    if sign is not None:  # "There is one: IT-31. I didn't create another"
        doubtful = not (clause.denies and any(ends_with_evidence(each, seen) for each in clauses))
    elif seen.results:
        doubtful = not (clause.denies or _is_about(clause.text, _told_about(seen)))
    else:
        doubtful = _may_need_call(text, tools, known, seen.task)
    return "unclear" if doubtful and not follows_from_task(clause.text, seen) else "answer"


def _announces_in_sentence(
    text: str, clause: str, tools: Sequence[ToolWords], acts: Set[str], seen: Seen
) -> bool:
    """Return whether the sentence of a clause without evidence announces a call.

    It names a tool, other than in a denial or an answer of yes or no, or it says what comes next.

    Args:
        tools: those that the text names.
    """
    sentence = _SENTENCE_END.split(text[: text.rindex(clause) + len(clause)].strip())[-1]
    if tools and names_one_of(tools, sentence, telling_only=False):
        asked = squeezed(seen.task)  # an answer about a refund does not name a tool "refund" that makes one
        named = [each for each in tools if each.is_telling or is_reading(each.act) or each.name not in asked]
        if names_one_of(named, sentence, telling_only=denies(sentence) or says_whether(clause)):
            return True
    return sentence != clause and sign_of(read_clause(sentence), acts, seen.task, seen.found) == "plain"


def _may_need_call(text: str, tools: Mapping[str, str], known: Sequence[ToolWords], task: str) -> bool:
    """Return whether a text before the first call may be about what a tool is for."""
    asked = subjects_of_task(task)
    if [tool for tool in known if not tool.subjects.isdisjoint(asked)]:
        return True
    if not known or not (names_particulars(task) or is_unread(task) or may_be_order(task, tools)):
        return False
    told = telling_words(text)
    rearranges = len(text.split()) >= FEW_WORDS and bool(told) and told <= telling_words(task)
    return not rearranges and size_of(text) < MANY_WORDS


def _judged(clauses: Sequence[str], acts: Set[str], seen: Seen) -> tuple[Clause, Sign | None]:
    """Return the last clause before those that follow the answer, with its sign.

    Passed over are offers of more, and after evidence what announces nothing and has none: "Enjoy!"

    Args:
        acts: what tools are for, of :func:`sign_of`; none where there are results.
    """
    kept = [*clauses[:-1]] if _ends_with_question(clauses, seen) else [*clauses]
    while kept[1:] and is_courtesy(kept[-1]):
        kept.pop()
    results, last = seen.found, read_clause(kept[-1])
    sign = sign_of(last, acts, seen.task, results)
    judged = last, sign
    for clause in map(read_clause, kept[: -_MOST_CLAUSES - 1 : -1] if results else ()):
        sign = sign if clause is last else sign_of(clause, acts, seen.task, results)
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

    One about the speaker, such as "Shall I go on?", ends more than one thing found for a question, or a
    denial with something found: "I booked none, Mar costs 120". Before a look-up it follows a long text,
    other than questions, and may be about anything.
    """
    last = clauses[-1]
    if not QUESTION.search(last):
        return False
    if not seen.results:
        stated = [each for each in clauses if not QUESTION.search(each)]
        is_long = size_of(" ".join(stated)) >= MANY_WORDS
        return is_long and sign_of(read_clause(stated[-1]), set(), seen.task) is None
    evident = [each for each in clauses[-_MOST_CLAUSES:-1] if ends_with_evidence(each, seen)]
    if speaks_of_oneself(last):
        is_asked = len(evident) >= _LEAST_FINDINGS and REQUEST_MARK.search(seen.task) is not None
        return is_asked or any(map(denies, evident))
    return bool(evident) and speaks_to_reader(last)


def concludes(text: str, tools: Mapping[str, str], seen: Seen) -> bool:
    """Return whether a text is the answer where nothing plainly is left to do.

    Less is a sign of an announcement there. A question at the end offers more; what the speaker would do is
    advice, where it rests on what was found; and what the speaker will do is an acknowledgement, where all
    that the tools said is that it is done. What stands in quotation marks is not said by the speaker.

    Args:
        tools: descriptions of the tools by their names.
    """
    clauses = [*clauses_of(QUOTATION.sub("_quoted_", text))]
    sign, is_offered, is_long = _sign(clauses, seen), False, size_of(text) >= 2 * MANY_WORDS
    while clauses[1:] and _follows_answer(clauses, sign, seen, is_long=is_long):
        last = clauses.pop()
        is_offered = is_offered or not (is_courtesy(last) or _CHEER.search(last))
        sign = _sign(clauses, seen)
    if not clauses or _COLON.search(clauses[-1]):
        return False
    clause, known = clauses[-1], [read_tool(name, description) for name, description in tools.items()]
    if not seen.results:
        return _is_said(clause, text, known, seen, is_offered=is_offered)
    if QUESTION.search(clause) or lacks_total(text, seen):
        return False
    adds, decides = _adds(clause, seen), says_whether(clause)
    is_settled, is_acknowledged = decides or any(map(denies, clauses[-2:])), _is_acknowledged(seen)
    if not adds and names_one_of(known, clause, telling_only=is_settled or is_acknowledged):
        return False
    if is_acknowledged:
        return sign in (None, "faint") or (speaks_of_oneself(clause) and _is_restated(clause, seen.task))
    if sign in ("plain", "mood"):
        return adds and sign == "mood"
    if is_offered:
        return adds or is_settled
    if sign == "faint":
        return (adds or decides) and not speaks_of_oneself(clause)
    return adds or is_settled or _is_about(clause, _told_about(seen)) or _tells(clauses, known, seen)


def _follows_answer(clauses: Sequence[str], sign: Sign | None, seen: Seen, *, is_long: bool) -> bool:
    """Return whether the last clause offers more, or advises after what was found.

    Args:
        sign: of that clause.
        is_long: whether the text is long.
    """
    last = clauses[-1]
    if is_courtesy(last) or (QUESTION.search(last) is not None and is_offer(last)):
        return True
    if seen.results and sign is None and _CHEER.search(last) and not speaks_of_oneself(last):
        return _sign(clauses[:-1], seen) is None  # nothing is to come before it
    if not seen.results or sign is None:
        return False
    if sign == "faint":
        advises = is_long and (denies(last) or not speaks_of_oneself(last))
    else:
        advises = sign == "mood" or speaks_for_others(last) or (is_long and not speaks_of_oneself(last))
    return advises and any(denies(each) or _adds(each, seen) for each in clauses[-_MOST_CLAUSES:-1])


def _sign(clauses: Sequence[str], seen: Seen) -> Sign | None:
    return sign_of(read_clause(clauses[-1]), set(), seen.task, seen.found, is_done=True) if clauses else None


def _is_said(clause: str, text: str, tools: Iterable[ToolWords], seen: Seen, *, is_offered: bool) -> bool:
    """Return whether a text answers a task that the tools have nothing to do with.

    Args:
        clause: the last one that offers nothing.
        is_offered: whether an offer follows it.
    """
    words = size_of(text)
    if asks_about_speaker(seen.task):
        return words >= (_SOME_WORDS if QUESTION.search(clause) else FEW_WORDS)
    if _may_repeat(text, seen.task, tools):
        return True
    is_greeting = len(seen.task.split()) <= LONGEST_GREETING and not _REQUEST.search(seen.task)
    if any(refuses(read_clause(each)) for each in clauses_of(text)):
        return True  # none of the tools is for it
    if not is_greeting and names_one_of(tools, text, telling_only=words >= MANY_WORDS):
        return False
    if QUESTION.search(clause):
        return is_greeting or not (speaks_of_oneself(clause) or speaks_to_reader(clause))
    sign = sign_of(read_clause(clause), set(), seen.task)
    if is_greeting:
        return sign != "plain"
    if words >= MANY_WORDS:
        return True
    if sign in (None, "faint") and len(LIST_MARK.findall(text)) > 1:
        return True
    if is_offered or sign == "faint":
        return words >= _SOME_WORDS or _is_restated(clause, seen.task)
    return sign is None


def _may_repeat(text: str, task: str, tools: Iterable[ToolWords]) -> bool:
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


def _repeats(text: str, task: str, tools: Iterable[ToolWords]) -> bool:
    """Return whether a text plainly is one of the task in other words.

    It has words of it, or that one is no list, of which "It is sorted now" might be said.
    """
    given = _GIVEN_TEXT.search(task)
    if given is None or NUMBERED.search(text) or not _may_repeat(text, task, tools):
        return False
    if not LETTER.search(text):
        return False
    if OPEN_END.search(text) and not OPEN_END.search(given[0].rstrip(_QUOTES)):
        return QUESTION.search(text) is not None and _asks_instead(text, given, tools)
    return not lists_things(given[0].strip(_MARKS)) or len(begins_words(given[0]) & begins_words(text)) > 1


def _asks_instead(text: str, given: re.Match[str], tools: Iterable[ToolWords]) -> bool:
    """Return whether a question may be an order of the task in other words.

    "Would you please close the window?" has the words of it, and none of what is to be done with it. No tool
    acts, or the task asks for a text.
    """
    task = given.string
    if not composes(task) and any(tool.may_act for tool in tools):
        return False
    told, ordered = begins_words(text), begins_words(given[0])
    is_about = bool(ordered) and 2 * len(told & ordered) >= len(ordered)
    return is_about and told.isdisjoint(begins_words(task[: given.start()]) - ordered)


def _is_restated(clause: str, task: str) -> bool:
    """Return whether a clause has a telling word of the task, in some form."""
    return bool(begins_acts(clause) & begins_acts(task) - _COMMON_BEGINNINGS)


def _is_acknowledged(seen: Seen) -> bool:
    """Return whether a task is an order, and the tools said only that it is done."""
    return not REQUEST_MARK.search(seen.task) and all(
        result == result.lower()
        and len(SHORT_WORD.findall(result)) <= _LONGEST_ACKNOWLEDGEMENT
        and all(occurs(figure, seen.task) for figure in numbers_and_names(_NUMBER_OF_ENTRY.sub(" ", result)))
        for result in seen.results
    )


def _adds(clause: str, seen: Seen) -> bool:
    """Return whether a clause has something of the results beyond the task."""
    results = seen.found
    figures = [*numbers_and_names(clause), *numerals(clause)]
    if any(not occurs(each, seen.task) and occurs(each, results) for each in figures):
        return True
    if len(clause.split()) <= FEW_WORDS and any(
        map(KnownNumbers(f"{seen.task}\n{results}", ()).supports, figures)
    ):
        return True
    if has_evidence(clause, seen, Background(seen.task)):
        return True
    return not seen.found_beginnings.isdisjoint(begins_words(clause))


def lacks_total(text: str, seen: Seen) -> bool:
    """Return whether a text lacks a total of several results: its figures are theirs."""
    if len(seen.results) < 2 or not all(map(NUMBER.search, seen.results)):
        return False
    if asks_mean(seen.task) or not asks_total(seen.task):
        return False  # for a mean, they may be what it is of
    shown = "\n".join((seen.task, *seen.results))
    return all(occurs(each, shown) for each in (*numbers_and_names(text), *numerals(text)))


def _tells(clauses: Sequence[str], tools: Iterable[ToolWords], seen: Seen) -> bool:
    """Return whether a text without evidence at its end has to do with what was found.

    That is a last clause about a tool, evidence or a denial in a clause before it, or results that
    acknowledge and tell nothing.
    """
    told, asked = subjects_in(seen.found), subjects_in(seen.task)
    if told <= asked and all(occurs(figure, seen.task) for figure in numbers_and_names(seen.found)):
        return True
    if any(tool.subjects & subjects_in(clauses[-1]) for tool in tools):
        return True
    before = clauses[-_MOST_CLAUSES:-1] if not speaks_of_oneself(clauses[-1]) else []
    return any(read_clause(each).denies or _adds(each.rstrip("?"), seen) for each in before)


def only_greets(text: str, task: str) -> bool:
    """Return whether a text only greets, thanks and offers help.

    The task does not greet. The text may be all thanks and "Sure!" where no yes or no is asked for.
    """
    is_greeting = len(task.split()) <= LONGEST_GREETING and not REQUEST_MARK.search(task)
    if is_greeting or _HELLO.match(task.strip()) or _GREETING.search(task):
        return False
    said = (each for each in clauses_of(text.replace("’", "'")) if not has_thanks(each))
    rest, before = " ".join(said), ""
    while rest != before:
        before, rest = rest, _HELLO.sub("", rest, count=1).strip()
    return _MAY_I_HELP.fullmatch(rest) is not None or (bool(text.strip()) and not rest and asks_what(task))


def is_told_at_length(text: str, seen: Seen) -> bool:
    """Return whether a text is longer than those that come before a look-up.

    Where something was found, two of its clauses have evidence; elsewhere it is on what a model may know, and
    may be shorter where it has several lines, or advises.
    """
    size = size_of(text)
    if seen.results:
        found = (each for each in clauses_of(text)[-_MOST_CLAUSES:] if ends_with_evidence(each, seen))
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
    if not verb or text.strip().count("\n") < _LINES or OPEN_END.search(text):
        return False
    return act_of(verb) not in beginnings_in(tools)


def _told_about(seen: Seen) -> str:
    """Return the texts that an answer shares words with.

    In languages in which announcements have no sign, the task is none of them.
    """
    found = f"{seen.given}\n{seen.found}"
    return found if is_unread(seen.task) else f"{seen.task}\n{found}"


def _is_about(text: str, shown: str) -> bool:
    """Return whether a text shares a telling word or a number with what was shown."""
    return not telling_words(text).isdisjoint(SHORT_WORD.findall(shown.lower()))


def unmade_call(
    text: str,
    spelled: Sequence[SpelledCall] = (),
    seen: Seen = NOTHING_SEEN,
    *,
    told: str = "",
    delivered: bool = False,
    quotes: bool = True,
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
        quotes: whether what begins there with the tag of a call may be of a result.
    """
    is_own = not quotes and _BEGINS_CALL.match(text) and WORD.search(_TAG.sub("", text))
    if (is_own or not delivered) and (name := _signed(text)) is not None:
        return name
    asked = f"{seen.task}\n{told}"
    found = [
        each
        for each in spelled
        if each.tool != FINAL_ANSWER
        if each.named or "json" not in asked.casefold() or not all(occurs(key, asked) for key in each.keys)
    ]
    if not found:
        return None
    lead, rest = text[: found[0].start], _TAG.sub("", text[found[-1].end :])
    if delivered and (len(lead.split()) > _LONGEST_LABEL or WORD.search(rest)):
        return None
    if seen.results:
        goes_on = any(ends_with_evidence(each, seen) for each in clauses_of(rest))
    else:
        goes_on = WORD.search(rest) is not None
    return None if goes_on and re.search(r"\w", rest) else found[0].tool


def _signed(text: str) -> str | None:
    """Return the name in a call in one of the forms that models are trained for."""
    sign = _CALL_SIGNS.search(text)
    if sign is None:
        return None
    written = text[sign.start() :]
    is_whole = "}" in written and written.count("{") == written.count("}")
    if is_whole and WORD.search(_TAG.sub("", written[written.rindex("}") :])):
        return None
    if is_whole and sign["key"] == "name" and not _ARGUMENTS.search(written):
        return None
    return next((each["name"] for each in _CALL_SIGNS.finditer(text) if each["name"]), "")
