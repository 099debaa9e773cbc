"""Which tools are offered, each with its reason."""

from __future__ import annotations

from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.toolset import (
    FINAL_ANSWER,
    FINAL_ANSWER_TOOL,
    RECALL,
    RECALL_TOOL,
    build_toolset,
    toolset_for,
)

SEARCH = ToolDefinition("web-search", "Search.", {"type": "object"})
READ = ToolDefinition("file-read", "Read.", {"type": "object"})


def test_everything_is_offered_in_the_services_order_with_the_answer_tool_last() -> None:
    toolset = build_toolset([SEARCH, READ], allowed=None, answers_by_tool=True)
    assert toolset.offered == (SEARCH, READ, FINAL_ANSWER_TOOL)
    assert toolset.permits("web-search")
    assert toolset.permits(FINAL_ANSWER)
    assert not toolset.permits("mail-send")


def test_without_another_tool_there_is_no_answer_tool() -> None:
    assert build_toolset([], allowed=None, answers_by_tool=True).offered == ()
    assert build_toolset([SEARCH], allowed=frozenset(), answers_by_tool=True).offered == ()


def test_a_kernel_that_answers_in_text_gets_no_answer_tool() -> None:
    assert build_toolset([SEARCH], allowed=None, answers_by_tool=False).offered == (SEARCH,)


def test_a_tool_outside_the_scope_is_withheld() -> None:
    toolset = build_toolset([SEARCH, READ], allowed=frozenset({"file-read"}), answers_by_tool=False)
    assert toolset.offered == (READ,)


def test_no_name_is_offered_twice_because_the_answer_tools_name_is_reserved() -> None:
    impostor = ToolDefinition(FINAL_ANSWER, "Does something else.", {"type": "object"})
    for answers_by_tool in (True, False):
        toolset = build_toolset([impostor, SEARCH], allowed=None, answers_by_tool=answers_by_tool)
        assert impostor not in toolset.offered
        assert [tool.name for tool in toolset.offered].count(FINAL_ANSWER) == answers_by_tool


def test_recall_comes_after_all_other_tools_and_only_when_there_is_more_to_read() -> None:
    toolset = build_toolset([SEARCH], allowed=frozenset({"web-search"}), answers_by_tool=True)
    assert toolset.available(recall=False) == toolset.offered == (SEARCH, FINAL_ANSWER_TOOL)
    assert toolset.available(recall=True) == (SEARCH, FINAL_ANSWER_TOOL, RECALL_TOOL)
    assert not toolset.permits(RECALL)


def test_the_name_of_recall_is_reserved_too() -> None:
    impostor = ToolDefinition(RECALL, "Does something else.", {"type": "object"})
    toolset = build_toolset([impostor, SEARCH], allowed=None, answers_by_tool=True)
    assert toolset.available(recall=True) == (SEARCH, FINAL_ANSWER_TOOL, RECALL_TOOL)


def test_the_toolset_of_the_same_definitions_is_made_once() -> None:
    described = ToolDefinition("look", "Look. At it.", {"type": "object", "title": "Look"})
    made = toolset_for((described, READ), "compact", allowed=None, answers_by_tool=True)
    assert made.offered[0] == ToolDefinition("look", "Look.", {"type": "object"})
    assert toolset_for([described, READ], "compact", allowed=None, answers_by_tool=True) is made
    twin = ToolDefinition("look", "Look. At it.", {"type": "object", "title": "Look"})
    for others in ((READ, described), (twin, READ), (described,), ()):
        assert toolset_for(others, "compact", allowed=None, answers_by_tool=True) is not made
    assert toolset_for((described, READ), "full", allowed=None, answers_by_tool=True).offered[0] is described
    without = toolset_for((described, READ), "compact", allowed=None, answers_by_tool=False)
    assert without.offered == made.offered[:2]
    fewer = toolset_for((described, READ), "compact", allowed=frozenset({"look"}), answers_by_tool=True)
    assert [tool.name for tool in fewer.offered] == ["look", FINAL_ANSWER]
