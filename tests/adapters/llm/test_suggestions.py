"""Near matches for models that do not exist."""

from __future__ import annotations

import pytest

from tests.support.command_line import command
from tests.support.openai_server import OpenAIServer, refusal


def similar_models(model: str) -> tuple[str, ...]:
    """The names that are suggested; litellm takes seconds to load, which no collection of tests waits for."""
    from reactive_agents.adapters.llm import error_mapping

    return error_mapping.similar_models(model)


@pytest.mark.parametrize(
    ("model", "similar"),
    [
        ("antropic", "anthropic/claude-sonnet-5"),
        ("antropic/claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("open-ai/gpt-5", "openai/gpt-5"),
        ("openai/gpt-5.4-mni", "openai/gpt-5.4-mini"),
        ("gpt5", "openai/gpt-5"),
        ("openai:gpt-4o", "openai/gpt-4o"),
        ("OpenAI/gpt-4o", "openai/gpt-4o"),
    ],
)
def test_the_closest_name_comes_first(model: str, similar: str) -> None:
    assert similar_models(model)[0] == similar


@pytest.mark.parametrize("model", ["foo", "foo/bar", "openai/no-such-thing", "openai/gpt-4o-mini", ""])
def test_there_is_no_suggestion_without_a_close_name_or_for_a_known_one(model: str) -> None:
    assert similar_models(model) == ()


def test_an_unknown_provider_is_one_sentence_with_near_matches() -> None:
    run = command("run", "Hello", "--model", "antropic/claude-sonnet-5", "--quiet")
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == (
        "error: There is no provider 'antropic', as the model 'antropic/claude-sonnet-5' names it. "
        "Did you mean anthropic/claude-sonnet-5?\n"
    )


def test_a_model_that_its_provider_does_not_know_is_one_sentence_with_near_matches() -> None:
    with OpenAIServer(
        refusal(404, "The model `gpt-5.4-mni` does not exist", code="model_not_found")
    ) as server:
        run = command(
            *("run", "Hello", "--model", "openai/gpt-5.4-mni", "--quiet"),
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.base_url,
        )
    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr == (
        "error: The provider of openai/gpt-5.4-mni refused the model: "
        "The model `gpt-5.4-mni` does not exist. "
        "Did you mean openai/gpt-5.4-mini or openai/gpt-5-mini or openai/gpt-4o-mini?\n"
    )
