"""Selection by rules: the kind of a task by its words, and its strategy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.results import ReasoningStrategy, SelectionContext
from reactive_agents.core.values import Value

TaskKind: TypeAlias = Literal["question", "writing", "multi-step", "open-ended"]

GENERAL_TYPE = "query"
"""The type of a task for which the user named none."""

READ_CHARACTERS = 4_000
"""Characters of a task that are looked at: what is wanted stands at its beginning."""

_KIND_OF_TYPE: Mapping[str, TaskKind] = {
    "question": "question",
    "lookup": "question",
    "writing": "writing",
    "editing": "writing",
    "documentation": "writing",
    "multi-step": "multi-step",
    "research": "multi-step",
    "analysis": "multi-step",
    "planning": "multi-step",
    "coding": "multi-step",
    "creative": "open-ended",
    "brainstorming": "open-ended",
    "open-ended": "open-ended",
}


@frozen(eq=False, repr=False)
class _Sign(Value):
    """A sign of a kind of task. ``weight``: added once to the score of its kind."""

    kind: TaskKind
    weight: float
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled at its first use, since all of them take a while."""
        return re.compile(self.expression, re.IGNORECASE)


def _sign(kind: TaskKind, weight: float, *words: str, begins: bool = False) -> _Sign:
    alternatives = "|".join(words)
    before = (
        r"\A\W*(?:please\s+|can you\s+|could you\s+|i want (?:you )?to\s+|let's\s+)?" if begins else r"\b"
    )
    return _Sign(kind, weight, rf"{before}(?:{alternatives})\b")


_VERB = (
    "(?:add|analy[sz]e|announce|assemble|assign|build|calculate|categori[sz]e|check|choose|clean|close|collect|"
    "compare|compile|compute|convert|create|define|deploy|design|determine|draft|email|extract|fill|fix|"
    "generate|group|identify|implement|interview|isolate|join|list|make|merge|migrate|patch|plot|produce|"
    "profile|propose|publish|rank|read|recommend|remove|report|reproduce|resolve|review|roll back|run|save|"
    "schedule|seed|segment|send|set|sort|store|summari[sz]e|switch|synthesi[sz]e|test|train|update|upgrade|"
    "verify|write|download|fetch|find|gather|look up|search)"
)
_NEXT = r"\b[^.?!]{1,80}(?:,|\band)\s+(?:and\s+)?(?:(?:then|afterwards|finally)\s+)?"

