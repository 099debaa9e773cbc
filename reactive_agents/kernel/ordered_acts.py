"""Acts that a task orders, and of which no call was made.

An act is seen by its verb, which stands where orders have theirs, and by a tool with that verb. The verbs of
common acts are known in a dozen languages, since a tool is described in one and ordered in another.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from attrs import evolve, frozen

from reactive_agents.core.figures import (
    NUMBER,
    follows_at_once,
    has_word,
    numbers_and_names,
    numerals,
    plain_numbers,
    read_number,
    without_list_marks,
)
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.announcements import (
    FINITE,
    ME_OR_US,
    QUOTATION,
    SUBORDINATE,
    Clause,
    act_of,
    denies,
    is_courtesy,
    is_reading,
    read_clause,
    sign_of,
    speaks_of_oneself,
    speaks_to_reader,
    subjects_in,
)
from reactive_agents.kernel.clauses import (
    ADDRESS,
    CONDITION,
    FOR_RESULT,
    MANY_WORDS,
    QUESTION,
    TELLS_SOMEBODY,
    TOGETHER,
    UNSPACED,
    UNTELLING,
    asks_back,
    asks_for_text,
    begins_with,
    clauses_of,
    is_english,
    lists_things,
    may_act,
    may_be_order,
    names,
    read_tool,
    size_of,
    spared_in,
    takes_named,
)
from reactive_agents.kernel.ledger import has_side_effects
from reactive_agents.kernel.open_items import lists_in, open_items

_SEVERAL_WORDS = (
    "send notify book refund cancel restart pay delete order write create remind publish update close"
)
_ACTS = {word: act for act in _SEVERAL_WORDS.split() for word in word_set(f"act_{act}")} | {
    word: word for word in word_set("acts_of_one_word")
}
"""The act that each beginning of a word is of, without accents."""
_UNSPACED_ACTS = tuple((word, act) for word, act in _ACTS.items() if UNSPACED.search(word))
"""Those of languages without spaces between words."""
_LONGEST_BEGINNING, _LONGEST_ORDER = max(map(len, _ACTS)), 2_000
_PLAIN_ACTS = frozenset({"send", "book", "refund", "cancel", "restart", "pay"})
"""Those that an answer cannot stand for, as it may for "Write a list" or "Delete the comma"."""
_ACTS_KNOWN = frozenset(_ACTS.values())
_BROAD = frozenset({"create", "write", "update", "send", "publish", "notify", "order"})
"""Those by which others may be done: a ticket is closed by an update."""
_BASE = re.compile(rf"{alternatives('order_ending')}?\Z")
"""Endings of imperatives and infinitives."""
_PAST = re.compile(rf"{alternatives('past_ending')}\Z")
"""Endings of participles and of the past."""
_PAST_WORDS = word_set("past_form")
"""Whole words of the past, without such an ending."""
_NOT_YET = word_set("not_yet")
"""Auxiliaries by which an act is not done: "it will be sent"."""
_DONE = re.compile(expression("done"), re.IGNORECASE)
"""Words by which an answer says that all is done."""
_DONE_UNSPACED = re.compile(alternatives("done_unspaced"))
_POLITE = word_set("polite")
_JOINS = _POLITE | word_set("join")
_SHORT_JOINS = word_set("short_join")
"""Words after which an imperative may stand, as at the beginning; the short ones are others in English."""
_REQUEST = re.compile(expression("request"), re.IGNORECASE)
"""Words that make a question, or a wish, an order."""
_ENCLITIC = re.compile(r"(?<=\w{5}[aei])(?=l[aeoi]s?\b)")
"""Where a pronoun is written with its verb: "resérvalo"."""
_NO_ORDER = re.compile(expression("no_order"), re.IGNORECASE)
"""Words of clauses that ask or tell about an act."""
_DOUBT = re.compile(rf"{expression('order_in_doubt')}|\S[^\S\n]*\n\s*\S", re.IGNORECASE)
"""Signs that an order may not be meant, or not now."""
_PRONOUNS = word_set("object_pronoun")
"""What an order may be about that was said before: "send it"."""
_NUMBERS = word_set("number_or_me")
"""Words after "order" where it is a verb."""
_NOUN_OF = word_set("of_noun")
"""Words after a noun, as in "the order of Ann"."""
_TELLING = re.compile(rf"\W*(?:{alternatives('before_telling')} )*{alternatives('telling')}\b", re.IGNORECASE)
"""Verbs of a request for a text."""
_INTO_FILE = re.compile(
    rf"\b{alternatives('into_file')}\s+\S+\.[a-z]{{2,4}}\b|\S+\.[a-z]{{2,4}}\s*{alternatives('into_file_after')}",
    re.IGNORECASE,
)
_CONFIRM = re.compile(
    rf"{expression('please_to_confirm')}[^.!?]{{0,40}}\b{alternatives('confirm')}", re.IGNORECASE
)
_ALREADY = re.compile(expression("already"), re.IGNORECASE)
"""In an answer by which the speaker need not have done anything."""
_HEADING = re.compile(r"\W*\w+\W*[:：]")
"""One word before those of which it is said: "Invited: Ann and Bo"."""
_SOME = re.compile(f"{expression('already')}|{expression('only_some')}", re.IGNORECASE)
"""In an answer that does not speak of all that was ordered."""
_ALL = re.compile(expression("all_of"), re.IGNORECASE)
_SEVERAL = word_set("is_of_several")
"""Verbs of several things: "Ann and Bo are invited", not "The talk with Ann and Bo is cancelled"."""
_BETWEEN = re.compile(rf"\([^()]*\)|[,:]|{expression('between_parts')}", re.IGNORECASE)
_BARE = 3
"""Words of an item with its noun."""
_GENERAL = word_set("general_in_tool_name")
"""Words in names of tools that say nothing of the act or its object."""
_ANYTHING = re.compile(rf"\W*{alternatives('for_anything')}", re.IGNORECASE)
"""Verbs of tools that may do anything."""
_TOKEN = re.compile(r"[^\W_]+")
_OBJECT_ADDRESS = re.compile(rf"{ADDRESS.pattern}(?![\w'’-]|\.\w)")
"""An address that something is done for: not "ana@x.org's boss"."""
_DIGIT = re.compile(r"\d")
_ENTRY_END = re.compile(r"[\n}]")
_DIGIT_OR_ADDRESS = re.compile(r"[\d@]")
_GROUPED = re.compile(r"\d(?:[ ()-]{0,2}\d){7,40}")
"""A long number, such as that of a phone or account."""
_OF_ANY = re.compile(
    r"(?:\A|_)(?:id|number|no|nr|code|order|ticket|invoice|booking|issue|case|amount|sum|total|price|value|quantity"
    r"|count)s?(?:_|\Z)",
    re.IGNORECASE,
)
"""Names of parameters for any number of a task."""
_VALUE = re.compile(
    rf"<?{_OBJECT_ADDRESS.pattern}>?|\+?{_GROUPED.pattern}|#?[A-Za-z]{{0,4}}[ -]?\d+(?:[.,]\d{{1,2}})?"
)
"""An argument that is an address or has one number, and is no date or time, nor worked out."""
_NUMBER = re.compile(r"(?:\b[A-Za-z]{1,4}-)?(\d+(?:[.,]\d+)*)")
_COMMA = re.compile(r"[,;]\s*")
_LISTED = re.compile(
    rf"\s*[,;\n、，]\s*(?:{alternatives('and')}\s)?|\s{alternatives('and')}\s", re.IGNORECASE
)
"""What stands between the things of a list."""
_AROUND = " \n.!\"'*[]"
_NO_THING = re.compile(r"(?<![\d.,])(?:\d+\s?[-–]\s?\d+|\d[\d.,]*\s?%)")
"""Ranges and shares, which calls have in other forms."""
_NOON = 12
_MISSPELT = 0.8
"""The least share of letters of the users of two addresses of which one is a slip for the other."""
_COUNTRY_CODE, _LEAST_PHONE = 3, 7
"""The most digits of a country code, and the fewest of a phone number with an area code."""
_MOST_LEFT = 8
_SHARED = 4
"""Letters of a noun that its forms share."""
_LEAST = 3
"""Letters of a word that tells something."""
_NO_VERB = frozenset().union(*map(word_set, ("own", "asking", "determiner", "courtesy")))
"""Words by which no order begins."""
_STATES = (FINITE - {"do"}) | word_set("i_or_we")
"""Words by which a clause states something, before a subordinate one."""
_FETCHING = frozenset({"get", "give"})
"""Verbs that ask for a result, or for what a tool does."""
_REACHES = re.compile(expression("reaches"), re.IGNORECASE)
"""Orders by which somebody else is to be told something."""
_CODE = re.compile(r"\w\(|[{}=;<>]")
_REACHING = frozenset({"send", "publish", "notify"})
_HAVE_DONE = re.compile(expression("have_done"), re.IGNORECASE)
"""Words by which a text says that something was done, whatever it is."""
_GREETS = re.compile(rf"\W*(?:{alternatives('hello')}|{alternatives('thanks')})\b", re.IGNORECASE)
_TO_GREET = re.compile(expression("greeting", after="") + rf"|\b{alternatives('thanks')}", re.IGNORECASE)
"""Words of a task whose answer may be a greeting."""
_DATA = re.compile(
    r"\W*(?:(?:which|whether|what|how|current|live|latest|available|upcoming)\b"
    r"|(?!\w*(?:ion|ment|ing|al)s? of)(?:(?!(?:an?|the|to|for|from|into|on)\b)[\w-]+ ){1,4}"
    r"(?:of|by|per|with)\b)",
    re.IGNORECASE,
)
"""Descriptions that name what a tool returns: "Status of a claim"."""
_ABSENT = re.compile(expression("absent"), re.IGNORECASE)
"""Errors about what does not exist."""
_TEXT_AFTER = re.compile(r"[:：](?!\d|//)(?:[ \t]*\n\s*\n[\s\S]*|.*)")
"""A colon with the rest of the line, or the paragraphs after it, as in a letter or a conversation."""


class CompletedCall(NamedTuple):
    """A call that worked.

    Attributes:
        arguments: the values of each.
        told: all that was said in the call and its result.
    """

    tool: str
    arguments: Mapping[str, Sequence[str]]
    told: str


@frozen
class _Order:
    """An act that a task orders.

    Attributes:
        objects: the words after its verb.
        is_plain: whether nothing speaks against it that the act is meant.
        is_further: whether it follows something else that is asked: "Look it up and cancel it".
    """

    objects: str
    is_plain: bool
    is_further: bool = False


def act_left(
    task: str, text: str, tools: Iterable[ToolDefinition], called: Set[str], results: Iterable[str]
) -> tuple[str, ...]:
    """Return the tools for an act that a task orders, and that no call has done.

    The answer says that it is done, or repeats the task, or tells only what was found before the act, or for
    an address or file of the task. None if it denies or asks something instead, if a result says that it is
    done, or if another tool may have done it.

    Args:
        called: the names of the tools that were called.
    """
    ordered = _orders_in(task)
    if not ordered:
        return ()
    able: dict[str, list[ToolDefinition]] = {}
    for tool in tools:
        acts = _acts_of(tool)
        may_be_any = acts.isdisjoint(ordered) and (not acts or not acts.isdisjoint(_BROAD))
        if tool.name in called and may_be_any and not only_looks(tool):
            return ()
        for act in acts:
            able.setdefault(act, []).append(tool)
    found, said = list(results), list(map(read_clause, clauses_of(text)))
    if found:
        said = [each for each in said if speaks_of_oneself(each.text) or not _ALREADY.search(each.text)]
    evades, is_vague = _evades(text, task, said), _says_only_done(text, task, said)
    for act, order in ordered.items():
        doing = able.get(act, [])
        if any(each.name in called for each in doing):
            continue
        is_beside = order.is_further or any(takes_named(each, task) for each in doing)
        passes_over = is_vague or (bool(found) and is_beside)
        is_left = passes_over and order.is_plain and not evades
        if not is_left and not any(_claims(each, act) for each in said):
            continue
        left = tuple(each.name for each in doing if _may_be_for(each, act, order, task))
        claims = "\n".join(each.text for each in said)
        if left and not any(act in _past_acts(_told_of(claims, each)) for each in found):
            return left
    return ()


def _told_of(text: str, result: str) -> str:
    """Return a result without the lines and entries of other things than a text names.

    Those have another figure of the same form: "TCK-1002" where the text has "TCK-1001".
    """
    named = {*numbers_and_names(text)}
    forms = {_DIGIT.sub("0", each) for each in named if len(each) >= _LEAST}
    told: list[str] = []
    for part in _ENTRY_END.split(result):
        figures = {*numbers_and_names(part)}
        if not figures.isdisjoint(named) or forms.isdisjoint(_DIGIT.sub("0", each) for each in figures):
            told.append(part)
    return "\n".join(told)


def echoed_order_left(
    task: str,
    text: str,
    tools: Sequence[ToolDefinition],
    called: Set[str],
    calls: Sequence[CompletedCall],
    results: Collection[str],
    tried: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the tools for an order that an answer only repeats as done.

    Whatever its verb is: where no tool that acts was called, "Anna now knows that it moved" rests on nothing.
    Such an answer has the words of the order and at most as many others, none of which is a figure or a name,
    or stands in a result.

    Args:
        calls: those that worked.
        tried: the names of tools that there are not, and that were called.
    """
    acting = [each for each in tools if may_act(each) and not only_looks(each)]
    if not acting or any(each.name in called and not only_looks(each) for each in tools):
        return ()
    if len(task) > _LONGEST_ORDER or size_of(text) >= MANY_WORDS or denies(task):
        return ()
    plain, ordered = _TEXT_AFTER.sub(" ", QUOTATION.sub(" ", task)), _orders_in(task)
    orders = [each for each in clauses_of(plain) if _may_order(each, is_looked_up=bool(calls))]
    said = [each for each in map(read_clause, clauses_of(text)) if not is_courtesy(each)]
    said = [each for each in said if _NOT_YET.isdisjoint(each.words) or not speaks_to_reader(each.text)]
    if not orders or _evades(text, task, said) or _ALREADY.search(text) or _CODE.search(text):
        return ()
    if not (ordered or tried) and _words_in([plain]) - _NO_VERB <= _words_in([text]):
        return ()  # a statement that is repeated: "Thanks, the door is closed"
    shown = "\n".join((*results, *(each.told for each in calls), *map(_described, tools)))
    # once something was called for the order, a form of its verb tells that it is done
    verbs = {act_of(each) for each in orders} if calls or tried else frozenset[str]()
    reaches = any(map(_REACHES.search, orders))
    if not (reaches and any(_claims(each, act) for each in said for act in _REACHING)) and (
        (calls and not _adds(text, shown))
        or not _only_repeats(text, plain, calls, results, is_known=bool(ordered), verbs=verbs)
    ):
        return ()
    return _tools_for(task, text, acting, tried, orders, is_looked_up=bool(calls))


