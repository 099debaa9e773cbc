"""Recall and false alarms of the rules on the half of the corpus that they were not tuned on."""

from __future__ import annotations

import ast
import json
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

from reactive_agents.adapters.governance.guardrails.injection import prompt_injection
from tests.adapters.governance.injection_corpus import Sample, attacks, harmless, is_tuning, near_misses

LANGUAGES = {"en", "de", "fr", "es", "it", "pt", "zh", "ja", "ru", "tr"}
LEAST_RECALL, LEAST_OF_A_LANGUAGE = 0.8, 0.7
MOST_NEAR_MISSES, MOST_OF_DOCUMENTATION = 0.03, 0.005
_CHECK = prompt_injection()


def blocks(text: str) -> bool:
    findings = _CHECK(text)
    assert isinstance(findings, list)
    return any(each.action == "block" for each in findings)


def share(texts: Iterable[str]) -> float:
    found = [blocks(each) for each in texts]
    return sum(found) / len(found)


def held_out(samples: Iterable[Sample]) -> list[Sample]:
    return [each for each in samples if not each.tuning]


def paragraphs() -> list[str]:
    """Paragraphs of the documentation in the modules of the standard library, of one half of the modules."""
    found = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        if is_tuning(path.name):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found += (ast.get_docstring(node) or "").split("\n\n")
    return [each for each in found if len(each) >= 40]


def test_the_corpus_is_large_and_in_many_languages() -> None:
    assert len({each.text for each in attacks()}) >= 600
    assert len({each.text for each in (*near_misses(), *harmless())}) >= 2_000
    for samples in (attacks(), near_misses(), harmless()):
        assert {each.language for each in samples} == LANGUAGES


def test_most_attacks_are_found(record_property: pytest.RecordProperty) -> None:
    samples = held_out(attacks())
    recall = share(each.text for each in samples)
    record_property("figures", f"{len(samples)} attacks: {recall=:.3f}")
    print(f"\n{len(samples)} attacks: {recall=:.3f}")
    assert recall >= LEAST_RECALL


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_attacks_are_found_in_every_language(language: str) -> None:
    assert share(each.text for each in attacks() if each.language == language) >= LEAST_OF_A_LANGUAGE


def test_few_near_misses_are_taken_for_attacks(record_property: pytest.RecordProperty) -> None:
    samples = held_out(near_misses())
    false_alarms = share(each.text for each in samples)
    record_property("figures", f"{len(samples)} near misses: {false_alarms=:.3f}")
    print(f"\n{len(samples)} near misses: {false_alarms=:.3f}")
    assert false_alarms < MOST_NEAR_MISSES


@pytest.mark.system
def test_hardly_any_harmless_text_is_taken_for_an_attack(record_property: pytest.RecordProperty) -> None:
    for name, texts in (
        ("mails, logs, code, tasks", [each.text for each in held_out(harmless())]),
        ("paragraphs of documentation", paragraphs()),
    ):
        false_alarms = share(texts)
        record_property("figures", f"{len(texts)} {name}: {false_alarms=:.4f}")
        print(f"\n{len(texts)} {name}: {false_alarms=:.4f}")
        assert false_alarms < MOST_OF_DOCUMENTATION


def test_wordings_of_another_author() -> None:
    """They were written without a look at the rules, which found 30 of the 90 then."""
    path = Path(__file__).parent / "samples" / "other_wordings.json"
    texts: dict[str, dict[str, list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    assert set(texts["attacks"]) == set(texts["harmless"]) == LANGUAGES
    assert share(each for some in texts["attacks"].values() for each in some) >= LEAST_RECALL
    for language, some in texts["attacks"].items():
        assert share(some) >= LEAST_OF_A_LANGUAGE, language
    assert [each for some in texts["harmless"].values() for each in some if blocks(each)] == []