_SIGNS: Sequence[_Sign] = (
    # one thing to find out or to do
    _sign(
        "question", 2.0, r"what(?:'s| is| are| was| were| does| do| did| year| time| colou?r)", begins=True
    ),
    _sign("question", 2.0, "who", "when", "where", "which", "whose", "at what", "in which", begins=True),
    _sign(
        "question", 2.0, r"how (?:many|much|old|tall|long|far|big|high|fast|often|do (?:i|you))", begins=True
    ),
    _sign(
        "question", 2.0, "is|are|was|were|does|do (?:i|you|we|they|the)|did|has|have|can|will", begins=True
    ),
    _sign(
        "question",
        2.0,
        "look up|convert|calculate|define|spell|list|count|sum|fetch|read|find|check|show|tell|give me the|"
        "give me a|name the|search|send|turn|remind|translate|open|get|compute|hello|hi",
        begins=True,
    ),
    # a text whose quality matters
    _sign("writing", 2.0, "write|draft|compose|formulate|prepare", begins=True),
    _sign(
        "writing",
        3.0,
        "rewrite|rephrase|proofread|polish|improve|edit|revise|refine|review this|critique|correct|"
        "double-check|copy-?edit|reword|make this|summari[sz]e this",
        begins=True,
    ),
    _sign(
        "writing",
        1.5,
        "reports?|letters?|essays?|papers?|articles?|documentation|emails?|e-mails?|memos?|speech|"
        "statements?|abstract|summary|biography|clauses?|contract|terms|notices?|descriptions?|manuals?|"
        "tutorials?|obituary|editorial|proposals?|minutes|opinion|paragraphs?|reviews?|blog post|newsletter|"
        "press release|apology|reply|advertisement|white paper|thesis|chapter|manuscript|explanation",
    ),
    _sign(
        "writing",
        1.5,
        r"polished|precise(?:ly)?|careful(?:ly)?|accurate(?:ly)?|error-free|high-quality|concise|"
        r"professional|thorough(?:ly)?|unambiguous|clarity|clear(?:ly)?|wording|worded|readability|grammar|"
        r"tone|nuance|mistakes|edge cases?|correctly|formal|persuasive|well-written|flawless|flow|style",
    ),
    _sign("writing", 1.0, "function|regular expression|class|query|test suite|proof|this pull request"),
    # work in which one step builds on another
    _sign(
        "multi-step",
        2.5,
        "plan|migrate|research|organi[sz]e|analy[sz]e|build|investigate|implement|upgrade|evaluate|prepare|"
        "audit|debug|develop|set up|launch|refactor|port|compile|coordinate|benchmark|download|"
        "reorgani[sz]e|gather|collect|compare|design and|work through|look into|step by step|"
        "create a \\w+ ?plan|produce|make a \\w+ ?plan|do a due diligence|first|automate|restructure|"
        "modernize|integrate|draw up|carry out|conduct|take the",
        begins=True,
    ),
    _sign(
        "multi-step", 2.0, r"(?:and|,)\s+then|finally|after that|afterwards|subsequently|step[- ]by[- ]step"
    ),
    _sign("multi-step", 1.5, r"first\b.{0,200}\bthen"),
    _sign("multi-step", 2.5, rf"{_VERB}{_NEXT}{_VERB}"),
    _sign("multi-step", 1.5, rf"{_VERB}{_NEXT}{_VERB}{_NEXT}{_VERB}"),
    _sign(
        "multi-step", 1.0, "root cause|milestones|dependencies|roadmap|architecture|pipeline|budget|itinerary"
    ),
    _Sign("multi-step", 3.0, r"(?m)^\s{0,8}(?:\d{1,2}[.)]|[-*•])\s.*\n\s{0,8}(?:\d{1,2}[.)]|[-*•])\s"),
    # many answers are possible, and the best has to be looked for
    _sign(
        "open-ended",
        3.0,
        "brainstorm|come up with|invent|imagine|dream up|devise|envision|speculate|conceive|pitch|think up|"
        "think of|think outside|explore|find (?:different |new |other |creative )?ways|suggest|"
        "make up|weigh|give me (?:some )?ideas|generate ideas|what if|"
        "propose (?:alternative|different)|discuss|consider alternatives",
        begins=True,
    ),
    _sign(
        "open-ended",
        3.5,
        r"how (?:could|might|would|can)|what (?:might|could|would)|what are (?:some|possible|creative)|"
        r"(?:which|what) (?:ways|approaches|options)|in what ways",
        begins=True,
    ),
    _sign(
        "open-ended",
        2.0,
        "ideas?|creative|brainstorm|alternatives?|unconventional|original|outside the box|imaginative|"
        "novel uses|fantasy|fictional|imaginary|"
        "possible (?:ways|solutions|explanations|futures?|reasons)|"
        "(?:different|various|several|new) (?:ways|approaches|concepts|angles)|"
        "perspectives|slogans?|hypotheses|concepts for|pros and cons|options for",
    ),
    _sign(
        "open-ended",
        3.5,
        "poems?|haikus?|songs?|lyrics|lullaby|(?:short |bedtime )?story|stories|fairy tales?|riddles?|plot|"
        "limerick|scenes?|character for|play about|screenplay|joke",
    ),
    _sign("open-ended", 3.0, "puzzle|crossword|sudoku|to make 24|chessboard|cross a river|riddle"),
)


def kind_of(task_description: str, task_type: str = GENERAL_TYPE) -> TaskKind:
    """Return the kind with the highest score; without any sign a question. Pure.

    ``task_type``: the user's name for the kind; a known one, such as ``research``, decides.
    """
    known = _KIND_OF_TYPE.get(task_type)
    if known is not None:
        return known
    scores = score_kinds(task_description)
    return max(scores, key=lambda kind: scores[kind])


