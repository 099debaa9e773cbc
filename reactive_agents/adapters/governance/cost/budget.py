"""A budget for the day and for the month that all processes with the same file share."""

from __future__ import annotations

import sqlite3
from datetime import UTC

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.cost.amounts import nano_usd, usd
from reactive_agents.adapters.governance.database import Database, DatabasePath
from reactive_agents.core.errors import BudgetErrors, BudgetExceeded, BudgetPeriod, ServiceFailed
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS periods (name TEXT PRIMARY KEY, nano_usd INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS reservations (id INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL,"
    " month TEXT NOT NULL, nano_usd INTEGER NOT NULL, settled INTEGER NOT NULL DEFAULT 0)",
)
_ADD = (
    "INSERT INTO periods (name, nano_usd) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET nano_usd = nano_usd + excluded.nano_usd"
)


@frozen
class Reservation:
    """Money that nobody else can reserve until it is settled.

    Attributes:
        id: names it within its file.
        amount_usd: US dollars.
    """

    id: int
    amount_usd: float


@frozen
class BudgetState:
    """What is spent or reserved in the current day and month, in US dollars."""

    day_usd: float
    month_usd: float


class SqliteBudget:
    """Reserves money before it is spent, so that several processes together never spend too much.

    What is reserved and never settled, because its process died, counts as spent: a budget errs to the
    side of thrift. Days and months are those of UTC; a reservation belongs to the day on which it is made.

    Args:
        path: the SQLite file, shared by all who share the budget; its directory must exist.
        daily_usd: US dollars for a day, 0 or more; ``None`` for no limit.
        monthly_usd: US dollars for a month, 0 or more; ``None`` for no limit.
        clock: tells which day it is.

    Raises:
        ValueError: a limit is out of its range.
    """

    def __init__(
        self, path: DatabasePath, *, daily_usd: float | None, monthly_usd: float | None, clock: Clock
    ) -> None:
        self._limits: dict[BudgetPeriod, int | None] = {
            "day": None if daily_usd is None else nano_usd(daily_usd),
            "month": None if monthly_usd is None else nano_usd(monthly_usd),
        }
        self._clock = clock
        self._database = Database(path, service="budget", schema=_SCHEMA)

    @effect
    async def reserve(self, amount_usd: float) -> Result[Reservation, BudgetErrors]:
        """Set money aside. Fails with ``BudgetExceeded`` when either limit does not allow it.

        Args:
            amount_usd: US dollars, 0 or more: the most that is about to be spent.
        """

        def work(connection: sqlite3.Connection) -> Reservation | BudgetExceeded:
            amount = nano_usd(amount_usd)
            names = self._periods()
            for period, name in names.items():
                limit = self._limits[period]
                spent = _spent(connection, name)
                if limit is not None and spent + amount > limit:
                    return BudgetExceeded(period, usd(limit), usd(spent))
            for name in names.values():
                connection.execute(_ADD, (name, amount))
            made = connection.execute(
                "INSERT INTO reservations (day, month, nano_usd) VALUES (?, ?, ?)",
                (names["day"], names["month"], amount),
            )
            return Reservation(int(made.lastrowid or 0), usd(amount))

        done = await self._database.transact("reserve", work)
        if isinstance(done, Failure):
            return Failure(done.failure())
        answer = done.unwrap()
        return Failure(answer) if isinstance(answer, BudgetExceeded) else Success(answer)

    @effect
    async def settle(self, reservation: Reservation, actual_usd: float) -> Result[None, ServiceFailed]:
        """Put what was really spent in the place of what was reserved; a second time changes nothing.

        Args:
            actual_usd: US dollars, 0 or more; what exceeds the reservation counts too, since it is spent.
        """

        def work(connection: sqlite3.Connection) -> None:
            actual = nano_usd(actual_usd)
            row = connection.execute(
                "SELECT day, month, nano_usd, settled FROM reservations WHERE id = ?", (reservation.id,)
            ).fetchone()
            if row is None:
                raise ValueError(f"there is no reservation {reservation.id}")
            day, month, reserved, settled = row
            if settled:
                return
            for name in (day, month):
                connection.execute(_ADD, (name, actual - reserved))
            connection.execute(
                "UPDATE reservations SET settled = 1, nano_usd = ? WHERE id = ?", (actual, reservation.id)
            )

        return await self._database.transact("settle", work)

    @effect
    async def state(self) -> Result[BudgetState, ServiceFailed]:
        """What is spent or reserved today and this month."""

        def work(connection: sqlite3.Connection) -> BudgetState:
            names = self._periods()
            return BudgetState(usd(_spent(connection, names["day"])), usd(_spent(connection, names["month"])))

        return await self._database.transact("state", work)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._database.aclose()

    def _periods(self) -> dict[BudgetPeriod, str]:
        now = self._clock.now().astimezone(UTC)
        return {"day": f"{now:%Y-%m-%d}", "month": f"{now:%Y-%m}"}


def _spent(connection: sqlite3.Connection, period: str) -> int:
    row = connection.execute("SELECT nano_usd FROM periods WHERE name = ?", (period,)).fetchone()
    return 0 if row is None else int(row[0])
