"""Texts that make the call that they hold, and texts that only show it."""

from __future__ import annotations

from typing import get_args

import pytest

from reactive_agents.kernel.call_parsing.json_calls import CallForm
from reactive_agents.kernel.call_parsing.parser import makes_call, parse_calls
from tests.support.call_format import format_call

KNOWN = ("clock", "web-search")
TAGGED = '<tool_call>\n{"name": "clock", "arguments": {"zone": "a"}}\n</tool_call>'
BARE = '{"name": "clock", "arguments": {"zone": "a"}}'


def made(text: str) -> bool:
    parsed = parse_calls(text, KNOWN)
    return parsed.made and bool(parsed.calls)


@pytest.mark.parametrize("form", get_args(CallForm))
def test_a_call_that_is_the_whole_message_is_made_in_every_form(form: CallForm) -> None:
    written = format_call("clock", {"zone": "a"}, form)
    assert made(written)
    assert made(f"<think>Is it {written}?</think>\n\n{written}\n")


@pytest.mark.parametrize(
    "text",
    [
        f"I will look.\n{TAGGED}",
        f"I will look now:\n\n{TAGGED}\n",
        f"So: {TAGGED}",
        f"I will look.{TAGGED}",
        f"The user asks for the time. So:\n{TAGGED}",
        f"『a』 is 《b》.\n{TAGGED}",
        f"The zone is {'<zone>a</zone>'}.\n{TAGGED}",
        f'It said "no" before.\n{TAGGED}',
        f"```python\nprint()\n```\nNow the time.\n{TAGGED}",
        f"```json\n{TAGGED}\n```",
        f"I will look.\n```json\n{BARE}\n```",
        f"I will look.\n```tool_code\n{BARE}\n```",
        "I will look.\nAction: clock\nAction Input: {}",
        "Final answer: clock()",
        f"{TAGGED}\n{TAGGED}<|im_end|>",
        f"<function_calls>\n{format_call('clock', {}, 'invoke')}\n</function_calls>",
    ],
)
def test_a_tagged_call_that_ends_the_message_is_made(text: str) -> None:
    assert made(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{TAGGED}\nThat is what the page says.",
        f"{TAGGED}\nand\n{TAGGED}",
        f"The page says: {TAGGED}",
        f"The page wants me to send {TAGGED}",
        f'The page says "{TAGGED}"',
        f"The page says “{TAGGED}",
        f'The page says "now,\n{TAGGED}',
        f"> The page says\n> {TAGGED}",
        f"# {TAGGED}",
        f"// {TAGGED}",
        f"<!-- {TAGGED}",
        f"<!--\n{TAGGED}\n-->",
        f"/*\n{TAGGED}\n*/",
        f"`{TAGGED}`",
        *(f"It is written so:\n{sign}\n{TAGGED}" for sign in "'`‘‚"),
        f"``` \n{TAGGED}\n```\nis on the page",
        f"```python\n{TAGGED}\n```",
        f"```python\n{TAGGED}",
        f"~~~\n{TAGGED}\n~~~",
        f"````\n```json\n{BARE}\n```\n````",
        f"<blockquote>\n{TAGGED}\n</blockquote>",
        f"The page:\n<page>\n{TAGGED}",
        f"The page:\n\n    {TAGGED}",
        *(f"The page says {sign}{TAGGED}" for sign in "『《〈〝＂❝″"),
        *(f"{sign}\n{TAGGED}" for sign in ("<![CDATA[", "=begin", "#+begin_src", "[quote]", "[code]", "{{{")),
        f"{{% raw %}}\n{TAGGED}\n",
        f"\\begin{{verbatim}}\n{TAGGED}",
        f"The page says::\n\n{TAGGED}",
        f".. code-block:: json\n\n{TAGGED}",
        f"On Monday, Eve wrote:\n{TAGGED}",
        f"User:\n{TAGGED}",
        f"<|im_start|>user\n{TAGGED}",
        f"The page says:\n{BARE}",
        f"I will look.\n\n{BARE}",
        "I will look.\nclock(zone='a')",
        f"{BARE}\nNow I wait.",
        f"```json\n{BARE}\n```\nI did not follow it.",
        f"`{BARE}` is on the page",
    ],
)
def test_a_call_that_is_quoted_or_spoken_of_is_not_made(text: str) -> None:
    assert not made(text)


def test_one_closing_fence_belongs_to_the_call() -> None:
    assert makes_call("```tool_call\n", "\n```\n")
    assert not makes_call("```tool_call\n", "\n```\n```\n")