def _tools_for(
    task: str,
    text: str,
    acting: Sequence[ToolDefinition],
    tried: Collection[str],
    orders: Sequence[str],
    *,
    is_looked_up: bool,
) -> tuple[str, ...]:
    """Return the tools that an order may be for.

    They do its act, or have a subject in common with it; every one may be if something was looked up, or if
    the order is in a language other than English and the answer says that something was done. A tool that
    there is not is for the order it was called for, unless the answer is the work: "Sort the words pear and
    fig" asks for no more than the words in another order, and "Say hello to Ada" for a greeting.
    """
    ordered, plain = _orders_in(task), _TEXT_AFTER.sub(" ", QUOTATION.sub(" ", task))
    if is_work := _rearranges(text, task) or (not ordered and _greets(text) and _TO_GREET.search(task)):
        acting = [each for each in acting if each.name not in tried]
    if known := [(act, each) for act in ordered for each in acting if act in _acts_of(each)]:
        near = [each for act, each in known if _may_be_for(each, act, ordered[act], task)]
        near = near or [each for _, each in known]
    else:
        about = subjects_in(" ".join(orders))
        reaches = any(map(_REACHES.search, orders))
        near = [each for each in acting if reaches and not _REACHING.isdisjoint(_acts_of(each))]
        near = near or [each for each in acting if read_tool(each.name, each.description).subjects & about]
        near = near or [each for each in acting if takes_named(each, plain)]
        is_foreign = may_be_order(task, {each.name: each.description for each in acting})
        if not (near or is_work) and (is_looked_up or (is_foreign and _HAVE_DONE.search(text))):
            near = [*acting]
        near = near or [each for each in acting if each.name in tried]
    return tuple(dict.fromkeys(each.name for each in near))


