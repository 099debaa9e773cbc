"""Personal data by the ``presidio-analyzer`` library of the extra ``presidio``: names and places too."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

_LIBRARY = "presidio_analyzer"
_MISSING = (
    "The check 'presidio' needs the package 'presidio-analyzer': pip install 'reactive-agents[presidio]'."
)


def presidio_check(
    *,
    action: GuardrailAction = "redact",
    threshold: float = 0.5,
    entities: Sequence[str] = (),
    language: str = "en",
    load: Callable[[], Any] | None = None,
) -> Result[Check, ServiceFailed]:
    """A check by presidio, in a worker thread. The first text waits until its language model is loaded.

    Fails with ``ServiceFailed`` when the extra is not installed.

    Args:
        threshold: 0 to 1; what presidio is less sure of is passed over.
        entities: presidio's names of what to look for, such as ``PERSON``; all that it knows by default.
        language: of the texts, as presidio names it; its language model must be installed.
        load: makes the analyzer; presidio's own ``AnalyzerEngine`` by default.
    """
    if load is None and importlib.util.find_spec(_LIBRARY) is None:
        return Failure(ServiceFailed(_MISSING, "guardrail", "check"))
    analyzers: list[Any] = []
    loading = Lock()

    def analyze(text: str) -> list[GuardrailFinding]:
        with loading:
            if not analyzers:
                analyzers.append((load or _load)())
        found = analyzers[0].analyze(
            text=text, language=language, entities=list(entities) or None, score_threshold=threshold
        )
        return [
            GuardrailFinding(
                str(each.entity_type).lower().replace("_", "-"),
                each.start,
                each.end,
                each.score,
                action,
                "The text has personal data by presidio's judgement.",
            )
            for each in found
        ]

    async def check(text: str) -> list[GuardrailFinding]:
        return await anyio.to_thread.run_sync(analyze, text)

    return Success(check)


def _load() -> Any:
    try:
        return importlib.import_module(_LIBRARY).AnalyzerEngine()
    except SystemExit as error:  # it tries to install the language model, and ends the process when it cannot
        raise RuntimeError("presidio's language model is not installed") from error
