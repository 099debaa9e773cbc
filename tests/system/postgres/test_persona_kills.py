"""A persona whose processes share a database and are killed loses, doubles and mixes up nothing."""

from __future__ import annotations

import pytest

from tests.system.test_persona_kills import play


def test_nothing_is_lost_doubled_or_out_of_order(
    place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    play(tmp_path_factory.mktemp("persona"), place, "python", 3)