def tool_verb_left(
    task: str, text: str, tools: Sequence[ToolDefinition], called: Set[str], results: Iterable[str]
) -> tuple[str, ...]:
    """Return the tools whose verb and noun an order begins with, if none acted.

    "Create an event" is for ``create_event``, whatever verb it is. The answer is short, and has the verb in
    another form, or nothing of a result. None if it denies or asks something, or if a text is asked for.
    """
    acting = [each for each in tools if may_act(each) and not only_looks(each)]
    if any(each.name in called and not only_looks(each) for each in tools):
        return ()
    if size_of(text) >= MANY_WORDS or _CODE.search(text) or not _is_firm(task) or QUESTION.search(task):
        return ()
    if asks_for_text(task) or lists_things(text):
        return ()
    said = [*map(read_clause, clauses_of(text))]
    if _evades(text, task, said) or _ALREADY.search(text) or _rearranges(text, task):
        return ()
    told, words = _words_in(results), _words_in([text])
    found = told - _words_in([task]) - UNTELLING
    return tuple(
        each.name
        for each in acting
        if begins_with(task, act := act_of(each.description)) and not _has_form(told, act)
        if _has_one(task, (noun for noun in _nouns_of(each) if not noun.startswith(act)))
        if found.isdisjoint(words) or _has_form(words - {act}, act)
    )


