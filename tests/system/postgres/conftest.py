"""The directory of a test is a Postgres server, and each file in it a database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import Databases, Server, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def tmp_path(server: Server) -> Databases:
    return Databases(server)


@pytest.fixture
def place(server: Server) -> str:
    return server.new()
