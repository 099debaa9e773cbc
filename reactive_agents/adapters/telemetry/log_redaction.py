"""Redaction of the package's log."""

from __future__ import annotations

import logging
import weakref

from reactive_agents.core.redaction import Redactor

_logger = logging.getLogger("reactive_agents")
_formatter = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Redacts the records of a logger, tracebacks included, while its redactor exists."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = weakref.ref(redactor)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
        redactor = self._redactor()
        if redactor is None:
            return True
        said = record.getMessage()
        shown = redactor.redact(said)
        if shown != said:
            record.msg, record.args = shown, ()
        if record.exc_info and not record.exc_text:
            traceback = _formatter.formatException(record.exc_info)
            shown = redactor.redact(traceback)
            if shown != traceback:  # a handler that writes the exception by itself would show the secret
                record.exc_info, record.exc_text = None, shown
        elif record.exc_text:
            record.exc_text = redactor.redact(record.exc_text)
        return True


def redact_log(redactor: Redactor) -> None:
    """Redact the log ``reactive_agents`` as long as the redactor exists."""
    added = RedactingFilter(redactor)
    _logger.addFilter(added)
    weakref.finalize(redactor, _logger.removeFilter, added)
