"""Personal data by presidio, where it is installed, and what is said where it is not."""

from __future__ import annotations

import importlib.util

import pytest
from attrs import frozen
from returns.result import Failure

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.adapters.governance.guardrails.personal_data import presidio_check
from reactive_agents.adapters.governance.guardrails.rule_guardrail import RuleGuardrail
from reactive_agents.core.config import CheckConfig
from reactive_agents.core.errors import InvalidConfig, ServiceFailed
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM

pytestmark = pytest.mark.anyio

installed = importlib.util.find_spec("presidio_analyzer") is not None


@frozen
class Recognized:
    entity_type: str
    start: int
    end: int
    score: float


class Analyzer:
    """Answers as presidio's analyzer does."""

    def analyze(
        self, *, text: str, language: str, entities: list[str] | None, score_threshold: float
    ) -> list[Recognized]:
        start = text.find("Ada")
        assert (language, entities, score_threshold) == ("en", ["PERSON"], 0.4)
        return [Recognized("US_PERSON", start, start + 3, 0.85)] if start >= 0 else []


@pytest.mark.skipif(installed, reason="presidio is installed")
def test_without_the_extra_it_is_a_typed_error_that_names_it() -> None:
    missing = presidio_check()
    assert isinstance(missing, Failure)
    assert isinstance(missing.failure(), ServiceFailed)
    assert "reactive-agents[presidio]" in missing.failure().message
    builder = (
        ReactiveAgents.create().with_llm(ScriptedLLM()).with_guardrails("toxicity", CheckConfig("presidio"))
    )
    with pytest.raises(AgentError) as caught:
        builder.build()
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == "guardrails.checks[1]"
    assert "reactive-agents[presidio]" in caught.value.error.message


async def test_what_an_analyzer_recognizes_is_a_finding() -> None:
    loaded: list[Analyzer] = []

    def load() -> Analyzer:
        loaded.append(Analyzer())
        return loaded[0]

    check = presidio_check(threshold=0.4, entities=["PERSON"], load=load).unwrap()
    guardrail = RuleGuardrail((check,))
    for _ in range(2):
        report = (await attempt(guardrail.check("Ask Ada.", "output"))).unwrap()
        assert report.redacted == "Ask [us-person]."
    assert (await attempt(guardrail.check("Ask me.", "output"))).unwrap().findings == ()
    assert len(loaded) == 1


async def test_an_analyzer_that_cannot_be_loaded_leaves_the_text_unchecked() -> None:
    def load() -> Analyzer:
        raise OSError("no language model")

    check = presidio_check(load=load).unwrap()
    failed = (await attempt(RuleGuardrail((check,)).check("Ask Ada.", "output"))).failure()
    assert "OSError" in failed.message


async def test_the_library_itself() -> None:
    pytest.importorskip("presidio_analyzer")
    guardrail = RuleGuardrail((presidio_check().unwrap(),))
    report = (await attempt(guardrail.check("Write to ada@example.org.", "output"))).unwrap()
    assert report.redacted is not None
    assert "ada@example.org" not in report.redacted
