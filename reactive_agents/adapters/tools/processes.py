"""One program without a shell: its output bounded, its children ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.abc
from attrs import define, field, frozen

from reactive_agents.adapters.tools.process_tree import start_process

_KEPT_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_DRAIN_S = 1.0


@frozen
class OutputLimits:
    """How much a program may write.

    Attributes:
        kept_bytes: of each of the two streams, half from its start and half from its end.
        most_bytes: of both together; a program that writes more is ended.
    """

    kept_bytes: int = _KEPT_BYTES
    most_bytes: int = 16 * 1024 * 1024


@frozen(eq=False)
class Finished:
    """How a program ended.

    Attributes:
        exit_code: negative for the signal that ended it.
        flooded: it was ended since it wrote too much.
    """

    exit_code: int
    stdout: HeadAndTail
    stderr: HeadAndTail
    flooded: bool


@define(eq=False)
class _Output:
    limits: OutputLimits
    stdout: HeadAndTail = field(init=False)
    stderr: HeadAndTail = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.stdout = HeadAndTail(self.limits.kept_bytes)
        self.stderr = HeadAndTail(self.limits.kept_bytes)

    @property
    def flooded(self) -> bool:
        return self.stdout.total + self.stderr.total > self.limits.most_bytes


async def run_program(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    given: bytes | None,
    limits: OutputLimits,
    grace_s: float,
) -> Finished:
    """Run a program to its end, and end its children then, also on cancellation.

    Args:
        command: the program's path and its arguments.
        environment: all of it, apart from a mark of this call.
        given: for its standard input; ``None`` closes that.
        grace_s: seconds between asking processes to end and ending them.

    Raises:
        OSError, ValueError: the program could not be started.
    """
    output = _Output(limits)
    process, tree = await start_process(
        command, environment=environment, directory=directory, with_input=given is not None
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, process.stdout, output.stdout, output, group.cancel_scope)
            group.start_soon(_collect, process.stderr, output.stderr, output, group.cancel_scope)
            if given is not None:
                group.start_soon(_write, process.stdin, given)
            await process.wait()
            await tree.end(grace_s=grace_s)  # whatever is left holds the pipes open
            group.cancel_scope.deadline = anyio.current_time() + _DRAIN_S
    finally:
        with anyio.CancelScope(shield=True):
            await tree.end(grace_s=grace_s)
            await process.aclose()
    return Finished(await process.wait(), output.stdout, output.stderr, output.flooded)


async def _collect(
    stream: anyio.abc.ByteReceiveStream | None, into: HeadAndTail, output: _Output, scope: anyio.CancelScope
) -> None:
    assert stream is not None
    try:
        while not output.flooded:
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
        return  # a program need not read what it is given


# --- head and tail of an output -------------------------------------------------------------------------


class HeadAndTail:
    """Keeps at most ``kept_bytes`` bytes: half from the start, half from the end.

    >>> output = HeadAndTail(4)
    >>> output.add(b"abcdefgh")
    >>> output.text()
    'ab\\n[… 4 bytes left out …]\\ngh'
    """

    def __init__(self, kept_bytes: int) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        self._total += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -self._half]

    @property
    def total(self) -> int:
        """How many bytes came in."""
        return self._total

    @property
    def left_out(self) -> int:
        """How many bytes were not kept."""
        return self._total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """Return the kept bytes as UTF-8, ``�`` for invalid ones, with a note in the gap."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self.left_out} bytes left out …]\n{tail}"