def _has_form(words: Iterable[str], act: str) -> bool:
    return any(word.startswith(act) for word in words)


def _rearranges(text: str, task: str) -> bool:
    """Return whether a text ends with a list of things of a task, in another order.

    A text without letters is the work too: "3, 7, 9".
    """
    if not any(map(str.isalpha, text)):
        return True
    first, *others = (each.strip(_AROUND) for each in _LISTED.split(without_list_marks(text).strip(_AROUND)))
    things = (first.rpartition(" ")[2], *others)
    found = [re.search(rf"(?<!\w){re.escape(each)}(?!\w)", task, re.IGNORECASE) for each in things]
    places = [each.start() for each in found if each]
    return len(places) == len(found) and places != sorted(places)


def _greets(text: str) -> bool:
    """Return whether a text greets or thanks somebody, and claims nothing."""
    says_done = _HAVE_DONE.search(text) or _DONE.search(text) or any(_past_acts(text))
    return _GREETS.match(text) is not None and not says_done


def _may_order(clause: str, *, is_looked_up: bool) -> bool:
    """Return whether a clause without a denial may order an act, by its first words.

    Args:
        is_looked_up: whether something was; "Get me a table" asks for no result then.
    """
    if _REQUEST.search(clause) or _REACHES.search(clause):
        return True
    asks = QUESTION.search(clause) or asks_for_text(clause) or _NO_ORDER.search(clause)
    if asks or FOR_RESULT.match(clause):
        return False
    words = [each for each in map(str.casefold, _TOKEN.findall(clause)) if each not in _JOINS]
    main = [*takewhile(lambda word: word not in SUBORDINATE, words)]
    act = act_of(main[0]) if main else ""
    is_read = is_reading(act) and (is_looked_up or act not in _FETCHING)
    return bool(main) and not is_read and _STATES.isdisjoint(main) and main[0] not in _NO_VERB


def _described(tool: ToolDefinition) -> str:
    return f"{tool.name} {tool.description}".replace("_", " ")


def _adds(text: str, shown: str) -> bool:
    """Return whether a text has a telling word that was not shown in some form."""
    told, seen = _words_in([text]) - UNTELLING - _STATES, {each[:_SHARED] for each in _words_in([shown])}
    return any(each[:_SHARED] not in seen for each in told if len(each) >= _LEAST or not each.isascii())


def _only_repeats(
    text: str,
    task: str,
    calls: Sequence[CompletedCall],
    results: Collection[str],
    *,
    is_known: bool,
    verbs: Container[str],
) -> bool:
    """Return whether a text has the words of a task, and hardly any others.

    A word of a result is more where the task does not have it in that form ("assigned to Mia"), and so are
    all words of a short one ("off").

    Args:
        is_known: whether the task orders a known act; a number of it that nothing told is invented then.
        verbs: beginnings of the verbs of the order, of which one in a statement is enough.
    """
    given = {word for each in calls for values in each.arguments.values() for word in _words_in(values)}
    said, found = _words_in([text]), set[str]()
    for each in results:
        words = _words_in([each]) - given
        if words and len(words) <= _BARE and words <= said:
            return False
        found |= {word for word in words if len(word) >= _LEAST} - UNTELLING
    asked, first = _words_in([task]), {word for each in clauses_of(text) for word in _split(each)[:1]}
    beginnings = {each[:_SHARED] for each in asked}
    known = new = 0
    is_stated = any(act_of(each) in verbs for each in said) and not FINITE.isdisjoint(said)
    least = 1 if is_stated else 2
    for word in _split(text):
        folded = word.casefold()
        is_own = folded[:_SHARED] in beginnings
        if word in found and word not in asked:
            return False
        if is_known and not is_own and word.isdecimal() and len(word) >= _LEAST and not results:
            continue  # "Order 4711 placed"
        if not is_own and (word[0].isdigit() or (word != word.lower() and word not in first)):
            return False
        if folded not in UNTELLING and (len(folded) >= _LEAST or not word.isascii() or word[0].isdigit()):
            known, new = known + is_own, new + (not is_own)
    return known >= least and known >= new


def _split(text: str) -> list[str]:
    """Return the words of a text; without blanks, each two characters."""
    pairs: list[str] = []
    for word in _TOKEN.findall(text):
        is_joined = UNSPACED.search(word) is not None
        pairs += [word[at : at + 2] for at in range(len(word) - 1)] if is_joined else [word]
    return pairs


def _words_in(texts: Iterable[str]) -> set[str]:
    return {each.casefold() for text in texts for each in _split(text)}


def _evades(text: str, task: str, said: Sequence[Clause]) -> bool:
    """Return whether an answer denies or asks something instead."""
    if not said or any(each.denies or QUESTION.search(each.text) for each in said):
        return True
    return asks_back(text, task) or _CONFIRM.search(text) is not None


def _says_only_done(text: str, task: str, said: Iterable[Clause]) -> bool:
    """Return whether an answer says that all is done, or will be, or repeats the task."""
    return text.strip() == task.strip() or any(
        (_DONE.search(each.said) and _NOT_YET.isdisjoint(each.words)) or sign_of(each, set(), task) == "plain"
        for each in said
    )


