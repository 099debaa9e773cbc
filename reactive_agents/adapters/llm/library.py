"""Loads litellm once, off the event loop, and sets it up to keep quiet and to leave retries to us."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

import anyio
import anyio.to_thread

_loading: Final = threading.Lock()
_loaded: Final = threading.Event()


async def load_litellm() -> None:
    """Import litellm in a worker thread, which takes seconds; at once when that was done already."""
    if not _loaded.is_set():
        await anyio.to_thread.run_sync(_load, abandon_on_cancel=True)


def _load() -> None:
    with _loading:
        if not _loaded.is_set():
            _import_litellm()
            _loaded.set()


def _import_litellm() -> None:
    # without it litellm downloads a list of prices when it is imported
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    from reactive_agents.adapters.llm.client_cache import scope_clients

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.num_retries = 0
    # plain httpx closes its connections when it is told to; the aiohttp transport leaves sessions behind
    litellm.disable_aiohttp_transport = True
    if "LITELLM_LOG" not in os.environ:
        # every failure reaches the caller as a value; litellm would print it with a stack trace as well
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    scope_clients()
