"""The warning for applications that forgot `connection.start()`. (activemq-edges N7)"""

from __future__ import annotations

from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger

__all__ = ["UnstartedWarning"]

logger: Final = get_logger(__name__)


class UnstartedWarning:
    """Logs a warning, once, if messages arrive at a session whose connection is not started."""

    def __init__(self, connection_id: object, timeout: float) -> None:
        self._connection_id = connection_id
        self._timeout = timeout
        self._created_at = _clock.now()
        self._is_over = timeout <= 0

    def cancel(self) -> None:
        """Disable the warning, because the connection was started."""
        self._is_over = True

    def on_message(self) -> None:
        """Log the warning if the timeout has passed since the session was created."""
        if self._is_over or _clock.now() - self._created_at <= self._timeout:
            return
        self._is_over = True
        logger.warning(
            "Received a message on a connection which is not yet started."
            " Have you forgotten to call Connection.start()? Connection: %s",
            self._connection_id,
        )
