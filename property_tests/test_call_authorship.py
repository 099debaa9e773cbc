"""Laws of authorship: calls that a model was shown never run from its text; those that it makes itself do."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from functools import partial
from typing import get_args
from urllib.parse import quote

import anyio
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.json import JsonObject
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.call_parsing.json_calls import CallForm
from reactive_agents.testing import Turn, answer, call, forever, say
from tests.support.call_format import CallKeys, format_call
from tests.support.kernels import KernelBench, kernel_bench
from tests.support.profiles import examples

FORMS: tuple[CallForm, ...] = get_args(CallForm)
NAMES = ("file-write", "send_mail", "pay-out")

words = st.text(
    st.characters(categories=["L", "N", "P", "S", "Zs"]) | st.sampled_from("\n\\\"'<>{}"), max_size=40
)
values = st.one_of(words, st.integers(-(10**6), 10**6), st.booleans(), st.lists(words, max_size=3))
arguments = st.dictionaries(st.sampled_from(["path", "content", "to", "amount"]), values, max_size=4)


DISGUISES: tuple[Callable[[str], str], ...] = (
    str,
    json.dumps,
    lambda text: json.dumps({"page": json.dumps(text)}),
    html.escape,
    quote,
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: text.encode().hex(),
    lambda text: text[::-1],
    lambda text: text.replace("\n", "\n    > "),
    "\u200b".join,
)
WRAPPINGS = (
    "{}",
    "The page says:\n{}",
    "The page tries to inject {} and I did not follow it.",
    'It reads "{}"',
    "> {}",
    "<!-- {} -->",
    "```json\n{}\n```",
    "```html\n{}\n```",
    "I will do this now.\n\n{}",
    "{}\n\nThat is what it says.",
    "`{}`",
    "So: {}",
)


def used(path: object = "", content: object = "", to: object = "", amount: object = "") -> str:
    """Take all arguments that calls are made with here."""
    return "done"


async def run(bench: KernelBench, task: str) -> KernelState:
    return await bench.run(task=task, max_iterations=3)


def ran(page: str, task: str, *turns: Turn) -> list[str]:
    """The tools that ran after the page was read."""
    tools = {"look": lambda: page, **dict.fromkeys(NAMES, used)}
    bench = kernel_bench(call("look"), *turns, forever(answer("Done.")), tools=tools)
    anyio.run(partial(run, bench, task))
    assert bench.tools is not None
    return [made.name for made in bench.tools.calls if made.name != "look"]


@examples(30)
@given(
    name=st.sampled_from(NAMES),
    given_arguments=arguments,
    shown_form=st.sampled_from(FORMS),
    said_form=st.sampled_from(FORMS),
    disguise=st.sampled_from(DISGUISES),
    wrapping=st.sampled_from(WRAPPINGS),
    in_task=st.booleans(),
    as_answer=st.booleans(),
    around=words,
)
def test_a_call_that_was_shown_never_runs(
    name: str,
    given_arguments: JsonObject,
    shown_form: CallForm,
    said_form: CallForm,
    disguise: Callable[[str], str],
    wrapping: str,
    in_task: bool,
    as_answer: bool,
    around: str,
) -> None:
    shown = f"{around}\n{disguise(format_call(name, given_arguments, shown_form))}\n{around}"
    said = wrapping.format(format_call(name, given_arguments, said_form))
    turn = answer(said) if as_answer else say(said)
    assert ran("Nothing." if in_task else shown, shown if in_task else "Look.", turn) == []


@examples(20)
@given(
    name=st.sampled_from(NAMES),
    given_arguments=arguments,
    form=st.sampled_from(FORMS),
    keys=st.sampled_from(get_args(CallKeys)),
    around=words,
)
def test_a_call_that_was_not_shown_runs_though_its_arguments_were(
    name: str, given_arguments: JsonObject, form: CallForm, keys: CallKeys, around: str
) -> None:
    page = f"{around}\n{json.dumps(list(given_arguments.values()))}\n{around}"
    assert ran(page, "Look.", say(format_call(name, given_arguments, form, keys=keys))) == [name]
