"""The shared physical connection of a factory: opened when needed, closed, replaced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from pyjms._fork import inherits
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.connection.transport_listeners import SharedInterruptions
from pyjms.jms.api import Connection, ExceptionListener

__all__ = ["ConnectionSharing"]

logger: Final = get_logger(__name__)


class ConnectionSharing:
    """The physical connection behind the handles of one factory."""

    def __init__(
        self,
        open_connection: Callable[[bool], Awaitable[Connection]],
        close_connection: Callable[[Connection, bool], Awaitable[None]],
    ) -> None:
        """Keep the functions that open and close it; both are told whether it is started."""
        self._open_connection = open_connection
        self._close_connection = close_connection
        self.exception_listeners: list[ExceptionListener] = []
        """The exception listeners of the handles."""
        self.interruptions: SharedInterruptions = SharedInterruptions()
        self.forked()
        inherits(self)

    def forked(self) -> None:
        """Start without a connection, also in a forked child process, which opens its own."""
        self._opening = anyio.Lock()
        self._started_handles = 0
        self._is_started = False
        self._closing: set[BackgroundTask] = set()
        self.connection: Connection | None = None
        """The physical connection; None before the first use, and after a failure or reset."""

    async def current(self) -> Connection:
        """Return the physical connection; open it if there is none."""
        connection = self.connection
        if connection is None:
            async with self._opening:
                connection = self.connection
                if connection is None:
                    connection = await self._open_connection(self._started_handles > 0)
                    self.interruptions.watch(connection)
                    self._is_started = self._started_handles > 0
                    self.connection = connection
                    logger.debug("Established the shared connection %r", connection)
        return connection

    async def start_handle(self) -> None:
        """Add one started handle; start the connection if it is the first."""
        connection = await self.current()
        if not self._is_started:
            await connection.start()
            self._is_started = True
        self._started_handles += 1

    async def stop_handle(self) -> None:
        """Remove one started handle; stop the connection if it was the last."""
        self._started_handles -= 1
        connection = self.connection
        if self._started_handles == 0 and connection is not None and self._is_started:
            self._is_started = False
            await connection.stop()

    async def reset(self) -> None:
        """Close the connection; the next use opens another one."""
        async with self._opening:
            connection, started = self._give_up()
        if connection is not None:
            await self._close_connection(connection, started)

    def give_up_soon(self, connection: Connection) -> bool:
        """Close `connection` in the background if it is the current one; return whether it was."""
        if connection is not self.connection:
            return False
        _, started = self._give_up()
        task = spawn(self._close_connection, connection, started, name="close a failed connection")
        self._closing = {t for t in self._closing if not t.done} | {task}
        return True

    async def wait_closed(self) -> None:
        """Wait until the connections that were given up have been closed."""
        for task in list(self._closing):
            await task.wait()

    def _give_up(self) -> tuple[Connection | None, bool]:
        connection, started = self.connection, self._is_started
        self.connection, self._is_started = None, False
        return connection, started
