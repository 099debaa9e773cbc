"""Import and set-up of litellm: once, off the event loop, quiet, without retries."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from importlib import import_module
from typing import Final

import anyio
import anyio.to_thread

_loading: Final = threading.Lock()
_loaded: Final = threading.Event()
_OURS: Final = ("reactive_agents.adapters.llm.completion", "reactive_agents.adapters.llm.catalog")
_NOISE: Final = (
    r"Item '\w+' on TypedDict class '\w+' is using the `ReadOnly`",
    "Pydantic serializer warnings",
)
"""Warnings that pydantic raises at litellm's own classes; only litellm can fix them."""
_DROPPED: Final = "LoggingWorker._worker_loop"


async def load_litellm() -> None:
    """Import litellm in a worker thread, once; that takes seconds."""
    if not _loaded.is_set():
        await anyio.to_thread.run_sync(_load, abandon_on_cancel=True)


def is_loaded() -> bool:
    """Return whether litellm is loaded."""
    return _loaded.is_set()


def _load() -> None:
    with _loading:
        if not _loaded.is_set():
            _import_litellm()
            _loaded.set()


def _import_litellm() -> None:
    # litellm contains these lists, but would download newer ones at import and at the first request
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    import litellm

    # modules that these packages would otherwise import on the event loop, during the first request
    for name in ("httpcore", "openai.resources.chat", "stamina", *_OURS):
        import_module(name)
    from reactive_agents.adapters.llm.completion import scope_clients

    litellm.suppress_debug_info = True
    litellm.num_retries = 0
    # for embeddings it treats zero retries as unset, and uses this
    litellm.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]
    # to count the tokens of a prompt it would download the tokenizer of the model's family
    litellm.disable_hf_tokenizer_download = True
    # plain httpx closes its connections on request; the aiohttp transport leaves sessions behind
    litellm.disable_aiohttp_transport = True
    for noise in _NOISE:
        warnings.filterwarnings("ignore", message=noise, category=UserWarning)
    if "LITELLM_LOG" not in os.environ:
        # the caller gets every failure as a value; litellm would also print it with a stack trace
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # it drops the task of its callbacks when another event loop asks a model, and asyncio complains
        logging.getLogger("asyncio").addFilter(lambda said: _DROPPED not in said.getMessage())
        warnings.filterwarnings(
            "ignore", message=f"coroutine '{_DROPPED}' was never", category=RuntimeWarning
        )
    scope_clients()
    # litellm counts the tokens of every streamed prompt, and reads its tokenizer's vocabulary first
    litellm.token_counter(model="gpt-4o", text=".")