def claimed_act_left(
    text: str, tools: Iterable[ToolDefinition], called: Set[str], results: Iterable[str]
) -> tuple[str, ...]:
    """Return the tools for acts that an answer says are done, ordered or not.

    No tool for such an act was called, and no result says that it is done.
    """
    said = (each for each in map(read_clause, clauses_of(text)) if not QUESTION.search(each.text))
    done = _verbs_of_past(
        "\n".join(each.said for each in said if not each.denies and _NOT_YET.isdisjoint(each.words))
    )
    for each in results if done else ():
        done -= _verbs_of_past(each)
    acting = [(each, _acts_of(each) | _words_in([_described(each)])) for each in tools if may_act(each)]
    for tool, own in acting:
        done -= own if tool.name in called else set()
    found = ((tool, own & done) for tool, own in acting)
    return tuple(
        tool.name for tool, acts in found if acts - _ACTS_KNOWN or (acts and _has_one(text, _nouns_of(tool)))
    )


def _verbs_of_past(text: str) -> set[str]:
    """Return the acts that a text has in the past, and other English verbs."""
    words = (each.casefold() for each in _TOKEN.findall(text))
    verbs = {word[:-size] for word in words if word.endswith("ed") for size in (1, 2)}
    return {*_past_acts(text), *(each for each in verbs if len(each) >= _SHARED)}


def orders_act(task: str) -> bool:
    """Return whether a task orders a common act."""
    return bool(_orders_in(task))


def only_asks_to_tell(task: str) -> bool:
    """Return whether a task asks for a text, and orders no common act."""
    return (asks_for_text(task) or _TELLING.match(task) is not None) and not orders_act(task)


def parts_left(
    task: str, text: str, tools: Iterable[ToolDefinition], calls: Sequence[CompletedCall]
) -> tuple[str, ...]:
    """Return items of a list that an act is said to be done to, and no call had.

    None if the order has a condition, if a call had nothing of the task, so that it may stand for another
    item, or if another tool may have done the act.

    Args:
        calls: those that worked.
    """
    if not _is_firm(task):
        return ()
    known, said = {tool.name: tool for tool in tools}, list(map(read_clause, clauses_of(text)))
    for act in _orders_in(task) or ("",):
        own, others = _calls_of(act, calls, known)
        claims = [each.text for each in said if _says_done(each, act) and not _SOME.search(each.text)]
        if not claims or any(act in _past_acts(each.told) for each in others):
            continue
        if any(each.tool in known and not only_looks(known[each.tool]) for each in others):
            continue
        given = [
            [part for values in each.arguments.values() for value in values for part in _COMMA.split(value)]
            for each in own
        ]
        if not all(
            any(names(task, each) or (_VALUE.fullmatch(each) and _holds(task, each)) for each in values)
            for values in given
        ):
            continue
        asked = [value for values in given for value in values]
        done, numbers = "\n".join(each.told for each in own), {*filter(_DIGIT.search, asked)}
        items = [each for each in open_items(task, asked, done) if " " in each or not _holds(done, each)]
        items = [each for each in items if numbers.isdisjoint(each.split())]  # 42 of "PO 42"
        left = (each for each in items if any(_is_said_of(each, said, act, task) for said in claims))
        if found := tuple(left):
            return found
    return ()


def values_left(
    task: str, text: str, tools: Iterable[ToolDefinition], calls: Sequence[CompletedCall]
) -> tuple[str, ...]:
    """Return the numbers of a list in an order that no call had.

    "Set A to 18 and B to 21", which takes two calls, and the only one had 18. The answer has them as if done.
    None if the order has a condition, if a call had a number that the task has not, which may stand for
    another, or if there was a call for each part, as with "half a dozen".

    Args:
        calls: those that worked.
    """
    known = {tool.name: tool for tool in tools}
    acted = [each for each in calls if each.tool in known and not only_looks(known[each.tool])]
    arguments = [value for each in acted for values in each.arguments.values() for value in values]
    given, asked = _numbers_in("\n".join(arguments)).keys(), _numbers_in(task)
    alone = {read_number(each) for each in arguments if NUMBER.fullmatch(each)}
    if not given or not given <= asked.keys() or not _is_firm(task) or QUESTION.search(task) or denies(text):
        return ()
    said = (each for each in map(read_clause, clauses_of(text)) if _NOT_YET.isdisjoint(each.words))
    claims = [each.text for each in said if not (_SOME.search(each.text) or QUESTION.search(each.text))]
    claimed = _numbers_in("\n".join(claims))
    had = "\n".join(each.told for each in calls)
    done, spared = {*_numbers_in(had), *map(float, filter(str.isdecimal, numerals(had)))}, spared_in(task)
    for parts in lists_in(task):
        values = _parallel_values(parts)
        left = {key: each for key, each in values.items() if not _was_given(key, done) and each not in spared}
        is_less = len(acted) < len(parts) and not alone.isdisjoint(values)
        if left and is_less and left.keys() <= claimed.keys():
            return tuple(left.values())
    return ()


def _parallel_values(parts: Sequence[str]) -> dict[str | float, str]:
    """Return the numbers of the parts of a list, if each has one, in the same place.

    The same word stands before or after it, or it begins the part: "A to 18 and B to 21", "6 lamps and 2
    rugs".
    """
    found: dict[str | float, str] = {}
    beside = ("", "")
    for number, part in enumerate(parts):
        words = part.split()
        places = [at for at, word in enumerate(words) if _DIGIT.search(word)]
        if len(places) > 1:  # "X1 to 40"
            places = [at for at in places if not any(map(str.isalpha, words[at]))]
        value = _numbers_in(words[places[0]]) if len(places) == 1 and words[1:] else {}
        if len(value) != 1:
            return {}
        at = places[0]
        around = (words[at - 1] if at else "", words[at + 1] if words[at + 1 :] else "")
        if number and at and not any(one and one == other for one, other in zip(around, beside, strict=True)):
            return {}
        beside = beside if number else around
        found |= value
    return found


