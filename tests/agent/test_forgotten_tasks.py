"""Models that greet and offer their help after they made calls: the task is lost."""

from __future__ import annotations

import pytest

from reactive_agents import AgentResult, ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, forever, say

pytestmark = pytest.mark.anyio

TASK = "Read the notes 4, 8 and 12 and tell me which one mentions Rome."
READS = [call("read_note", number=number) for number in (4, 8, 12)]


async def run(task: str, *turns: Turn) -> tuple[AgentResult, ScriptedLLM]:
    def read_note(number: int) -> str:
        """Read a note."""
        return f"Note {number} is on {'Rome' if number == 8 else 'Oslo'}."

    @tool(output=True)
    def save_note(text: str) -> str:
        """Save a note."""
        return "saved"

    llm = ScriptedLLM(*turns[:-1], forever(turns[-1]))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(read_note, save_note).build()
    return await agent.run(task), llm


@pytest.mark.parametrize(
    "texts",
    [
        ["Hello! How can I assist you today?"],
        ["Hello! How can I assist you today?", "Hi there! What can I do for you?"],
        ["Sure! What would you like to know?", "Hello, how may I help you today?"],
        ["I’m here to help. Please let me know what you need help with."],
        ["Guten Tag! Wie kann ich Ihnen helfen?"],
        ["Bonjour ! Comment puis-je vous aider aujourd’hui ?"],
        ["¡Hola! ¿En qué puedo ayudarte hoy?", "Hola, ¿cómo puedo ayudarte?"],
        ["Здравствуйте! Чем я могу вам помочь?"],
        ["你好！有什么可以帮您的吗？"],
        ["Sure! If you need any help with your notes, just let me know."],
        ["Gerne! Wenn Sie Fragen zu den Notizen haben, bin ich für Sie da."],
    ],
)
@pytest.mark.parametrize("deliver", [say, answer])
async def test_an_offer_of_help_after_calls_is_no_answer(texts: list[str], deliver: type[Turn]) -> None:
    result, llm = await run(TASK, *READS, *map(deliver, texts))
    assert (result.status, result.metadata.terminated_by) == ("partial", "empty_reply")
    assert result.reason == "The model offered its help in place of an answer. Missing: a final answer."
    assert result.metadata.model_calls == len(READS) + 2
    assert TASK in llm.requests[-1].messages[-1].content  # which it may have lost


@pytest.mark.parametrize(
    "task", ["Read note 8 and greet our guests.", "Schreibe eine Begrüßung wie in Notiz 8."]
)
async def test_a_greeting_that_the_task_asks_for_is_an_answer(task: str) -> None:
    result, _ = await run(task, *READS[-1:], answer("Hello! How can I help you today?"))
    assert result.status == "completed"


async def test_a_model_that_is_told_its_task_again_can_answer() -> None:
    found = answer("Note 8 mentions Rome.")
    result, _ = await run(TASK, *READS, say("Hello! How can I assist you today?"), found)
    assert (result.status, result.output) == ("completed", "Note 8 mentions Rome.")


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("Save that Ann called.", "Done! How can I help you next?"),
        ("Save that Ann called.", "Saved. What else can I do for you?"),
        ("Save that Ann called.", "The note is saved. Let me know what you need."),
        ("Hi, please save that I came at nine.", "Hello! How can I help you today?"),
    ],
)
async def test_an_offer_beside_an_answer_costs_nothing(task: str, text: str) -> None:
    result, _ = await run(task, call("save_note", text="x"), answer(text))
    assert (result.status, result.output, result.metadata.model_calls) == ("completed", text, 2)
