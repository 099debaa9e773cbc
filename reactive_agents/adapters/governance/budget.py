"""Budgets of a run, and of the days and months of all runs or of a user."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypeVar

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sqlite
from reactive_agents.adapters.sql import Transaction, Work, believed_us, open_database
from reactive_agents.core.errors import BudgetErrors, BudgetExceeded, BudgetPeriod, ServiceFailed
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.ids import RunId
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

_T = TypeVar("_T")

_failed = sqlite.failure_of("budget")
BUDGET = sqlite.Store(
    "budget",
    (
        (
            "CREATE TABLE IF NOT EXISTS periods (name TEXT PRIMARY KEY, nano_usd INTEGER NOT NULL)",
            "CREATE TABLE IF NOT EXISTS reservations (id INTEGER PRIMARY KEY AUTOINCREMENT,"
            " day TEXT NOT NULL, month TEXT NOT NULL, nano_usd INTEGER NOT NULL,"
            " settled INTEGER NOT NULL DEFAULT 0)",
        ),
        ("ALTER TABLE periods ADD COLUMN day TEXT NOT NULL DEFAULT ''",),  # of the last change
        ("ALTER TABLE reservations ADD COLUMN of_user TEXT NOT NULL DEFAULT ''",),
    ),
    postgres=(
        (
            "CREATE TABLE periods (name text PRIMARY KEY, nano_usd bigint NOT NULL, day text NOT NULL)",
            "CREATE TABLE reservations (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " day text NOT NULL, month text NOT NULL, nano_usd bigint NOT NULL,"
            " settled bigint NOT NULL DEFAULT 0)",
        ),
        ("ALTER TABLE reservations ADD COLUMN of_user text NOT NULL DEFAULT ''",),
    ),
)
"""Money that is spent or reserved, by run, by day and month, and those of each user."""

_NO_MONTH = ""
"""The day of a reservation that counts for its run only."""
_PRUNED = "pruned"
"""The name of a row of ``periods`` with the day on which older rows were last deleted."""
KEPT_DAYS = 62
"""Days after which a period is deleted since its last change, and a reservation since its creation."""

_ADD = (
    "INSERT INTO periods (name, nano_usd, day) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET nano_usd = periods.nano_usd + excluded.nano_usd, day = excluded.day"
)


@frozen
class BudgetState:
    """US dollars spent or reserved in the current day and month.

    By all runs, or by those of a user.
    """

    day_usd: float
    month_usd: float


class SqliteBudget:
    """Implements ``SpendingGuard``: processes with one file together stay in budget.

    A reservation that is never settled, because its process died, counts as spent. Days and months are in
    UTC; a reservation belongs to the day on which it is made.

    Args:
        path: the SQLite file, created with its directories if missing, or Postgres URL, shared by all
            processes with this budget.
        daily_usd, monthly_usd, run_usd, user_daily_usd, user_monthly_usd, warn_at: as in ``CostConfig``.
        patience_s: seconds to wait for other writers before it fails, 0 or more.

    Raises:
        ValueError: a limit is out of its range.
    """

    counts_users = True
    """Whether the methods take the user of the run."""

    def __init__(
        self,
        path: sqlite.DatabasePath,
        *,
        daily_usd: float | None,
        monthly_usd: float | None,
        run_usd: float | None = None,
        user_daily_usd: float | None = None,
        user_monthly_usd: float | None = None,
        warn_at: Collection[float] = (),
        clock: Clock,
        patience_s: float = sqlite.DEFAULT_PATIENCE_S,
    ) -> None:
        limits: dict[BudgetPeriod, float | None] = {
            "run": run_usd,
            "user_day": user_daily_usd,
            "user_month": user_monthly_usd,
            "day": daily_usd,
            "month": monthly_usd,
        }
        self._limits = {period: nano_usd(limit) for period, limit in limits.items() if limit is not None}
        self._warn_at = sorted(warn_at)
        self._clock = clock
        self._file = open_database(path, BUDGET, _failed, patience_s=patience_s, traced=True)
        self._pruned = ""

    @property
    def place(self) -> str:
        """The file or address; empty for a budget that ends with this object."""
        return self._file.place

    @effect
    async def reserve(
        self, run_id: RunId, amount_usd: float, *, for_run_alone: bool = False, user: str | None = None
    ) -> Result[Reservation, BudgetErrors]:
        """As the port says.

        Args:
            for_run_alone: whether the amount counts for this run only, since it is already reserved in this
                file for a sub-run, for the day and the month.
            user: for whom the run is, if it is for a user; stored as a hash.
        """

        def work(connection: Transaction) -> Reservation | BudgetExceeded:
            amount = nano_usd(amount_usd)
            day, month, who = *self._days(), _pseudonym(user)
            names = _periods(run_id, day, month, who)
            for period, name in names.items():
                if (limit := self._limits.get(period)) is None:
                    continue
                spent = _spent(connection, name)
                more = 0 if for_run_alone and period != "run" else amount
                if spent + more > limit:
                    return BudgetExceeded(period, usd(limit), usd(spent), usd(amount))
            for name in [names["run"]] if for_run_alone else names.values():
                connection.execute(_ADD, (name, amount, day))
            (number,) = connection.execute(
                "INSERT INTO reservations (day, month, nano_usd, of_user) VALUES (?, ?, ?, ?) RETURNING id",
                (day, _NO_MONTH if for_run_alone else month, amount, who),
            ).fetchone()
            return Reservation(number, run_id, usd(amount))

        done = await self._transact("reserve", work)
        if isinstance(done, Failure):
            return Failure(done.failure())
        answer = done.unwrap()
        return Failure(answer) if isinstance(answer, BudgetExceeded) else Success(answer)

    @effect
    async def settle(
        self, reservation: Reservation, actual_usd: float
    ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        """As the port says. A settlement belongs to the day of its reservation."""

        def work(connection: Transaction) -> tuple[BudgetUse, ...]:
            actual = nano_usd(actual_usd)
            row = connection.execute(
                "SELECT day, month, nano_usd, settled, of_user FROM reservations WHERE id = ?",
                (reservation.id,),
            ).fetchone()
            if row is None:
                raise ValueError(f"there is no reservation {reservation.id}")
            day, month, reserved, settled, who = row
            if not settled:
                today, _ = self._days()
                names = _periods(reservation.run_id, day, month, who)
                for name in [names["run"]] if month == _NO_MONTH else names.values():
                    connection.execute(_ADD, (name, actual - reserved, today))
                connection.execute(
                    "UPDATE reservations SET settled = 1, nano_usd = ? WHERE id = ?", (actual, reservation.id)
                )
            return self._uses(connection, reservation.run_id, who)

        return await self._transact("settle", work)

    @effect
    async def spend(
        self, run_id: RunId, amount_usd: float, *, for_run_alone: bool = False, user: str | None = None
    ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        """As the port says; ``for_run_alone`` and ``user`` as for :meth:`reserve`."""

        def work(connection: Transaction) -> tuple[BudgetUse, ...]:
            amount, who = nano_usd(amount_usd), _pseudonym(user)
            day, month = self._days()
            names = _periods(run_id, day, month, who)
            for name in [names["run"]] if for_run_alone else names.values():
                connection.execute(_ADD, (name, amount, day))
            return self._uses(connection, run_id, who)

        return await self._transact("spend", work)

    @effect
    async def state(self, *, user: str | None = None) -> Result[BudgetState, ServiceFailed]:
        """Return what all runs, or those of a user, spent or reserved.

        It is that of today and this month.
        """

        def work(connection: Transaction) -> BudgetState:
            day, month = self._days()
            names = (day, month) if user is None else _of_user(_pseudonym(user), day, month)
            return BudgetState(*(usd(_spent(connection, name)) for name in names))

        return await self._transact("state", work)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._file.aclose()

    async def _transact(self, operation: str, work: Work[_T]) -> Result[_T, ServiceFailed]:
        def pruned(connection: Transaction) -> _T:
            today, _ = self._days()
            if self._pruned != today:
                _prune(connection, today)
            return work(connection)

        done = await self._file.write(operation, pruned)
        if isinstance(done, Success):
            self._pruned, _ = self._days()
        return done

    def _days(self) -> tuple[str, str]:
        """Return the day and month by the clock that all processes with this budget share."""
        ahead_us = round(self._file.skew_us, -6)  # it varies by microseconds
        now = sqlite.moment_of(sqlite.microseconds(self._clock.now()) + ahead_us)
        return f"{now:%Y-%m-%d}", f"{now:%Y-%m}"

    def _uses(self, connection: Transaction, run_id: RunId, who: str) -> tuple[BudgetUse, ...]:
        uses = []
        for period, name in _periods(run_id, *self._days(), who).items():
            if (limit := self._limits.get(period)) is not None:
                spent = _spent(connection, name)
                reached = [share for share in self._warn_at if spent >= share * limit]
                uses.append(BudgetUse(period, usd(limit), usd(spent), max(reached, default=0.0)))
        return tuple(uses)


def _periods(run_id: RunId, day: str, month: str, who: str) -> dict[BudgetPeriod, str]:
    """Return the names of the periods that an amount counts for."""
    names: dict[BudgetPeriod, str] = {"run": sqlite.storable(f"run {run_id}"), "day": day, "month": month}
    if who:
        names["user_day"], names["user_month"] = _of_user(who, day, month)
    return names


def _of_user(who: str, day: str, month: str) -> tuple[str, str]:
    return f"user {who} {day}", f"user {who} {month}"


def _pseudonym(user: str | None) -> str:
    """Return a hash in place of a user's name; empty for no user."""
    return "" if user is None else blake2b(user.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _prune(connection: Transaction, today: str) -> None:
    """Delete old rows, once a day.

    All rows are read for that, and an agent may be built for each request.
    """
    pruned = connection.execute("SELECT day FROM periods WHERE name = ?", (_PRUNED,)).fetchone()
    if pruned is not None and pruned[0] == today:
        return
    now_us, before_us = _us_of(today), None if pruned is None else _us_of(pruned[0])
    oldest = f"{sqlite.moment_of(believed_us(now_us, before_us)) - timedelta(days=KEPT_DAYS):%Y-%m-%d}"
    connection.execute("UPDATE periods SET day = ? WHERE day = ''", (today,))  # of a version without days
    connection.execute("DELETE FROM periods WHERE day < ?", (oldest,))
    connection.execute("DELETE FROM reservations WHERE day < ?", (oldest,))
    connection.execute(_ADD, (_PRUNED, 0, today))


def _us_of(day: str) -> int:
    return sqlite.microseconds(datetime.fromisoformat(day))


def _spent(connection: Transaction, period: str) -> int:
    row = connection.execute("SELECT nano_usd FROM periods WHERE name = ?", (period,)).fetchone()
    return 0 if row is None else int(row[0])


# --- amounts of money as integers -----------------------------------------------------------------------


NANO = 1_000_000_000
_MOST_USD = 1_000_000_000.0


def nano_usd(amount_usd: float) -> int:
    """Return US dollars in billionths, rounded to the nearest.

    Raises:
        ValueError: the amount is below 0, above a billion dollars, or not a number.
    """
    if not 0 <= amount_usd <= _MOST_USD:
        raise ValueError(f"an amount of {amount_usd!r} US dollars, expected 0 to {_MOST_USD:.0f}")
    return round(amount_usd * NANO)


def sum_usd(amounts_usd: Iterable[float]) -> float:
    """Return the sum of amounts of US dollars, exact to the billionth."""
    return usd(sum(round(amount_usd * NANO) for amount_usd in amounts_usd))


def usd(nano: int) -> float:
    """Return billionths as US dollars."""
    return nano / NANO