def score_kinds(task_description: str) -> Mapping[TaskKind, float]:
    """Return the score of each kind; of equal ones the first counts."""
    text = task_description[:READ_CHARACTERS]
    scores: dict[TaskKind, float] = {"question": 1.0, "multi-step": 0.0, "writing": 0.0, "open-ended": 0.0}
    for sign in _SIGNS:
        if sign.pattern.search(text):
            scores[sign.kind] += sign.weight
    return scores


def learned_type(task_description: str, task_type: str) -> str:
    """Return the type for learning: the one that the user named, else the kind."""
    return kind_of(task_description) if task_type == GENERAL_TYPE else task_type


# --- The choice of a strategy by rules: pure, total, and free of charge ---


SelectionMethod: TypeAlias = Literal["configured", "rules", "model", "history", "controller"]

REACTIVE, REFLEXION = "reactive", "reflexion"
PLAN, TREE = "plan-execute-reflect", "tree-of-thought"
NO_CANDIDATES = frozenset({"adaptive", "direct"})
"""Strategies that are never chosen: the one that chooses, and the one that does not reason."""

HARD = 0.6
"""The complexity from which on a question is planned."""
URGENT = 0.75
"""The urgency from which on there is time for one pass only."""

_RANKING: Mapping[TaskKind, Sequence[ReasoningStrategy]] = {
    "question": (REACTIVE, PLAN, REFLEXION, TREE),
    "writing": (REFLEXION, REACTIVE, PLAN, TREE),
    "multi-step": (PLAN, REACTIVE, REFLEXION, TREE),
    "open-ended": (TREE, REFLEXION, REACTIVE, PLAN),
}
_REASONS: Mapping[TaskKind, str] = {
    "question": "a question or a single action",
    "writing": "a text whose quality matters",
    "multi-step": "several steps that build on each other",
    "open-ended": "an open question with many possible answers",
}


@frozen(eq=False, repr=False)
class Selection(Value):
    """A strategy that was chosen, with the reason and a confidence from 0 to 1."""

    strategy: ReasoningStrategy
    reason: str
    confidence: float
    method: SelectionMethod


def candidates(known: Iterable[ReasoningStrategy]) -> tuple[ReasoningStrategy, ...]:
    """Return the strategies that may be chosen, in their order."""
    return tuple([name for name in known if name not in NO_CANDIDATES])


def choose_by_rules(context: SelectionContext, known: Sequence[ReasoningStrategy]) -> Selection:
    """Return the strategy for the task, one of the known candidates.

    ``known`` must not be empty. The user's preference comes first, then the remaining time, then the kind of
    the task. If the best strategy for a kind is not registered, the next best is chosen.
    """
    preferred = context.preferred_strategy
    if preferred is not None and preferred in known:
        return Selection(preferred, "preferred by the user", 1.0, "rules")
    if context.urgency >= URGENT and REACTIVE in known:
        return Selection(REACTIVE, "there is time for one pass only", 0.8, "rules")
    kind = kind_of(context.task_description, context.task_type)
    reason = _REASONS[kind]
    if kind == "question" and context.complexity >= HARD:
        kind, reason = "multi-step", f"a hard question (complexity {context.complexity:.2f})"
    strategy = ranking(kind, known)[0]
    best = _RANKING[kind][0]
    if strategy != best:
        reason = f"{reason}, and there is no {best}"
    return Selection(strategy, reason, _confidence(context), "rules")


def ranking(kind: TaskKind, known: Iterable[ReasoningStrategy]) -> tuple[ReasoningStrategy, ...]:
    """Return the known strategies, the best for the kind first, custom ones last."""
    order = _RANKING[kind]
    return tuple(sorted(known, key=lambda name: order.index(name) if name in order else len(order)))


def _confidence(context: SelectionContext) -> float:
    """Return how clear the kind is: 0.5 for equal scores, 0.9 if the user named it."""
    if context.task_type != GENERAL_TYPE:
        return 0.9
    first, second, *_ = sorted(score_kinds(context.task_description).values(), reverse=True)
    return round(first / (first + second), 2)
