"""``make bench-peers``: the rows that are measured beside Agno, as a table."""

from __future__ import annotations

from rich.console import Console

from tests.benchmarks.peers.comparison import peers
from tests.benchmarks.report import table

Console().print(table(peers()))