def replaced_left(
    task: str, text: str, tools: Iterable[ToolDefinition], calls: Sequence[CompletedCall], earlier: str = ""
) -> tuple[str, ...]:
    """Return what an act is said to be done with, where a call had something else.

    "Cancel order 1001", and the call had 1002; "Pay 250 euros", and it had 25. What the call had instead was
    told nowhere, does not follow from a number that was, and is not in the answer. None if the order has a
    condition, or if the answer denies or asks something. Where no call may have done anything, it is what an
    answer tells of and what was looked up instead. Names do not count: another one may be of the same, as
    "Venice" and "Venezia".

    Args:
        calls: those that worked.
        earlier: what was said before the task.
    """
    known = {tool.name: tool for tool in tools}
    acting = {name for name in {each.tool for each in calls} & known.keys() if not only_looks(known[name])}
    acted = [each for each in calls if each.tool in acting]
    own = acted or calls
    others = [each.told for each in calls if each.tool not in acting] if acted else []
    told = "\n".join((task, earlier, *others))
    given = [(name, value) for each in own for name, values in each.arguments.items() for value in values]
    if not given or not may_be_replaced(task, text, told):
        return ()
    had = "\n".join(each.told for each in own)
    meant_by = _words_in([task.casefold()])
    values = [
        value for name, value in given if _VALUE.fullmatch(value) and _is_of_task(name, value, meant_by)
    ]
    asked = _TEXT_AFTER.sub(" ", QUOTATION.sub(" _ ", task))
    said = [each for each in map(read_clause, clauses_of(text)) if not _SOME.search(each.text)]
    said = [each for each in said if _NOT_YET.isdisjoint(each.words)]
    claimed = "\n".join(each.text for each in said)
    acts = [] if _DIGIT_OR_ADDRESS.search(claimed) else _orders_in(task)
    is_silent = any(_says_done(each, act) for act in acts for each in said)
    for things_in in (_addresses_in, _numbers_in):
        instead = things_in("\n".join(values)).keys() - things_in(f"{text}\n{told}").keys()
        if not instead:
            continue
        before, meant = things_in(told), things_in(_NO_THING.sub(" ", asked if is_silent else claimed))
        if before.keys().isdisjoint(meant) or (is_silent and len(meant) > 1):
            continue  # it is of nothing that was told, or the act may be for another one
        done = {*things_in(had), *_numbers_in(had, is_joined=False)}
        done |= {short for each in done for short in _without_country_code(each)}
        left = {key: each for key, each in meant.items() if key in before and not _was_given(key, done)}
        if left and any(_is_slip(each, left, told, before) for each in instead):
            return tuple(left.values())[:_MOST_LEFT]
    return ()


@lru_cache(maxsize=8)  # asked about the answer, and again after the run
def may_be_replaced(task: str, text: str, told: str) -> bool:
    """Return whether an answer has what :func:`replaced_left` may return.

    An address or number that was told; or the task orders something, which it may say is carried out.

    Args:
        told: the task, and what else was told before the answer.
    """
    if not _is_firm(task) or denies(text) or "?" in text:
        return False
    if _orders_in(task):
        return True
    said = _NO_THING.sub(" ", "\n".join(clauses_of(text)))
    return any(not each(said).keys().isdisjoint(each(told)) for each in (_addresses_in, _numbers_in))


def _is_of_task(parameter: str, value: str, words: Set[str]) -> bool:
    """Return whether a value may be one of the task: others are chosen by the model.

    "Water the 3 pots" names no minutes.
    """
    if "@" in value or _OF_ANY.search(parameter):
        return True
    named = [each.casefold()[:_SHARED] for each in parameter.split("_") if len(each) >= _LEAST]
    return any(word.startswith(each) for each in named for word in words)


def _addresses_in(text: str) -> dict[str | float, str]:
    return {each.casefold(): each for each in _OBJECT_ADDRESS.findall(text)}


def _numbers_in(text: str, *, is_joined: bool = True) -> dict[str | float, str]:
    """Return the numbers of a text, with the letters of an identifier.

    0 and 1 are left out, which calls often have besides. ``is_joined``: groups of digits are one number.
    """
    plain = plain_numbers(text)
    if is_joined:
        plain = _GROUPED.sub(lambda groups: re.sub(r"\D", "", groups[0]), plain)
    found = ((read_number(each[1]), each[0]) for each in _NUMBER.finditer(plain))
    return {value: each for value, each in found if value not in (0, 1)}


def _without_country_code(thing: str | float) -> Iterator[float]:
    """Yield what may be the rest of a phone number after the code of its country."""
    if not isinstance(thing, str) and thing >= 10**_LEAST_PHONE and float(thing).is_integer():
        size = len(str(int(thing)))
        yield from (thing % 10 ** (size - code) for code in range(1, _COUNTRY_CODE + 1))


def _was_given(thing: str | float, given: Container[str | float]) -> bool:
    """Return whether calls had an address or a number, or that hour after noon."""
    return thing in given or (not isinstance(thing, str) and thing + _NOON in given)


def _is_slip(
    thing: str | float, left: Iterable[str | float], told: str, numbers: Iterable[str | float]
) -> bool:
    """Return whether what a call has rests on nothing that was told.

    An address may be that of a name, and a number one in words or in another unit.
    """
    if isinstance(thing, str):
        folded, user = told.casefold(), thing.partition("@")[0]
        meant = (str(each).partition("@")[0] for each in left)
        if any(SequenceMatcher(None, user, each).ratio() > _MISSPELT for each in meant):
            return True
        return not any(has_word(each, folded) for each in _TOKEN.findall(user))
    if not float(thing).is_integer() and all(float(each).is_integer() for each in left):
        return False
    known = (each for each in numbers if isinstance(each, float))
    return str(int(thing)) not in numerals(told) and not follows_at_once(thing, known)


@lru_cache(maxsize=8)
def _is_firm(task: str) -> bool:
    """Return whether an order has no condition, and no sign that it is not meant."""
    return not (CONDITION.search(task) or _DOUBT.search(task) or denies(task))


def has_moved(number: str, asked: Sequence[str], task: str) -> bool:
    """Return whether calls may have deleted a numbered part that had moved up.

    "Delete the rows 2 and 4", and the calls had 2 and 3.

    Args:
        asked: the arguments of all calls.
    """
    if not number.isdecimal() or "delete" not in _orders_in(task):
        return False
    return any(str(int(number) - before) in asked for before in range(1, len(asked)))


