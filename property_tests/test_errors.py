"""Laws of the error values: each can be told to a person, whatever it holds."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings

from property_tests.strategies import values_of
from reactive_agents.core.errors import PhaseCause, RuntimeErrors, root_cause

ERRORS = tuple(dict.fromkeys((*get_args(RuntimeErrors), *get_args(PhaseCause))))


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_can_be_told(kind: Any) -> None:
    @settings(max_examples=20, deadline=None)
    @given(values_of(kind))
    def law(error: Any) -> None:
        assert isinstance(error.message, str)
        if "message" not in kind.__annotations__:
            assert error.message.strip()

    law()


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_a_root_cause_has_no_cause(kind: Any) -> None:
    @settings(max_examples=20, deadline=None)
    @given(values_of(kind))
    def law(error: Any) -> None:
        root = root_cause(error)
        assert isinstance(root, ERRORS)
        assert not isinstance(getattr(root, "cause", None), ERRORS)
        assert root_cause(root) is root
        if not isinstance(getattr(error, "cause", None), ERRORS):
            assert root is error

    law()
