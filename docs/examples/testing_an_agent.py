"""Tests of an agent without network access, for pytest or by running this file.

Prints:

    test_it_pays_what_is_owed passed
    test_it_says_so_when_the_account_is_empty passed
    2 tests passed
"""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents import ReactiveAgent, ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call


@tool(output=True)
def pay(euros: int) -> Result[str, str]:
    """Pay an invoice."""
    return Success("paid") if euros <= 50 else Failure("the account is empty")


def clerk(model: ScriptedLLM) -> ReactiveAgent:
    return ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pay).build()


def test_it_pays_what_is_owed() -> None:
    model = ScriptedLLM(call("pay", euros=20), answer("Paid.", when="tool pay: paid"))
    result = clerk(model).run_sync("Pay the 20 euros.")
    assert (result.output, result.tool_results) == ("Paid.", {"pay-1": "paid"})
    assert model.remaining == 0


def test_it_says_so_when_the_account_is_empty() -> None:
    empty = answer("The account is empty.", when="the account is empty")
    model = ScriptedLLM(call("pay", euros=90), empty, empty)  # it is asked to try again, once
    result = clerk(model).run_sync("Pay the 90 euros.")
    assert (result.status, result.output) == ("abstained", "The account is empty.")
    assert result.tool_results == {}


def main() -> None:
    tests = [test_it_pays_what_is_owed, test_it_says_so_when_the_account_is_empty]
    for test in tests:
        test()
        print(test.__name__, "passed")
    print(len(tests), "tests passed")


if __name__ == "__main__":
    main()
