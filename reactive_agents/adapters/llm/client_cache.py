"""Makes litellm keep the HTTP clients of an adapter's calls with that adapter."""

from __future__ import annotations

from typing import Any

import litellm
from litellm.caching.llm_caching_handler import LLMClientCache
from litellm.llms.custom_httpx.http_handler import get_async_httpx_client

from reactive_agents.adapters.llm.connections import clients_in_use


class _ScopedClientCache(LLMClientCache):
    """litellm's cache of clients, with separate clients for each adapter's calls."""

    def get_cache(self, key: str, **kwargs: Any) -> Any:
        clients = clients_in_use()
        if clients is not None:
            return clients.get(key)
        return super().get_cache(key, **kwargs)  # type: ignore[no-untyped-call]

    def set_cache(self, key: str, value: object, litellm_owned_client: bool = False, **kwargs: Any) -> None:
        clients = clients_in_use()
        if clients is None:
            super().set_cache(key, value, litellm_owned_client, **kwargs)
        else:
            clients[key] = value

    async def async_get_cache(self, key: str, **kwargs: Any) -> Any:
        return self.get_cache(key, **kwargs)

    async def async_set_cache(
        self, key: str, value: object, litellm_owned_client: bool = False, **kwargs: Any
    ) -> None:
        self.set_cache(key, value, litellm_owned_client, **kwargs)


class _CachedClient:
    """Replaces litellm's one client for all streams by the caller's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_async_httpx_client(llm_provider="reactive-agents"), name)


def scope_clients() -> None:
    """Make litellm respect ``connections.used_by_litellm``.

    Other calls are unaffected.
    """
    litellm.in_memory_llm_clients_cache = _ScopedClientCache()
    litellm.module_level_aclient = _CachedClient()  # type: ignore[assignment]
