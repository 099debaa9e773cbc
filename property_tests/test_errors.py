"""Laws of the error values: each has a message, whatever it holds."""

from __future__ import annotations

from typing import Any, get_args

import attrs
import pytest
from hypothesis import given

from property_tests.strategies import check_each, values_of
from reactive_agents.core.errors import PhaseCause, RuntimeErrors, root_cause
from tests.support.profiles import examples

ERRORS = tuple(dict.fromkeys((*get_args(RuntimeErrors), *get_args(PhaseCause))))


def test_every_error_has_a_message_and_a_root_cause_has_no_cause(subtests: pytest.Subtests) -> None:
    def law(kind: Any) -> None:
        @examples(8)
        @given(values_of(kind))
        def check(error: Any) -> None:
            assert isinstance(error.message, str)
            if "message" not in attrs.fields_dict(kind):
                assert error.message.strip()
            root = root_cause(error)
            assert isinstance(root, ERRORS)
            assert not isinstance(getattr(root, "cause", None), ERRORS)
            assert root_cause(root) is root
            if not isinstance(getattr(error, "cause", None), ERRORS):
                assert root is error

        check()

    check_each(subtests, {kind.__name__: kind for kind in ERRORS}, law)