def _calls_of(
    act: str, calls: Sequence[CompletedCall], known: Mapping[str, ToolDefinition]
) -> tuple[list[CompletedCall], list[CompletedCall]]:
    """Return the calls of tools that do an act, or any unknown one, and the others."""
    doing = {name for name, tool in known.items() if (act in _acts_of(tool) if act else not only_looks(tool))}
    return [each for each in calls if each.tool in doing], [each for each in calls if each.tool not in doing]


def _says_done(clause: Clause, act: str) -> bool:
    """Return whether a clause says that an act is done, also that somebody was told.

    One of an unknown act says that something is.
    """
    if act:
        return any(_claims(clause, each) for each in _alike_acts(act))
    is_claim = not (clause.denies or QUESTION.search(clause.text)) and _NOT_YET.isdisjoint(clause.words)
    return is_claim and _HAVE_DONE.search(clause.said) is not None


def _alike_acts(act: str) -> Set[str]:
    """Return the acts that stand for one: who is sent something is told it."""
    return _REACHING if act in _REACHING else {act}


def _holds(text: str, thing: str) -> bool:
    """Return whether a text has an address, or the digits of a number."""
    if "@" in thing:
        return re.search(rf"(?<![\w.+-]){re.escape(thing)}(?![\w-])", text, re.IGNORECASE) is not None
    digits = re.search(r"\d+", thing)
    return digits is not None and re.search(rf"(?<!\d)0*{int(digits[0])}(?!\d)", text) is not None


def _is_said_of(item: str, claim: str, act: str, task: str) -> bool:
    """Return whether a clause says that an act was done to all, or to an item too.

    The item stands between words such as "and", with none that the task does not have, or beside the verb:
    "R-17 was paid and R-18 left open" says nothing of R-18.
    """
    if _ALL.search(claim):
        return True
    is_heading = _HEADING.match(claim) is not None
    if not (is_heading or "@" in item or any(map(str.isdigit, item))) and _SEVERAL.isdisjoint(
        read_clause(claim).words
    ):
        together = TOGETHER.search(claim)
        if not speaks_of_oneself(claim) or (together and names(together[0], item)):
            return False
    acts, known = _alike_acts(act), {each[:_SHARED] for each in _words_in([task, item])}
    parts = [each for each in _BETWEEN.split(claim) if names(each, item) or _holds(each, item)]
    return any(
        not acts.isdisjoint(_past_acts(each))
        or all(word[:_SHARED] in known for word in _words_in([each]) - UNTELLING)
        for each in parts
    )


def was_done_before(text: str, tool: ToolDefinition, results: Iterable[str]) -> bool:
    """Return whether a text and a result both say that what a tool does is done."""
    acts = _acts_of(tool).intersection(_past_acts(text))
    return bool(acts) and any(not acts.isdisjoint(_past_acts(each)) for each in results)


def begins_done(result: str, tool: ToolDefinition) -> bool:
    """Return whether a result begins with the act as done: "Closed as invalid"."""
    first = _TOKEN.search(result)
    return first is not None and not _acts_of(tool).isdisjoint(_past_acts(first[0]))


def is_needless(tool: ToolDefinition, error: str) -> bool:
    """Return whether something could not be deleted because it does not exist."""
    return "delete" in _acts_of(tool) and _ABSENT.search(error) is not None


def is_for_another_act(tool: ToolDefinition, failed: ToolDefinition, task: str, result: str) -> bool:
    """Return whether a call did what else a task orders than a failed one.

    "Cancel it and mail Ana": the mail does not cancel it. Not for what a model may have written itself.
    """
    ordered, own, left = _orders_in(task).keys(), _acts_of(tool), _acts_of(failed)
    if not (own & ordered and left & ordered) or left & (own | {"create", "write"}):
        return False
    return left.isdisjoint(_past_acts(result))


@lru_cache(maxsize=8)
def _orders_in(task: str) -> Mapping[str, _Order]:
    """Return the acts that a task orders.

    What stands in quotation marks or after a colon may be a text, and orders nothing, and so is what follows
    a request for a text, unless it is about that: "Draft a mail and send it".
    """
    found: dict[str, _Order] = {}
    if len(task) > _LONGEST_ORDER:
        return found
    joins = _JOINS if is_english(task) else _JOINS | _SHORT_JOINS
    is_sure, is_text = _DOUBT.search(task) is None and not denies(task), False
    for said in clauses_of(_TEXT_AFTER.sub(" ", QUOTATION.sub(" _ ", task))):
        is_question = QUESTION.search(said) is not None
        if denies(said) or _NO_ORDER.search(said) or (is_question and not _REQUEST.search(said)):
            continue
        is_meant = is_sure and not (is_question or CONDITION.search(said))
        tells = asks_for_text(said) or _TELLING.match(said) is not None
        for act, order in _orders_of(said, joins, is_text=is_text, tells=tells):
            is_further = order.is_further or bool(found)
            found.setdefault(act, evolve(order, is_plain=order.is_plain and is_meant, is_further=is_further))
        is_text = is_text or tells
        if not is_text:
            found = {act: _Order("", False) for word, act in _UNSPACED_ACTS if word in said} | found
    return found


def _orders_of(clause: str, joins: Set[str], *, is_text: bool, tells: bool) -> Iterator[tuple[str, _Order]]:
    """Yield the acts that a clause orders, at the beginning of a part or in a request.

    Args:
        joins: words after which a part may begin.
        is_text, tells: whether the clause, or what follows its first verb, may be a text.
    """
    tokens = list(_TOKEN.finditer(clause if _SHORT_JOINS.isdisjoint(joins) else _ENCLITIC.sub(" ", clause)))
    words = [each[0].casefold() for each in tokens]
    first = next((at for at, word in enumerate(words) if word not in joins and not word.isdecimal()), 0)
    is_asked = _REQUEST.search(clause) is not None
    for at, token in enumerate(tokens):
        begins = (
            at <= first or words[at - 1] in joins or "," in token.string[tokens[at - 1].end() : token.start()]
        )
        if not begins and not is_asked:
            continue
        act, after = _ordered(words[at:])
        if not act or ((is_text or (tells and at > first)) and after[0] not in _PRONOUNS):
            continue
        about = " ".join(takewhile(lambda word: word not in _NOUN_OF, after))
        is_further = not (joins - _POLITE).isdisjoint(words[:at])
        is_plain = act in _PLAIN_ACTS or (act == "remind" and SUBORDINATE.isdisjoint(after))
        yield act, _Order(about, begins and is_plain, is_further)


