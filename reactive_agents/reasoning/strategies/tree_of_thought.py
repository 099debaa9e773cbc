"""Tree of thought: search for an approach, then follow it.

Yao et al., 2023, arXiv:2305.10601.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le, min_len
from returns.result import Failure, Result, Success

from reactive_agents.core.config import TreeOfThoughtConfig
from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError, StructuredOutputError
from reactive_agents.core.events import ThoughtsJudged
from reactive_agents.core.results import (
    ReasoningResult,
    ReasoningStatus,
    StepMetadata,
    ThoughtNode,
    ThoughtTree,
)
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import Effect, attempt, effect, gather
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.prompt import fence
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.toolset import first_sentence
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    reasoning_result,
)
from reactive_agents.reasoning.structured_output.question import Question, Structured, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_of

T = TypeVar("T")


@frozen
class Thoughts:
    """Possible next steps.

    Attributes:
        thoughts: each one possible next step, in a sentence or two, unlike the others; empty when nothing is
            left to think out.
    """

    thoughts: tuple[str, ...]


@frozen(kw_only=True)
class ThoughtScore:
    """How promising one candidate is.

    Attributes:
        candidate: its number in the list.
        reason: the main argument for or against it, in one sentence.
        finished: whether nothing is left to think out after it: carrying out these steps does the task.
        score: 0 when it cannot lead to a solution, 0.5 when that is open, 1 when it surely does.
    """

    candidate: int = field(validator=ge(1))
    reason: str = ""
    finished: bool = False
    score: float = field(validator=and_(ge(0.0), le(1.0)))


@frozen
class ThoughtScores:
    """How promising the candidates are, each judged by itself."""

    scores: tuple[ThoughtScore, ...] = field(validator=min_len(1))


@frozen(kw_only=True)
class Vote:
    """Which candidates are the most promising.

    Attributes:
        reason: what decides between the candidates, in a sentence or two.
        finished: the numbers of the candidates after which nothing is left to think out.
        best: the numbers of the candidates to go on with.
    """

    reason: str = ""
    finished: tuple[int, ...] = ()
    best: tuple[int, ...] = field(validator=min_len(1))


_FINISHED = "A candidate is finished when nothing is left to think out: carrying out its steps does the task."
WORK_INSTRUCTIONS = (
    "An approach to the task was thought out before. Follow it and carry it out in full. Where a result "
    "shows that it does not work, leave it, and finish the task in another way."
)


def expand_instructions(breadth: int, *, with_tools: bool) -> str:
    """Return the instructions for thinking of next steps."""
    possible = " with these tools" if with_tools else ""
    return (
        f"Think of up to {breadth} different next steps towards the solution of the task. Each is a real "
        f"alternative to the others, and concrete enough to carry out{possible}. Go on from the steps so "
        "far, if there are any, and do not repeat them. Carry nothing out. When nothing is left to think "
        "out, because the task is simple or the steps so far do it, give no steps."
    )


def score_instructions(*, with_tools: bool) -> str:
    """Return the instructions for scores."""
    reached = " with these tools" if with_tools else ""
    wrong = "a false sum or a tool that does not exist" if with_tools else "a false sum"
    return (
        "Judge candidates for the next step of a solution that others will carry out. For each, think "
        f"through to the end: can the solution still be reached from there{reached}? A step that is wrong in "
        f"itself, such as {wrong}, scores 0; one that is open scores 0.5; one that surely leads there scores "
        f"1. Give each candidate its own score; several may be good, and all may be bad. {_FINISHED}"
    )


def vote_instructions(breadth: int) -> str:
    """Return the instructions for a vote."""
    return (
        "Compare candidates for the steps of a solution that others will carry out. Choose those that lead "
        f"to a solution most surely: {breadth} at most, and only such as can still lead to one. {_FINISHED}"
    )


def situation(task: str, tools: Sequence[ToolDefinition], path: Sequence[ThoughtNode] = ()) -> str:
    """Return the task, the tools, and the steps so far."""
    names = "\n".join(f"{tool.name}: {first_sentence(tool.description)}" for tool in tools)
    parts = [
        f"The task:\n{task}",
        f"The tools:\n{fence('tools', names)}" if names else "",
        f"The steps so far:\n{fence('steps', thoughts_on(path))}" if path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def numbered(candidates: Sequence[str]) -> str:
    """Return the candidates as a numbered list."""
    listed = "\n".join(f"{number}. {candidate}" for number, candidate in enumerate(candidates, 1))
    return f"The candidates:\n{fence('candidates', listed)}"


def work_task(task: str, path: Sequence[ThoughtNode], found: str) -> str:
    """Return the task with the path to follow, and what the tools gave along others."""
    approach = f"The approach:\n{fence('approach', thoughts_on(path))}" if path else ""
    seen = f"What the tools have given until now:\n{fence('evidence', found)}" if found else ""
    return "\n\n".join(part for part in (task, approach, seen) if part)


REPLIES = 2
"""Replies that one question gets: a second when the first cannot be read."""

VOTES = 3
"""Votes on a level: the least number that can have a majority."""

# --- What scores and votes make of the thoughts of a level ---


def with_scores(candidates: Sequence[ThoughtNode], judged: ThoughtScores) -> tuple[ThoughtNode, ...]:
    """Return the candidates with their scores; of several scores the first counts."""
    scores: dict[int, ThoughtScore] = {}
    for each in judged.scores:
        scores.setdefault(each.candidate, each)
    return tuple(
        evolve(node, score=scores[number].score, finished=scores[number].finished)
        if number in scores
        else node
        for number, node in enumerate(candidates, 1)
    )


def with_votes(
    candidates: Sequence[ThoughtNode], votes: Sequence[Vote], breadth: int
) -> tuple[ThoughtNode, ...]:
    """Return the candidates with their shares of the votes; without votes unscored.

    A candidate is finished when more than half of the votes say so.

    Args:
        breadth: how many candidates count of one vote.
    """
    if not votes:
        return tuple(candidates)
    possible = range(1, len(candidates) + 1)
    named: Counter[int] = Counter()
    finished: Counter[int] = Counter()
    for vote in votes:
        named.update([number for number in dict.fromkeys(vote.best) if number in possible][:breadth])
        finished.update(set(vote.finished))
    return tuple(
        evolve(node, score=named[number] / len(votes), finished=2 * finished[number] > len(votes))
        for number, node in enumerate(candidates, 1)
    )


VARIED = 0.7
"""Temperature of expansions and votes, which are to differ; scores are asked for at 0."""

_THOUGHTS = Thoughts(("Look the date up in the log.", "Ask the archive."))
_SCORES = ThoughtScores((ThoughtScore(candidate=1, reason="The log has no dates.", score=0.2),))
_VOTE = Vote(reason="Only the archive has dates.", best=(2,))


# --- Trees of thoughts as pure functions: growth, pruning and paths ---


_AROUND_WORDS = ".,;:!?\"'`“”‘’…"


def distinct(thoughts: Iterable[str]) -> tuple[str, ...]:
    """Return the thoughts that are not blank, each once, by their words.

    Case, white space and punctuation around words do not distinguish thoughts. Signs by themselves count, so
    that ``8 - 4`` is not ``8 + 4``.
    """
    seen: dict[tuple[str, ...], str] = {}
    for thought in thoughts:
        key = _words_of(thought)
        if key:
            seen.setdefault(key, thought.strip())
    return tuple(seen.values())


def _words_of(thought: str) -> tuple[str, ...]:
    words = (word.strip(_AROUND_WORDS) for word in thought.casefold().split())
    return tuple(word for word in words if word)


def children_of(
    parent: ThoughtNode | None, thoughts: Iterable[str], breadth: int, path: Sequence[ThoughtNode] = ()
) -> tuple[ThoughtNode, ...]:
    """Return the nodes after a node, or of the first level, from distinct thoughts.

    Args:
        path: the thoughts to the parent and itself, which are not thought again.
    """
    before = {_words_of(node.thought) for node in path}
    new = [thought for thought in distinct(thoughts) if _words_of(thought) not in before]
    prefix, above, depth = (f"{parent.id}.", parent.id, parent.depth + 1) if parent else ("", None, 1)
    return tuple(
        ThoughtNode(f"{prefix}{number}", above, depth, thought)
        for number, thought in enumerate(new[:breadth], 1)
    )


def pruned(level: Sequence[ThoughtNode], config: TreeOfThoughtConfig) -> tuple[ThoughtNode, ...]:
    """Return the level, with a reason at each thought that the search drops.

    Those that survive have at least the threshold's score, and are the ``breadth`` best; of equal scores, the
    first. A higher threshold never lets more of them survive.
    """
    beam = {node.id for node in by_score(level)[: config.breadth]}
    return tuple(evolve(node, pruned_because=_reason_to_drop(node, beam, config)) for node in level)


def survivors(level: Iterable[ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the thoughts that the search continues from, the best first."""
    return by_score(node for node in level if not node.pruned_because)


