"""Language models: litellm behind the port, and an offline model without weights.

litellm is imported with the first request, off the event loop, and configured not to retry, print, count or
download by itself. This package decides on retries, timeouts and fallbacks, and counts the cost of failed
attempts, since only it interprets a provider's answers. ``litellm_adapter`` implements the port;
``completion`` makes one request; ``chat_format`` and ``error_mapping`` translate.
"""
