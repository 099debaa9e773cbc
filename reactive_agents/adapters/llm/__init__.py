"""Language models: litellm behind the port, and an offline model without weights.

Why litellm is behind so many modules: it is imported only with the first question, off the event loop, and
set up not to retry, print, count or download by itself. Retries, timeouts, fallbacks and the account of
what failed attempts cost are decided here, since only here is it known what a provider's answer means.
``litellm_adapter`` is the port; ``completion`` is one request; ``chat_format`` and ``error_mapping``
translate.
"""
