"""The file of model profiles: one for a user, shared by all agents and processes."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

from returns.result import Failure, Result, Success

from reactive_agents.adapters import sqlite
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.model_profiles import ModelProfile
from reactive_agents.effects import effect

_SERVICE: Final = "model-profiles"
PROFILES = sqlite.Store(
    _SERVICE,
    (
        (
            "CREATE TABLE IF NOT EXISTS model_profiles (model TEXT NOT NULL, address TEXT NOT NULL,"
            " body TEXT NOT NULL, PRIMARY KEY (model, address)) WITHOUT ROWID",
        ),
    ),
)
"""Profiles as JSON, by model and address."""

_SELECT = "SELECT body FROM model_profiles WHERE model = ? AND address = ?"


class SqliteModelProfiles:
    """Stores profiles; any number of processes may write to one file."""

    def __init__(self, path: sqlite.DatabasePath) -> None:
        self._file = sqlite.SqliteFile(path, PROFILES, _failed)

    @effect
    async def save(self, profile: ModelProfile) -> Result[ModelProfile, ServiceFailed]:
        """Store a profile, and return it with the earlier findings that it lacks.

        Fails with ``ServiceFailed`` when the file cannot be written.
        """

        def work(connection: sqlite3.Connection) -> ModelProfile:
            row = connection.execute(_SELECT, (profile.model, profile.address)).fetchone()
            merged = profile.after(None if row is None else from_json(row[0], ModelProfile).value_or(None))
            connection.execute(
                "INSERT OR REPLACE INTO model_profiles VALUES (?, ?, ?)",
                (profile.model, profile.address, to_json(merged)),
            )
            return merged

        return await self._file.write("save", work)

    async def aclose(self) -> None:
        """Close the file."""
        await self._file.aclose()


def find_profile(
    path: sqlite.DatabasePath, model: str, address: str
) -> Result[ModelProfile | None, ServiceFailed]:
    """Return the stored profile; ``None`` when there is none.

    The file is neither made nor changed. Fails with ``ServiceFailed`` when it cannot be read.
    """
    if str(path) == sqlite.IN_PROCESS or not os.path.exists(path):
        return Success(None)

    def work(connection: sqlite3.Connection) -> tuple[str, ...] | None:
        is_there = sqlite.version_of(connection, PROFILES) > 0
        return connection.execute(_SELECT, (model, address)).fetchone() if is_there else None

    found = sqlite.look_into(path, PROFILES, work)
    if isinstance(found, Failure):
        return Failure(_failed(found.failure(), "find"))
    row = found.unwrap()
    if row is None:
        return Success(None)
    return from_json(row[0], ModelProfile).alt(
        lambda wrong: _failed(
            f"The profile of {model} in {str(path)!r} cannot be read: {wrong.message}", "find"
        )
    )


def _failed(message: str, operation: str) -> ServiceFailed:
    return ServiceFailed(message, _SERVICE, operation)
