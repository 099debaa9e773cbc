"""What the model is asked while a tree of thoughts grows, and told when it works along a path."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len

from reactive_agents.core.reasoning import ThoughtNode
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel import REACT_INSTRUCTIONS
from reactive_agents.kernel.assemble import fence
from reactive_agents.kernel.schema_detail import first_sentence
from reactive_agents.reasoning.tree.paths import thoughts_on


@frozen
class Thoughts:
    """What could be done next.

    Attributes:
        thoughts: each one possible next step, in a sentence or two, unlike the others.
    """

    thoughts: tuple[str, ...] = field(validator=min_len(1))


@frozen
class ThoughtScore:
    """How promising one candidate is.

    Attributes:
        candidate: its number in the list.
        reason: what speaks for it or against it, in one sentence.
        score: 0 when it cannot lead to a solution, 0.5 when that is open, 1 when it surely does.
    """

    candidate: int = field(validator=ge(1))
    reason: str
    score: float = field(validator=and_(ge(0.0), le(1.0)))


@frozen
class ThoughtScores:
    """How promising the candidates are, each judged by itself."""

    scores: tuple[ThoughtScore, ...] = field(validator=min_len(1))


@frozen
class Vote:
    """Which candidates are the most promising.

    Attributes:
        reason: what decides between the candidates, in a sentence or two.
        best: the numbers of the candidates to go on with.
    """

    reason: str
    best: tuple[int, ...] = field(validator=min_len(1))


SCORE_INSTRUCTIONS = (
    "Judge candidates for the next step of a solution that others will carry out. For each, think the "
    "solution through to its end: can it still be reached from there, and with the tools there are? A step "
    "that is wrong in itself, such as a false sum or a tool that there is not, scores 0. Give each candidate "
    "a score of its own; several may be good, and all may be bad."
)
WORK_INSTRUCTIONS = (
    f"{REACT_INSTRUCTIONS} An approach to the task was thought out beforehand. Work along it, and carry it "
    "out in full. Leave it where a result shows that it does not work, and finish the task all the same."
)


def expand_instructions(breadth: int) -> str:
    """How a model is to think of next steps."""
    return (
        f"Think of {breadth} different next steps towards the solution of the task. Each is to be a real "
        "alternative to the others, concrete enough to carry out, and possible with the tools there are. "
        "Go on from the steps so far, if there are any, and do not repeat them. Do not carry anything out."
    )


def vote_instructions(breadth: int) -> str:
    """How a model is to vote."""
    return (
        "Compare candidates for the steps of a solution that others will carry out, and choose those that "
        f"lead to a solution most surely: {breadth} at most, and only such as can still lead to one."
    )


def situation(task: str, tools: Sequence[ToolDefinition], path: Sequence[ThoughtNode] = ()) -> str:
    """The task, the tools that there are, and the steps so far."""
    names = "\n".join(f"{tool.name}: {first_sentence(tool.description)}" for tool in tools)
    parts = [
        f"The task:\n{task}",
        f"The tools:\n{fence('tools', names)}" if names else "There are no tools.",
        f"The steps so far:\n{fence('steps', thoughts_on(path))}" if path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def numbered(candidates: Sequence[str]) -> str:
    """The candidates, by number."""
    told = "\n".join(f"{number}. {candidate}" for number, candidate in enumerate(candidates, 1))
    return f"The candidates:\n{fence('candidates', told)}"


def work_task(task: str, path: Sequence[ThoughtNode]) -> str:
    """The task, with the path to work along."""
    if not path:
        return task
    return f"{task}\n\nThe approach that was thought out for it:\n{fence('approach', thoughts_on(path))}"
