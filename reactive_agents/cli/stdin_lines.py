"""Standard input, line by line, without standing in the way of an interruption."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TextIO

import anyio
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream


@asynccontextmanager
async def lines_of(source: TextIO) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
    """The lines of a text stream as they come; reading it does not keep the process alive.

    A worker thread of the event loop would: it ends only when its read does, which may be never.
    """
    send, receive = anyio.create_memory_object_stream[str]()
    async with BlockingPortal() as portal, send, receive:
        threading.Thread(target=_read, args=(source, portal, send.clone()), daemon=True).start()
        send.close()
        yield receive


def _read(source: TextIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
    try:
        for line in source:
            portal.call(send.send, line)
        portal.call(send.aclose)
    except (RuntimeError, anyio.BrokenResourceError):  # nobody reads any more
        send.close()
