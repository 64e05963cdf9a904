"""The warning for who forgot `start()`. (ActiveMQ N7)"""

from __future__ import annotations

import logging

from pyjms import _clock

__all__ = ["UnstartedWarning"]

logger = logging.getLogger(__name__)


class UnstartedWarning:
    """Says once that messages come to a session whose connection was not started."""

    def __init__(self, connection_id: object, timeout: float) -> None:
        self._connection_id = connection_id
        self._timeout = timeout
        self._made_at = _clock.now()
        self._is_over = timeout <= 0

    def cancel(self) -> None:
        """Warn no more: it was started."""
        self._is_over = True

    def message_came(self) -> None:
        """Warn if the session was made long enough ago."""
        if self._is_over or _clock.now() - self._made_at <= self._timeout:
            return
        self._is_over = True
        logger.warning(
            "Received a message on a connection which is not yet started."
            " Have you forgotten to call Connection.start()? Connection: %s",
            self._connection_id,
        )
