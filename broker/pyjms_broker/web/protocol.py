"""uvicorn's protocol of an HTTP connection, with limits on connections and time."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from pyjms._logger import get_logger
from pyjms_broker.connector.file_handles import FileHandles

__all__ = ["limited_protocol"]

logger = get_logger(f"{__name__}.requests")
logger.setLevel(logging.ERROR)


class _LimitedProtocol(H11Protocol):
    """Closes connections beyond the limit, and those that do not complete a request's headers."""

    maximum: ClassVar[int]
    head_timeout: ClassVar[float]
    handles: ClassVar[FileHandles]
    _head_timer: Any = None
    _read_timer: Any = None
    """The event loop's handles of the timers."""

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless there are too many."""
        super().connection_made(transport)
        self.logger = logger  # errors of clients must not flood the log
        connection = transport.get_extra_info("socket")
        if len(self.connections) > self.maximum or not self.handles.may_serve(connection.fileno()):
            logger.debug("A connection to the web server is refused: there are too many")
            transport.abort()
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Handle input; a request's headers must be complete in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes an idle connection."""
        super().on_response_complete()
        self._stop_timer()

    def pause_writing(self) -> None:
        """Close the connection unless its client continues to read."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue, because the client has read."""
        self._stop_waiting_for_reader()
        super().resume_writing()

    def _stop_waiting_for_reader(self) -> None:
        timer, self._read_timer = self._read_timer, None
        if timer is not None:
            timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_timer()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        timer, self._head_timer = self._head_timer, None
        if timer is not None:
            timer.cancel()


def limited_protocol(maximum: int, head_timeout: float, handles: FileHandles) -> type[H11Protocol]:
    """Return the protocol class with these limits, for uvicorn's setting `http`.

    Args:
        maximum: the maximum number of connections.
        head_timeout: seconds until a request's headers must be complete.
        handles: the file handles that clients may use.
    """
    limits: dict[str, Any] = {"maximum": maximum, "head_timeout": head_timeout, "handles": handles}
    return type("LimitedProtocol", (_LimitedProtocol,), limits)
