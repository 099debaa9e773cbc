"""Count the work of a computation: cost that must not grow is counted, as times depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import attrs


@attrs.define
class Operations:
    """Lines of Python that ran in this thread, each once for each turn of its loop, and calls into C."""

    total: int = 0


@contextmanager
def counted_operations() -> Iterator[Operations]:
    """Count the work of the functions that the block calls; what C functions do inside is not seen."""
    count = Operations()

    def line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            count.total += 1
        return line

    def call(frame: FrameType, event: str, _: Any) -> None:
        if event == "c_call":
            count.total += 1

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(line)
    sys.setprofile(call)
    try:
        yield count
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])


def operations_of(work: Callable[[], object]) -> int:
    """Count the operations of one computation; the same computation always has the same number."""
    with counted_operations() as count:
        work()
    return count.total


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Check that four times the size takes at most five times the operations, and that it ends for ten times.

    Args:
        work: a computation on an input of the given size.
        size: the smallest size, large enough that what does not depend on it counts little.
    """
    short, long = operations_of(lambda: work(size)), operations_of(lambda: work(4 * size))
    assert long <= 5 * short, f"{short:,} operations for size {size:,}, {long:,} for four times as much"
    work(10 * size)  # what C functions do inside is not counted: where it grows by powers, this never ends
