"""Starting and ending processes, each with all of its descendants.

The ``shell`` tool runs programs that the model chooses, and MCP servers are programs of third parties. Both
may start children, which may leave the process group or the session, ignore signals, or hold pipes open after
their parent has ended.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
from anyio.abc import Process
from attrs import frozen

from reactive_agents.event_loop import to_the_end

MARK = "REACTIVE_AGENTS_COMMAND"
"""The environment variable that each process of a tree inherits; its value is unique to the tree."""

_NO_SIGNAL = 0  # sent to see whether a process exists
_SIGKILL = 9  # which Windows does not name
_DEAD = frozenset("ZX")
_KILL_PATIENCE_S = 5.0
_LONGEST_PAUSE_S = 0.1
_EMPTY_LOOKS = 2  # during a fork or exec, a process briefly shows neither parent nor environment


@frozen
class ProcessTree:
    """The descendants of a process that leads a session.

    On Linux they are found in ``/proc`` by session, by parent and by the mark in their environment, so that a
    daemon that left the session is found too. Elsewhere they are the leader's process group.

    Attributes:
        leader: the process id.
        mark: the value of the variable ``MARK`` in the leader's environment.
        proc: the directory of processes, such as ``/proc``, if there is one.
    """

    leader: int
    mark: str
    proc: Path = Path("/proc")

    async def end(self, *, grace_s: float) -> None:
        """Ask every process to end, and kill the rest after ``grace_s`` s; repeatable."""
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(grace_s):
            await self._until_gone(_NO_SIGNAL)
            return
        with anyio.move_on_after(_KILL_PATIENCE_S):
            await self._until_gone(_SIGKILL)

    def kill(self) -> None:
        """Kill every process, without waiting; for the shutdown of an event loop."""
        self._signal(_SIGKILL)

    async def _until_gone(self, repeated: int) -> None:
        pause_s, looks = 0.005, 0
        while looks < _EMPTY_LOOKS:
            looks = 0 if self._signal(repeated) else looks + 1
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _signal(self, number: int) -> bool:
        """Signal every living process; return whether there was one."""
        if sys.platform == "win32":  # no groups and signals there
            if number != _NO_SIGNAL:
                command = ["taskkill", "/F", "/T", "/PID", str(self.leader)]
                subprocess.run(command, capture_output=True, check=False)
            return False
        if not (self.proc / "self" / "stat").exists():
            try:
                os.killpg(self.leader, number)
            except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
                return False
            return True
        found = self._members()
        for member in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, number)
        return bool(found)

    def _members(self) -> list[int]:
        parents: dict[int, int] = {}
        members: set[int] = set()
        for process, parent, session in _living(self.proc):
            parents[process] = parent
            if session == self.leader or process == self.leader or self._is_marked(process):
                members.add(process)
        descendants = {process for process in parents if self._descends(process, parents)}
        return sorted(members | descendants)

    def _is_marked(self, process: int) -> bool:
        try:
            environment = (self.proc / str(process) / "environ").read_bytes()
        except OSError:  # it has ended, or belongs to another user
            return False
        return f"{MARK}={self.mark}".encode() in environment.split(b"\0")

    def _descends(self, process: int, parents: dict[int, int]) -> bool:
        seen: set[int] = set()
        while process in parents and process not in seen:
            seen.add(process)
            process = parents[process]
            if process == self.leader:
                return True
        return False


async def start_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    with_input: bool = True,
) -> tuple[Process, ProcessTree]:
    """Start a program without a shell, as the leader of a tree, with piped streams.

    Args:
        command: the program's path and its arguments.
        environment: the complete environment, without the mark of the tree.
        directory: its working directory; by default that of this process.
        with_input: whether its standard input is a pipe; otherwise it is empty.

    Raises:
        OSError, ValueError: the program could not be started.
    """
    mark = secrets.token_hex(16)
    started: list[Process] = []

    async def start() -> None:
        process = await anyio.open_process(
            list(command),
            stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
            cwd=directory,
            env={**environment, MARK: mark},
            start_new_session=True,
        )
        started.append(process)

    try:
        await to_the_end(start)  # a cancellation during the start would lose the process
    except BaseException:
        for process in started:
            await to_the_end(partial(_end, process, ProcessTree(process.pid, mark), 0.0))
        raise
    return started[0], ProcessTree(started[0].pid, mark)


def _living(proc: Path) -> Iterator[tuple[int, int, int]]:
    """Yield each living process: its id, its parent's and its session's."""
    for directory in os.listdir(proc):
        if not directory.isdecimal():
            continue
        try:
            status = (proc / directory / "stat").read_bytes()
        except OSError:
            continue
        fields = status.rpartition(b")")[2].split()  # the name in brackets may contain blanks and brackets
        if fields[0].decode() not in _DEAD:
            yield int(directory), int(fields[1]), int(fields[3])


# --- one program without a shell: its output bounded, its children ended --------------------------------

_KEPT_BYTES = 64 * 1024
"""Bytes to keep of each of a program's two streams, half from its start and half from its end."""
MOST_BYTES = 16 * 1024 * 1024
"""The maximum of both streams together; a program that writes more is ended."""
_CHUNK_BYTES = 64 * 1024
_DRAIN_S = 1.0