def _ordered(words: list[str]) -> tuple[str, list[str]]:
    """Return the act that the first word orders, with the next ones; empty for none."""
    act, ending = _act_in(words[0])
    after = [*words[1:5], ""]
    if not act or not _BASE.match(ending) or words[0] in _PAST_WORDS or after[0] in _NOUN_OF:
        return "", after
    is_noun = words[0] == "order" and after[0] not in _NUMBERS and not after[0].isdecimal()
    return ("" if is_noun else act), after


def _act_in(word: str) -> tuple[str, str]:
    """Return the act of a word and the word's ending; empty if it is of none."""
    word = word.casefold()
    folded = _without_accents(word)
    for size in range(min(len(folded), _LONGEST_BEGINNING), 2, -1):
        if act := _ACTS.get(folded[:size]):
            return act, word[size:]
    return "", ""


def _without_accents(word: str) -> str:
    letters = (each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))
    return "".join(letters).replace("ł", "l")


def _past_acts(text: str) -> Iterator[str]:
    """Yield the acts that a text has in a form of the past."""
    for token in _TOKEN.finditer(text):
        act, ending = _act_in(token[0])
        if act and (token[0].casefold() in _PAST_WORDS or (ending and _PAST.search(ending))):
            yield act
    if _DONE_UNSPACED.search(text):
        yield from (act for word, act in _UNSPACED_ACTS if word in text)


def _claims(clause: Clause, act: str) -> bool:
    """Return whether a clause says that an act is done.

    What follows the act may be yet to come: "It was ordered and will arrive on Monday".
    """
    if clause.denies or QUESTION.search(clause.text) or act not in _past_acts(clause.said):
        return False
    parts = _LISTED.split(clause.said)
    last = next((at for at, each in enumerate(parts) if act in _past_acts(each)), len(parts))
    return _NOT_YET.isdisjoint(_words_in(parts[: last + 1]))


@lru_cache(maxsize=256)
def _acts_of_words(name: str, description: str) -> frozenset[str]:
    """Return the acts of a tool by its name and description."""
    words = name.replace("_", " ").replace("-", " ").split()
    named = [act for act, _ in map(_act_in, words) if act]
    if words[:1] and words[0] not in _GENERAL:
        named = named[:1]  # "calendar_create_event", unlike "make_payment" and "create_booking"
    named += [act for act, _ in map(_act_in, description.split(maxsplit=1)[:1]) if act]
    named += ["notify"] if TELLS_SOMEBODY.match(description) else []
    acts = frozenset(named)
    return acts if acts.isdisjoint(_REACHING) else acts | {"notify"}


def _acts_of(tool: ToolDefinition) -> frozenset[str]:
    return _acts_of_words(tool.name, tool.description) if may_act(tool) else frozenset()


def only_looks(tool: ToolDefinition) -> bool:
    """Return whether a tool does nothing but look something up, as it is described."""
    if not may_act(tool):
        return bool(tool.description) and _ANYTHING.match(tool.description) is None
    named = _DATA.match(tool.description)
    return named is not None and not any(_act_in(each)[0] for each in _TOKEN.findall(named[0]))


def only_reads(tool: ToolDefinition) -> bool:
    """Return whether a tool only looks up, by its description or its options.

    These options, idempotent with a low risk, are those of an MCP tool that is trusted to read only. They do
    not count where a word names an act.
    """
    return only_looks(tool) or (tool.idempotent and not has_side_effects(tool) and not _acts_of(tool))


def is_lookup(tool: ToolDefinition) -> bool:
    """Return whether a tool only reads, without a risk and without approval."""
    return not (has_side_effects(tool) or tool.requires_approval) and only_reads(tool)


def _nouns_of(tool: ToolDefinition) -> list[str]:
    """Return the nouns of a tool's name, which begins with its verb."""
    first, *rest = tool.name.casefold().replace("-", "_").split("_")
    if first in _GENERAL:
        rest = [each for each in rest if not _act_in(each)[0]]
    words = rest if first in _GENERAL or _act_in(first)[0] else [first, *rest]
    return [each for each in words if len(each) > 2 and each not in _GENERAL]


def _may_be_for(tool: ToolDefinition, act: str, order: _Order, task: str) -> bool:
    """Return whether a tool may be for an act that has many objects.

    "Write a poem" asks for no file, "Create a list" for no event, and "Delete the comma" for no file.
    """
    if act == "write":
        return takes_named(tool, task) and _INTO_FILE.search(task) is not None
    if act == "notify":
        return ME_OR_US.isdisjoint(order.objects.split()[:1])
    nouns = _nouns_of(tool) if act == "create" or is_english(task) else ()
    if act in _PLAIN_ACTS and any(map(str.isdecimal, order.objects.partition(" ")[0])):
        return True  # "Book LH902"
    words = (each[0].casefold() for each in _TOKEN.finditer(tool.description.partition(" ")[2]))
    described = {word for word in words if len(word) >= _SHARED} - UNTELLING
    if act in _PLAIN_ACTS:
        return not nouns or takes_named(tool, task) or _has_one(task, [*nouns, *described])
    return (not nouns and act != "create") or _has_one(order.objects, [*nouns, *described])


def _has_one(text: str, nouns: Iterable[str]) -> bool:
    return any(noun[:_SHARED] in text.casefold() for noun in nouns)