def by_score(nodes: Iterable[ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the nodes, the best first; unscored ones last."""
    return tuple(sorted(nodes, key=lambda node: -1.0 if node.score is None else node.score, reverse=True))


def _reason_to_drop(node: ThoughtNode, beam: set[str], config: TreeOfThoughtConfig) -> str:
    if node.score is None:
        return "it could not be judged"
    if node.score < config.pruning_threshold:
        return f"its score of {node.score:.2f} is below the threshold of {config.pruning_threshold:.2f}"
    return "" if node.id in beam else f"{config.breadth} thoughts of its level are better"


# --- The paths of a tree of thoughts that are worth following ---


def paths_of(nodes: Sequence[ThoughtNode]) -> tuple[tuple[ThoughtNode, ...], ...]:
    """Return the paths to follow, the best first, each from the first level down.

    They lead to the thoughts after which nothing is left to think out, and then to the survivors of the
    deepest level that has any. Where no thought survived at all, the only path is the thought of the first
    level with the best score. There is none in an empty tree.
    """
    known = {node.id: node for node in nodes}
    alive = survivors(nodes)
    deepest = max((node.depth for node in alive), default=0)
    finished = tuple(node for node in alive if node.finished)
    ends = finished + tuple(node for node in alive if node.depth == deepest and not node.finished)
    ends = ends or by_score(node for node in nodes if node.depth == 1)[:1]
    return tuple(path_to(end, known) for end in ends)


def path_to(node: ThoughtNode, known: Mapping[str, ThoughtNode]) -> tuple[ThoughtNode, ...]:
    """Return the thoughts from the first level to this one."""
    path = [node]
    while path[-1].parent is not None:
        path.append(known[path[-1].parent])
    return tuple(reversed(path))


def thoughts_on(path: Sequence[ThoughtNode]) -> str:
    """Return the thoughts of a path as a numbered list."""
    return "\n".join(f"{number}. {node.thought}" for number, node in enumerate(path, 1))


NAME = "tree-of-thought"

_FINAL: Mapping[ReasoningStatus | None, ReasoningStatus] = {
    "completed": "completed",
    "abstained": "abstained",
}
"""Outcomes of a pass after which no other path is tried."""

SEARCH_SHARE = 0.5
"""Part of the time and of the budget that the search may take, so that something is left for the work."""


@frozen
class _Worked:
    """One pass along a path; ``number`` from 1, ``path`` empty without a path."""

    number: int
    path: tuple[ThoughtNode, ...]
    state: KernelState


@effect
async def tree_of_thought(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, ReasoningErrors]:
    """Search a tree of thoughts for an approach, then follow the best path.

    A pass that neither completes the task nor finds it impossible is followed by one along the next best
    path, while there are time and budget; there are ``breadth`` paths at most. When none does, the best path
    that gave a text is the partial result. A search that gave no path leaves the work to be done without one.
    The result has the tree, and its reason names the path. Fails with ``StrategyExecutionError`` when the
    model failed in every pass. Each pass asks the model at most ``kernel_max_iterations`` times.
    """
    measure, progress = begin_measure(services), passes.begin_progress(strategy_input, services)
    searched = await search_tree(_share_of(strategy_input, services), services)
    config = strategy_input.config.strategies.tree_of_thought
    paths = paths_of(searched.nodes)[: config.breadth] or ((),)
    tries: list[_Worked] = []
    for number, path in enumerate(paths, 1):
        progress = _note_path(progress, path, services)
        found = passes.evidence_of_run(progress, strategy_input, services)
        each = passes.Pass(
            f"{NAME}:path-{number}",
            f"p{number}.",
            work_task(strategy_input.task_description, path, found),
            config.kernel_max_iterations,
            instructions=WORK_INSTRUCTIONS if path else "",
        )
        ran = await attempt(passes.run_pass(each, progress, NAME, strategy_input, services))
        if isinstance(ran, Failure):
            if not tries:
                return ran
            break
        worked = _Worked(number, path, ran.unwrap())
        progress = progress.after(worked.state)
        tries.append(worked)
        if worked.state.outcome in _FINAL or passes.limit_reached(strategy_input, services) is not None:
            break
    best = _best_of(tries)
    if best.state.status == "failed":
        state = best.state
        return Failure(StrategyExecutionError(NAME, state.reason, progress.iterations, state.error))
    status: ReasoningStatus = _FINAL.get(best.state.outcome, "partial")
    return Success(
        reasoning_result(
            NAME,
            measure,
            services,
            steps=progress.steps,
            output=best.state.output,
            status=status,
            iterations=progress.iterations,
            terminated_by=best.state.terminated_by,
            reason=_reason(best, len(paths), searched),
            results=progress.tool_results,
            rejections=progress.rejections,
            task=strategy_input.task_description,
            tree=ThoughtTree(searched.nodes, tuple(node.id for node in best.path)),
        )
    )


def _note_path(
    progress: passes.Progress, path: tuple[ThoughtNode, ...], services: StrategyServices
) -> passes.Progress:
    if not path:
        return progress
    known = StepMetadata(confidence=path[-1].score)
    label = f"{NAME}:search"
    return passes.note_step(progress, "plan", thoughts_on(path), services, label=label, metadata=known)


def _best_of(tries: list[_Worked]) -> _Worked:
    """Return the completed pass, else the first with a text or without an error."""
    completed = [each for each in tries if each.state.outcome in _FINAL]
    with_text = [each for each in tries if (each.state.output or "").strip()]
    ended = [each for each in tries if each.state.status != "failed"]
    return (completed or with_text or ended or tries)[0]


def _reason(best: _Worked, paths: int, searched: SearchedTree) -> str:
    along = f"along path {best.number} of {paths}" if best.path else "without an approach"
    return f"{best.state.reason} It was worked out {along}. {searched.note}".strip()


def _share_of(strategy_input: StrategyInput, services: StrategyServices) -> StrategyInput:
    """Return the input with the deadline and the budget of the search."""
    now, spent = services.kernel.clock.monotonic(), services.meter.usage
    deadline, budget = strategy_input.deadline, strategy_input.settings.budget
    tokens, cost, requests = budget.tokens, budget.cost_usd, budget.requests
    used = spent.usage.total_tokens
    share = evolve(
        budget,
        tokens=None if tokens is None else max(1, used + int((tokens - used) * SEARCH_SHARE)),
        cost_usd=None
        if cost is None
        else max(1e-12, spent.cost_usd + (cost - spent.cost_usd) * SEARCH_SHARE),
        requests=None
        if requests is None
        else max(1, spent.calls + int((requests - spent.calls) * SEARCH_SHARE)),
    )
    until = None if deadline is None else now + (deadline - now) * SEARCH_SHARE
    return evolve(strategy_input, deadline=until, settings=evolve(strategy_input.settings, budget=share))


# --- The breadth-first search of a tree of thoughts (Yao et al., 2023) ---


NOTHING_LEFT = "Nothing was left to think out."

Family: TypeAlias = tuple[ThoughtNode, ...]
"""The thoughts after one thought."""


@frozen
class SearchedTree:
    """The tree of a search. ``note``: why it ended early; empty when it did not."""

    nodes: tuple[ThoughtNode, ...] = ()
    note: str = ""


async def search_tree(strategy_input: StrategyInput, services: StrategyServices) -> SearchedTree:
    """Grow the tree level by level: expand, judge, prune, continue from the survivors.

    The best thought of a level is expanded first: where nothing is left to think out after it, the search
    ends. The other questions of a level run concurrently. It ends also after ``depth`` levels, when no
    thought of a level survives, when the time or budget of ``strategy_input`` is used up, and when nothing
    can be expanded. Where only some questions fail, it goes on with what the others gave. A level takes at
    most ``breadth`` expansions, and as many scores or :data:`VOTES` votes, each of :data:`REPLIES` replies.
    """
    config = strategy_input.config.strategies.tree_of_thought
    search = _Search(definitions_in(services.kernel.tools), strategy_input, services)
    nodes: tuple[ThoughtNode, ...] = ()
    frontier: tuple[ThoughtNode | None, ...] = (None,)
    for depth in range(1, config.depth + 1):
        limit = passes.limit_reached(strategy_input, services)
        if limit is not None:
            note = f"The search ended before level {depth}, as its share of the {limit.name} was used up."
            return SearchedTree(nodes, note)
        known = {node.id: node for node in nodes}
        families, problem = await search.expand(frontier, known)
        if families == ():
            last = frontier[0]
            done = tuple(evolve(node, finished=True) if node is last else node for node in nodes)
            return SearchedTree(done, NOTHING_LEFT)
        if families is None:
            return SearchedTree(nodes, f"No thoughts could be had for level {depth}: {problem}")
        level = tuple(node for family in families for node in family)
        known |= {node.id: node for node in level}
        judged = await (
            search.score(families, known) if config.evaluation == "score" else search.vote(level, known)
        )
        level = pruned(judged, config)
        nodes += level
        services.kernel.publish(ThoughtsJudged, level)
        frontier = survivors(level)
        if not frontier:
            return SearchedTree(nodes, _no_survivor(level, config))
        if frontier[0].finished:
            return SearchedTree(nodes, NOTHING_LEFT)
        frontier = tuple(node for node in frontier if not node.finished)
    return SearchedTree(nodes)


def _no_survivor(level: Sequence[ThoughtNode], config: TreeOfThoughtConfig) -> str:
    depth = level[0].depth
    if all(node.score is None for node in level):
        return f"The thoughts of level {depth} could not be judged."
    return f"No thought of level {depth} reached the threshold of {config.pruning_threshold:.2f}."


@frozen
class _Search:
    """The questions of a level, asked concurrently."""

    tools: tuple[ToolDefinition, ...]
    strategy_input: StrategyInput
    services: StrategyServices

    @property
    def _breadth(self) -> int:
        return self.strategy_input.config.strategies.tree_of_thought.breadth

    def _situation(self, path: Sequence[ThoughtNode] = ()) -> str:
        return situation(self.strategy_input.task_description, self.tools, path)

    def _ask(self, question: Question[T]) -> Effect[Structured[T], StructuredOutputError]:
        return ask_structured(question, self.strategy_input, self.services)

    async def expand(
        self, frontier: Sequence[ThoughtNode | None], known: Mapping[str, ThoughtNode]
    ) -> tuple[tuple[Family, ...] | None, str]:
        """Return the new thoughts by their parent.

        Empty when there are none after the first thought; ``None``, with the problem, when none were given.
        """
        best, *others = frontier
        first = await attempt(self._after(best, known))
        if first == Success(()):
            return (), ""
        families, problem = [], "the model gave none that says anything."
        for answer in (first, *await gather([self._after(node, known) for node in others])):
            match answer:
                case Success(family):
                    families.append(family)
                case Failure(error):
                    problem = error.message
        return tuple(family for family in families if family) or None, problem

    @effect
    async def _after(
        self, node: ThoughtNode | None, known: Mapping[str, ThoughtNode]
    ) -> Result[Family, StructuredOutputError]:
        """Return the new thoughts after a thought, or the first ones."""
        path = () if node is None else path_to(node, known)
        question = Question(
            shape_of(Thoughts, example=_THOUGHTS),
            expand_instructions(self._breadth, with_tools=bool(self.tools)),
            self._situation(path),
            "expand",
            about_answer=True,
            temperature=VARIED,
            max_retries=REPLIES - 1,
        )
        answered = await attempt(self._ask(question))
        return answered.map(lambda given: children_of(node, given.value.thoughts, self._breadth, path))

    async def score(self, families: Sequence[Family], known: Mapping[str, ThoughtNode]) -> Family:
        """Return the thoughts of a level with their scores, if the question did not fail."""

        def question(family: Family) -> Question[ThoughtScores]:
            parent = family[0].parent
            path = () if parent is None else path_to(known[parent], known)
            candidates = numbered([node.thought for node in family])
            return Question(
                shape_of(ThoughtScores, example=_SCORES),
                score_instructions(with_tools=bool(self.tools)),
                f"{self._situation(path)}\n\n{candidates}",
                "score",
                max_retries=REPLIES - 1,
            )

        answers = await gather([self._ask(question(family)) for family in families])
        judged: Family = ()
        for family, answer in zip(families, answers, strict=True):
            judged += with_scores(family, answer.unwrap().value) if isinstance(answer, Success) else family
        return judged

    async def vote(self, level: Family, known: Mapping[str, ThoughtNode]) -> Family:
        """Return the thoughts of a level with their shares of the votes."""
        paths = [" → ".join(step.thought for step in path_to(node, known)) for node in level]
        question = Question(
            shape_of(Vote, example=_VOTE),
            vote_instructions(self._breadth),
            f"{self._situation()}\n\n{numbered(paths)}",
            "vote",
            temperature=VARIED,
            max_retries=REPLIES - 1,
        )
        answers = await gather([self._ask(question) for _ in range(VOTES)])
        votes = [answer.unwrap().value for answer in answers if isinstance(answer, Success)]
        return with_votes(level, votes, self._breadth)
