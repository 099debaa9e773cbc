"""The verifier: evidence for each claim, files on disk, the receipt, and a model's opinion."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from reactive_agents.adapters.governance.evidence_verifier import (
    CONFIDENCE_WITH_A_FILE_MISSING,
    NEUTRAL_CONFIDENCE,
    EvidenceVerifier,
)
from reactive_agents.core.config import VerificationConfig
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.governance import ClaimEvidence, Receipt, VerificationReport
from reactive_agents.core.ids import AgentId, StepId, TaskId
from reactive_agents.core.results import ReasoningMetadata, ReasoningResult, ReasoningStep, StepMetadata
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.ports import Verifier
from reactive_agents.testing import ScriptedLLM, fail, say

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JUDGED = EvidenceVerifier(VerificationConfig(judge_model="scripted/judge"))


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def observed(key: str | None, text: str, tool: str = "file-read", *, success: bool = True) -> ReasoningStep:
    metadata = StepMetadata(tool_used=tool, success=success, result_key=key)
    return ReasoningStep(StepId(f"step-{key or 'x'}"), "observation", text, NOW, metadata)


async def verified(
    output: str | None,
    results: dict[str, str],
    *,
    task: str = "Look it up.",
    verifier: EvidenceVerifier | None = None,
    steps: tuple[ReasoningStep, ...] = (),
    llm: ScriptedLLM | None = None,
    details: dict[str, Any] | None = None,
) -> VerificationReport:
    port: Verifier = verifier or EvidenceVerifier()
    steps = steps or tuple(observed(key, "a shortened view") for key in results)
    result = ReasoningResult(
        "reactive", steps, output, ReasoningMetadata(1, 0, 1, 1, 1), "completed", results
    )
    asked = Task(TaskId("t"), AgentId("a"), task, NOW, details=details or {})
    pending = port.verify(asked, result, llm=llm or ScriptedLLM(), model="scripted/run")
    return (await attempt(pending)).unwrap()


@pytest.mark.parametrize(
    ("answer", "seen", "supported"),
    [
        ("It is 1,000.", "total: 1000", True),
        ("It is 1000.", "total 1.000,00 EUR", True),
        ("It is 12 %.", "share = 0.12", True),
        ("It is 12 %.", "it rose by 12 percent", True),
        ("It is 12 %.", "12 km to go", False),
        ("It is 1.5 km.", "1500 m", True),
        ("It is 1.5 km.", "1.5 kg", False),
        ("It is 3.14.", "pi = 3.14159", True),
        ("It is 3.2.", "pi = 3.14159", False),
        ("It is 42.", "nothing of the kind", False),
        ("There are 3 of them.", "three of them", True),
        ("It is 350.", "250 and 100", True),
        ("It is 150.", "250 and 100", True),
        ("It is 2.5 times as much.", "250 and 100", True),
        ("It is 67 %.", "200 of 300", False),
        ("It is 66.7 %.", "200 of 300", True),
        ("It is 251.", "250 and 100", False),
        ("It happened on 2024-05-01.", "date: 2024-05-01T10:00", True),
        ("It happened on 2024-05-02.", "date: 2024-05-01T10:00", False),
        ('It says "the quick, brown fox".', "The quick\n  brown FOX!", True),
        ('It says "the quick red fox".', "The quick brown fox", False),
        ("It was written by Ada Lovelace.", "author: LOVELACE, Ada", True),
        ("It was written by Ada Lovelace.", "author: Ada Byron", False),
        ("See settings.toml for it.", "found settings.toml", True),
    ],
)
async def test_a_claim_is_supported_by_what_was_observed(answer: str, seen: str, supported: bool) -> None:
    report = await verified(answer, {"file-read-1": seen})
    (claim,) = report.claims
    assert claim.supported is supported
    assert (claim.key, bool(claim.excerpt)) == (("file-read-1", True) if supported else (None, False))
    assert report.confidence == (1.0 if supported else 0.0)
    assert report.verified is supported
    assert len(report.findings) == (not supported)


@ON_BOTH
async def test_the_full_result_counts_and_not_the_shortened_view() -> None:
    report = await verified("It is 4711.", {"file-read-1": "x" * 90_000 + " 4711"})
    assert report.verified
    assert report.claims[0].excerpt.endswith("4711")


async def test_the_task_counts_and_so_do_observations_that_were_not_stored() -> None:
    report = await verified(
        "17 and 23 and 5.", {}, task="Add 17.", steps=(observed(None, "23 given"), observed("lost", "5 left"))
    )
    assert [claim.key for claim in report.claims] == ["task", "step-x", "step-lost"]


async def test_the_confidence_is_the_weighted_share_of_supported_claims() -> None:
    report = await verified('5 of "no such words" here.', {"a": "5"})
    assert report.confidence == pytest.approx(1.0 / 2.5)
    assert report.findings == ("The quotation 'no such words' was not observed.",)
    assert not report.verified
    assert (
        await verified("5 and 77.", {"a": "5"}, verifier=EvidenceVerifier(VerificationConfig(0.5)))
    ).verified


ORDERS = {
    f"get_order-{number}": f'{{"id": {1000 + number}, "total": {9.5 + number}, "name": "c{number}"}}'
    for number in (1, 2, 3)
}
ROWS = {"read-1": "tea 3.50\ncoffee 4.25\ncake 5.10\njam 2.75"}


@pytest.mark.parametrize(
    ("output", "results", "confidence"),
    [
        ("Together they are 34.50.", ORDERS, 1.0),
        ("On average they are 11.50.", ORDERS, 1.0),
        ("Together they are 35.00.", ORDERS, 0.0),
        ("Together they are 34.60.", ORDERS, 0.0),
        ("Together they are 46.75.", ORDERS, 0.0),
        ("All of it costs 15.60.", ROWS, 1.0),
        ("All of it costs 15.70.", ROWS, 0.0),
    ],
)
async def test_a_sum_of_several_results_is_supported(
    output: str, results: dict[str, str], confidence: float
) -> None:
    report = await verified(output, results, task="How much is it together?")
    assert report.confidence == confidence


async def test_an_answer_without_claims_has_the_neutral_confidence_which_does_not_pass() -> None:
    report = await verified("Roses are red.", {"a": "5"})
    assert report == VerificationReport(
        NEUTRAL_CONFIDENCE, False, (), (), Receipt(("file-read",), (), (), (), "unchecked")
    )


@pytest.mark.parametrize("output", [None, "", "  \n"])
async def test_no_answer_is_not_verified(output: str | None) -> None:
    report = await verified(output, {"a": "5"})
    assert (report.confidence, report.verified) == (0.0, False)
    assert report.receipt is not None
    assert report.receipt.verdict == "unverified"


async def test_the_receipt_tells_what_was_done() -> None:
    steps = (
        observed("a", "5", "http-get"),
        observed("b", "6", "calculator"),
        observed("c", "7", "http-get"),
        observed(None, "no such host", "web-search", success=False),
    )
    report = await verified("6 and 5.", {"a": "5", "b": "6", "c": "7"}, steps=steps)
    assert report.receipt == Receipt(("http-get", "calculator"), ("b", "a"), (), (), "verified")


async def test_files_said_to_be_written_must_be_in_the_workspace(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "out").mkdir(parents=True)
    (workspace / "out" / "a.md").write_text("hello")
    (tmp_path / "secret.txt").write_text("outside")
    (workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    answer = "I wrote out/a.md, out/b.md, ../secret.txt, link.txt and the folder out.d for you."
    report = await verified(answer, {"a": "out/b.md"}, verifier=EvidenceVerifier(workspace=workspace))
    assert report.receipt is not None
    assert report.receipt.delivered == ("out/a.md",)
    assert {"out/b.md", "link.txt", "out.d"} <= set(report.receipt.missing)
    assert report.claims[0] == ClaimEvidence("file", "out/a.md", True, "workspace", "5 bytes")
    assert report.confidence <= CONFIDENCE_WITH_A_FILE_MISSING
    assert (report.verified, report.receipt.verdict) == (False, "unverified")


async def test_a_missing_file_weighs_more_than_everything_that_is_right(tmp_path: Path) -> None:
    numbers = ", ".join(map(str, range(100, 140)))
    report = await verified(
        f"{numbers}. I saved it as all.csv.", {"a": numbers}, verifier=EvidenceVerifier(workspace=tmp_path)
    )
    assert report.confidence == CONFIDENCE_WITH_A_FILE_MISSING
    assert report.findings == ("The answer says that the file 'all.csv' was written, but it does not exist.",)


async def test_without_a_workspace_a_tool_that_names_the_file_is_enough() -> None:
    report = await verified("I saved it as all.csv.", {"file-write-1": "wrote 5 bytes to all.csv"})
    assert report.receipt is not None
    assert report.receipt.delivered == ("all.csv",)


async def test_deliverables_are_looked_for_whatever_the_answer_says(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("hello")
    verifier = EvidenceVerifier(VerificationConfig(deliverables=("report.md", "data.csv")), tmp_path)
    report = await verified("All done.", {}, verifier=verifier, details={"deliverables": ["plot.svg", 7]})
    assert report.receipt is not None
    assert (report.receipt.delivered, report.receipt.missing) == (("report.md",), ("data.csv", "plot.svg"))
    assert report.findings == (
        "The deliverable 'data.csv' does not exist.",
        "The deliverable 'plot.svg' does not exist.",
    )
    assert (report.verified, report.receipt.verdict) == (False, "unverified")


async def test_a_deliverable_that_the_answer_names_too_is_one_claim(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("hello")
    verifier = EvidenceVerifier(VerificationConfig(deliverables=("report.md",)), tmp_path)
    report = await verified("I wrote report.md.", {}, verifier=verifier)
    assert [claim.claim for claim in report.claims] == ["report.md"]
    assert (report.confidence, report.verified) == (1.0, True)


async def test_without_an_answer_the_deliverables_are_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text("hello")
    verifier = EvidenceVerifier(VerificationConfig(deliverables=("report.md",)), tmp_path)
    report = await verified(None, {}, verifier=verifier)
    assert report.receipt is not None
    assert (report.confidence, report.receipt.delivered) == (0.0, ("report.md",))


# --- further answers ------------------------------------------------------------------------------------


async def test_further_answers_that_agree_are_part_of_the_confidence() -> None:
    llm = ScriptedLLM(say("It weighs 120 g."), say("120 grams it is."), say("About 450 g."), say("120"))
    verifier = EvidenceVerifier(VerificationConfig(self_consistency=4))
    report = await verified("It weighs 120 grams.", {"a": "120 g"}, verifier=verifier, llm=llm)
    assert report.agreement == 0.75
    assert report.confidence == (1.0 + 0.75) / 2
    assert report.verified
    request = llm.requests[0]
    assert (request.purpose, request.model) == ("self-consistency", "scripted/run")
    shown = json.loads(request.messages[1].content)
    assert shown == {"task": "Look it up.", "observed": [{"key": "a", "text": "120 g"}]}


async def test_further_answers_that_do_not_agree_are_a_finding() -> None:
    llm = ScriptedLLM(say("450 grams."), fail(ModelUnavailable("down", "m")))
    verifier = EvidenceVerifier(VerificationConfig(self_consistency=2))
    report = await verified("It weighs 120 grams.", {"a": "120 g"}, verifier=verifier, llm=llm)
    assert (report.agreement, report.confidence, report.verified) == (0.0, 0.5, False)
    assert report.findings == (
        "1 of 2 further answers failed.",
        "Further answers agree with this one by 0% only.",
    )


async def test_an_answer_without_claims_is_compared_by_its_words() -> None:
    llm = ScriptedLLM(say("it rains"), say("it snows"))
    verifier = EvidenceVerifier(VerificationConfig(self_consistency=2))
    report = await verified("it rains", {}, verifier=verifier, llm=llm)
    assert report.agreement == 0.75
    assert report.receipt is not None
    assert report.receipt.verdict == "verified"


# --- a model's opinion ----------------------------------------------------------------------------------


async def test_a_model_has_half_of_the_say() -> None:
    llm = ScriptedLLM(say('{"score": 0.5, "unsupported": ["It is old."]}'))
    report = await verified("It is 5. It is old.", {"a": "5"}, verifier=JUDGED, llm=llm)
    assert report.confidence == 0.75
    assert report.claims[-1] == ClaimEvidence("statement", "It is old.", False)
    (request,) = llm.requests
    assert json.loads(request.messages[1].content)["observed"][0] == {"key": "a", "text": "5"}
    assert (request.purpose, request.model, request.temperature) == ("verify", "scripted/judge", 0.0)


async def test_an_opinion_may_stand_in_a_fence() -> None:
    llm = ScriptedLLM(say('```json\n{"score": 0.5, "unsupported": []}\n```'))
    report = await verified("It is 5.", {"a": "5"}, verifier=JUDGED, llm=llm)
    assert (report.confidence, report.findings) == (0.75, ())


async def test_a_model_alone_decides_where_the_rules_find_no_claims() -> None:
    llm = ScriptedLLM(say('{"score": 0.2, "unsupported": []}'))
    report = await verified("Roses are blue.", {"a": "red"}, verifier=JUDGED, llm=llm)
    assert (report.confidence, report.verified) == (0.2, False)
    assert report.receipt is not None
    assert report.receipt.verdict == "unverified"


@pytest.mark.parametrize(
    "turn", [fail(ModelUnavailable("down", "m")), say("yes"), say('{"score": 7, "unsupported": []}')]
)
async def test_a_model_that_fails_leaves_the_rules_to_decide(turn: object) -> None:
    llm = ScriptedLLM(turn)  # type: ignore[arg-type]
    report = await verified("5.", {"a": "5"}, verifier=JUDGED, llm=llm)
    assert report.confidence == 1.0
    assert "it had no part in this" in report.findings[0]


@ON_BOTH
async def test_other_runs_go_on_while_a_long_result_is_read() -> None:
    turns, done = 0, False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(others)
        result = "".join(f"Bill {number} was of {number}.50 EUR.\n" for number in range(4_000))
        report = await verified("Bill 7 was of 7.50 EUR.", {"bills": result})
        done = True
        assert report.claims
        assert all(each.supported for each in report.claims)
    assert turns > 10
