"""The laws of verification: it is total, evidence only helps, and what was observed is supported."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
from hypothesis import assume, given
from hypothesis import strategies as st

from reactive_agents.adapters.governance.claims import claims_of
from reactive_agents.adapters.governance.evidence_verifier import EvidenceVerifier, evidence_for, observation
from reactive_agents.core.governance import VerificationReport
from reactive_agents.core.ids import AgentId, TaskId
from reactive_agents.core.results import ReasoningMetadata, ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM
from tests.support.profiles import examples

PIECES = (
    "1,000",
    "12 %",
    "0.12",
    "3.14",
    "250",
    "100",
    "2024-05-01",
    "1.234,5",
    "-7",
    "5 km",
    "1e3",
    "9" * 50,
    "1/2",
    "Ada Lovelace",
    "NASA",
    "out/a.md",
    '"the quick fox"',
    "I wrote",
    " ",
    "\n",
    ". ",
    "> it is so",
    "three",
    "[1,2]",
)
texts = st.text(max_size=40) | st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=10).map(
    " ".join
)
words = st.text(alphabet="abcdefghij", min_size=2, max_size=6)
TASK = Task(TaskId("t"), AgentId("a"), "Do it.", datetime(2026, 1, 1, tzinfo=UTC))


def verified(output: str, results: dict[str, str]) -> VerificationReport:
    async def verify() -> VerificationReport:
        figures = ReasoningMetadata(0, 0, 0, 0, 0)
        result = ReasoningResult("reactive", (), output, figures, "completed", results)
        return (await attempt(EvidenceVerifier().verify(TASK, result, llm=ScriptedLLM()))).unwrap()

    return anyio.run(verify)


@examples(15)
@given(texts, st.dictionaries(st.text(max_size=3), texts, max_size=3))
def test_every_answer_can_be_verified(output: str, results: dict[str, str]) -> None:
    report = verified(output, results)
    assert 0 <= report.confidence <= 1
    assert report.receipt is not None
    assert set(report.receipt.evidence) <= set(results)
    for claim in report.claims:
        assert claim.supported is (claim.key is not None)
        assert claim.claim


@examples(15)
@given(texts, st.lists(texts, max_size=3), texts)
def test_adding_an_observation_never_lowers_the_support_of_a_claim(
    output: str, seen: list[str], more: str
) -> None:
    before = [observation(str(number), text) for number, text in enumerate(seen)]
    after = [*before, observation("more", more)]
    for claim in claims_of(output):
        if evidence_for(claim, before).supported:
            assert evidence_for(claim, after).supported
            assert evidence_for(claim, after[::-1]).supported


numbers = st.one_of(
    st.integers(-(10**9), 10**9).map(str),
    st.integers(0, 10**9).map(lambda number: f"{number:,}"),
    st.decimals(0, 10**6, places=2).map(str),
    st.integers(0, 100).map(lambda number: f"{number} %"),
    st.integers(0, 100).map(lambda number: f"{number} km"),
    st.dates().map(str),
)
quotes = st.lists(words, min_size=2, max_size=6).map(lambda said: f'"{" ".join(said)}"')
names = st.lists(words.map(str.capitalize), min_size=2, max_size=3).map(" ".join)


@examples(20)
@given(numbers | quotes | names, st.lists(words, max_size=4), st.lists(words, min_size=1, max_size=4))
def test_a_claim_taken_verbatim_from_an_observation_is_supported(
    taken: str, before: list[str], after: list[str]
) -> None:
    seen = observation("seen", " ".join([*before, taken.strip('"'), *after]))
    claims = claims_of(f"we found that it is {taken}.")
    assume(claims)  # a name of words such as "If" is none
    for claim in claims:
        assert evidence_for(claim, [seen]).supported, claim