@frozen(eq=False)
class Finished:
    """The end of a program.

    Attributes:
        exit_code: the exit code; negative for the signal that ended it.
        flooded: whether it was ended because it wrote too much.
    """

    exit_code: int
    stdout: HeadAndTail
    stderr: HeadAndTail
    flooded: bool


async def run_program(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    given: bytes | None,
    grace_s: float,
) -> Finished:
    """Run a program to its end, then end its children; also on cancellation.

    Args:
        command: the program's path and its arguments.
        environment: the complete environment, without the mark of this call.
        given: the bytes for its standard input; ``None`` closes it.
        grace_s: seconds between asking processes to end and ending them.

    Raises:
        OSError, ValueError: the program could not be started.
    """
    stdout, stderr = HeadAndTail(_KEPT_BYTES), HeadAndTail(_KEPT_BYTES)
    process, tree = await start_process(
        command, environment=environment, directory=directory, with_input=given is not None
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, process.stdout, stdout, stderr, group.cancel_scope)
            group.start_soon(_collect, process.stderr, stderr, stdout, group.cancel_scope)
            if given is not None:
                group.start_soon(_write, process.stdin, given)
            await process.wait()
            await tree.end(grace_s=grace_s)  # remaining processes hold the pipes open
            group.cancel_scope.deadline = anyio.current_time() + _DRAIN_S
    finally:
        await to_the_end(partial(_end, process, tree, grace_s))
    return Finished(await process.wait(), stdout, stderr, stdout.total + stderr.total > MOST_BYTES)


async def _end(process: Process, tree: ProcessTree, grace_s: float) -> None:
    await tree.end(grace_s=grace_s)
    await process.aclose()


async def _collect(
    stream: anyio.abc.ByteReceiveStream | None,
    into: HeadAndTail,
    other: HeadAndTail,
    scope: anyio.CancelScope,
) -> None:
    assert stream is not None
    try:
        while into.total + other.total <= MOST_BYTES:
            into.add(await stream.receive(_CHUNK_BYTES))
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    scope.cancel()


async def _write(stream: anyio.abc.ByteSendStream | None, given: bytes) -> None:
    assert stream is not None
    try:
        await stream.send(given)
        await stream.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        return  # a program need not read its input


class HeadAndTail:
    """Keeps at most ``kept_bytes`` bytes: half from the start, half from the end.

    >>> output = HeadAndTail(4)
    >>> output.add(b"abcdefgh")
    >>> output.text()
    'ab\\n[… 4 bytes left out …]\\ngh'

    Attributes:
        total: the number of bytes so far.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """The number of bytes that were not kept."""
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """Return the kept bytes as UTF-8, ``�`` for invalid ones, with a note in the gap."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self.left_out} bytes left out …]\n{tail}"
