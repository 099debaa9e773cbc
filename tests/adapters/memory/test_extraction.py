"""Extraction of memories from a run, and how they are shown again."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from attrs import evolve

from reactive_agents.adapters.memory.extraction import extract_memories
from reactive_agents.adapters.memory.recall import ranked, show_episode, show_fact
from reactive_agents.core.memory import MemoryCandidate, MemoryKind, MemoryOrigin
from reactive_agents.core.results import ReasoningResult
from reactive_agents.testing.core import START
from tests.support.memories import a_result, a_task, an_entry, observed


def kept(
    kind: MemoryKind, result: ReasoningResult, task: str = "How high is Mount Elbrus?"
) -> tuple[MemoryCandidate, ...]:
    return tuple(each for each in extract_memories(a_task(task), result) if each.kind == kind)


def test_the_episode_tells_the_question_the_outcome_and_the_answer() -> None:
    (episode,) = kept("episodic", a_result())
    assert episode.content == (
        "Asked: How high is Mount Elbrus? Outcome: completed. Answer: Mount Elbrus is 5642 metres high."
    )
    assert (episode.origin, episode.success) == ("model", True)


def test_the_episode_of_a_failure_tells_the_reason_and_counts_for_more() -> None:
    (episode,) = kept("episodic", a_result(None, status="failed", reason="The budget is spent"))
    assert episode.content.endswith("Outcome: failed. Answer: The budget is spent.")
    assert episode.success is False
    assert episode.importance > kept("episodic", a_result())[0].importance


def test_long_texts_are_cut_and_lines_joined() -> None:
    (episode,) = kept("episodic", a_result("word\n" * 10_000), "Tell\nme " * 10_000)
    assert len(episode.content) < 600
    assert episode.content.isprintable()
    assert episode.content.count("…") == 2


def test_the_procedure_is_the_sequence_of_tools_that_did_their_work() -> None:
    steps = (
        observed("web-search", "a"),
        observed("web-search", "b"),
        observed("shell", "no", success=False),
        observed("calculator", "3"),
    )
    (way,) = kept("procedural", a_result("x", *steps))
    assert way.content == "Tasks of type query: web-search, then calculator, with strategy reactive"
    assert (way.origin, way.success) == ("run", True)
    assert kept("procedural", a_result()) == ()


def test_of_many_tools_the_first_are_named() -> None:
    steps = tuple(observed(f"tool-{number}", "x") for number in range(20))
    (episode,) = kept("episodic", a_result("x", *steps, observed("recall", "x")))
    assert episode.source == "tool-0, tool-1, tool-2, tool-3, tool-4 and 15 more"
    assert kept("procedural", a_result("x", *steps)) == ()


@pytest.mark.parametrize(
    ("output", "facts"),
    [
        ("Mount Elbrus is 5642 metres high.", ["Mount Elbrus is 5642 metres high."]),
        ("## Heights\n- The summit of Elbrus is white.\n- Short one.", ["The summit of Elbrus is white."]),
        ("I think that Elbrus might be 5642 metres high.", []),
        ("Is Elbrus really 5642 metres high, one may ask?", []),
        ('{"elbrus": 5642, "kazbek": 5054}', ['{"elbrus": 5642, "kazbek": 5054}']),
        ('{"Mount Elbrus has 2 peaks. They are high', []),
        ('The rest:\n"kazbek": "Kazbek is 5054 metres high",\n"elbrus 2": "about 5642 metres high",', []),
        ("I have no way to remember that Elbrus is 5642 metres high.", []),
        ("My notes have nothing about Mount Elbrus in 2024.", []),
        ("Sorry, but as of now I don't have a memory for Elbrus.", []),
        ("there is nothing definite in this sentence.", []),
        ("Elbrus has 2 peaks. " + "Elbrus " * 60, []),
    ],
)
def test_facts_are_sentences_that_say_something_definite(output: str, facts: list[str]) -> None:
    assert [each.content for each in kept("semantic", a_result(output))] == facts


def test_long_structured_answers_are_kept_by_field() -> None:
    peaks = [{"name": f"Mount number {number}", "metres": number} for number in range(30)]
    answer = json.dumps({"range": {"peaks": peaks}, "empty": None}, indent=1)
    facts = [each.content for each in kept("semantic", a_result(answer))]
    assert facts[:2] == ["range.peaks.1.name: Mount number 0", "range.peaks.1.metres: 0"]
    (episode,) = kept("episodic", a_result(answer))
    assert episode.content.endswith("Answer: a JSON object with range, empty.")


def test_a_structured_result_of_a_tool_is_kept_whole_or_by_field() -> None:
    short = '{"Mount Elbrus": 5642}'
    long = json.dumps({"other": "x" * 300, "mount": {"elbrus": {"height in metres": 5642}}})
    for text, fact in ((short, short), (long, "mount.elbrus.height in metres: 5642")):
        facts = kept("semantic", a_result(None, observed("look", text), status="partial"), "Mount Elbrus?")
        assert [each.content for each in facts] == [fact]


@pytest.mark.parametrize(
    "wish",
    [
        "Remember: the gate code is 4711.",
        "Please remember my address, 12 Elm Street.",
        "Look it up, and remember it for tomorrow.",
        "I want you to remember this number.",
        "Don't forget that Ada is allergic to nuts.",
        "Make a note: the car is blue.",
        "Merke dir, dass Huber montags liefert.",
        "N'oublie pas que le portail est bleu.",
        "请记住我的地址是榆树街12号。",
        "Remember that I do not remember names.",
        "Merk dir, dass ich nicht komme.",
    ],
)
def test_wishes_in_usual_words_are_kept(wish: str) -> None:
    assert [each.content for each in kept("semantic", a_result(None), wish)] == [wish]


@pytest.mark.parametrize(
    "refusal",
    [
        "Don't remember that my number is 4711.",
        "Please do not remember that I am ill.",
        "Never remember that I was here.",
        "You need not remember that my name was on it.",
        "There is no need to keep in mind what I earn.",
        "Do not make a note of this address.",
        "Merk dir bitte nicht, dass ich krank bin.",
        "Ne retiens pas mon adresse.",
        "请不要记住我的地址。",
    ],
)
def test_a_request_not_to_remember_is_no_wish(refusal: str) -> None:
    assert kept("semantic", a_result(None), refusal) == ()


def test_a_long_wish_is_kept_whole() -> None:
    wish = f"Remember that the delivery goes {'round the corner and ' * 40}to the door."
    assert [each.content for each in kept("semantic", a_result(None), wish)] == [wish]


@pytest.mark.parametrize(
    ("result", "origin"),
    [
        (a_result(), "model"),
        (a_result("Mount Elbrus is 5642 metres high.", observed("web-search", "5642")), "tool"),
        (a_result("Mount Elbrus is 5642 metres high.", observed("web-search", "x", success=False)), "model"),
    ],
)
def test_an_answer_that_rests_on_tools_comes_from_tools(
    result: ReasoningResult, origin: MemoryOrigin
) -> None:
    (fact,) = kept("semantic", result)
    assert fact.origin == origin


@pytest.mark.parametrize("status", ["failed", "partial"])
def test_the_answer_of_a_run_that_did_not_end_well_is_no_fact(status: str) -> None:
    assert kept("semantic", evolve(a_result(), status=status)) == ()


def test_facts_of_tools_come_from_the_full_result_and_bear_on_the_task() -> None:
    full = (
        "The lake is 20 metres deep.\nMount Elbrus was climbed first in 1874, by the south side.\n"
        + "x" * 500
    )
    step = observed("web-search", "The lake …", key="r1")
    facts = kept(
        "semantic", a_result(None, step, status="partial", tool_results={"r1": full}), "Mount Elbrus?"
    )
    assert [(each.content, each.origin, each.source) for each in facts] == [
        ("Mount Elbrus was climbed first in 1874, by the south side.", "tool", "web-search")
    ]


def test_what_the_user_asked_to_be_remembered_is_theirs_and_important() -> None:
    task = (
        "My name is Ann. I prefer short answers! Do I like tea? Never use the word synergy. How high is K2?"
    )
    wishes = [each for each in kept("semantic", a_result(None), task) if each.origin == "user"]
    assert [each.content for each in wishes] == [
        "My name is Ann.",
        "I prefer short answers!",
        "Never use the word synergy.",
    ]
    assert all(each.importance > 0.8 for each in wishes)


def test_a_sentence_that_a_secret_was_taken_out_of_is_no_fact() -> None:
    hole = "The vault of Ann is opened by [redacted:named-value] since 2020."
    candidates = extract_memories(a_task(f"Remember that. {hole}"), a_result(f"Elbrus is high. {hole}"))
    assert not any("vault" in each.content for each in candidates if each.kind == "semantic")


def test_an_episode_shows_how_often_it_worked() -> None:
    entry = evolve(an_entry("e", "Asked.", kind="episodic"), successes=1, executions=3)
    assert show_episode(entry) == (
        "[from a model's answer, unverified; 2026-01-01; worked 1 of 3 times] Asked."
    )


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        ("user", "said by the user"),
        ("run", "recorded by the framework"),
        ("model", "from a model's answer, unverified"),
        ("tool", "from the tool source, untrusted"),
    ],
)
def test_a_fact_shows_first_where_it_comes_from(origin: MemoryOrigin, shown: str) -> None:
    assert show_fact(an_entry("f", "So it is.", origin=origin)) == f"- [{shown}; 2026-01-01] So it is."


def test_a_strong_memory_passes_a_slightly_better_match_that_has_faded() -> None:
    faded = an_entry("old", "Old", at=START - timedelta(days=150))
    fresh = an_entry("new", "New")
    assert ranked((faded, fresh), START) == (fresh, faded)
    assert ranked((evolve(faded, seen_at=START), fresh), START)[0].id == "old"
