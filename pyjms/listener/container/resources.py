"""The one connection of a container, shared by its consumers. (spring-jms 1.2.4, 1.10)"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from pyjms.errors import IllegalStateException
from pyjms.jms.api import Closeable, Connection

if TYPE_CHECKING:
    from pyjms.listener.container.properties import ContainerProperties

__all__ = ["SharedConnection", "SharedConnectionNotInitializedError", "close_quietly"]

logger = logging.getLogger(__name__)


class SharedConnectionNotInitializedError(Exception):
    """There is no shared connection (yet): recovery makes one. Stays inside the container."""


class SharedConnection:
    """Opens, starts, stops, replaces and closes the connection."""

    def __init__(
        self,
        properties: ContainerProperties,
        prepare: Callable[[Connection], None] | None = None,
    ) -> None:
        self._properties = properties
        self._prepare = prepare
        self._connection: Connection | None = None
        self._started = False

    @property
    def established(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def get(self) -> Connection:
        """Return the connection.

        Raises:
            SharedConnectionNotInitializedError: there is none.
        """
        if self._connection is None:
            raise SharedConnectionNotInitializedError
        return self._connection

    async def establish(self) -> Connection:
        """Return the connection; open it if there is none.

        Raises:
            JMSException: it cannot be opened, or its client id is refused.
        """
        if self._connection is None:
            self._connection = await self._open()
        return self._connection

    async def refresh(self) -> Connection:
        """Put a new connection in the place of the old one; started if that was.

        Raises:
            JMSException: it cannot be opened; there is no connection then.
        """
        old, self._connection = self._connection, None
        await close_quietly(old)
        connection = await self._open()
        self._connection = connection
        if self._started:
            await connection.start()
        return connection

    async def start(self) -> None:
        """Let messages flow, on this connection and those that replace it."""
        self._started = True
        if self._connection is not None:
            try:
                await self._connection.start()
            except IllegalStateException as error:
                logger.debug("Ignoring connection start: already closed: %s", error)

    async def stop(self) -> None:
        """Hold messages back."""
        self._started = False
        if self._connection is not None:
            try:
                await self._connection.stop()
            except IllegalStateException as error:
                logger.debug("Ignoring connection stop: already closed: %s", error)

    async def release(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        await close_quietly(connection)

    async def _open(self) -> Connection:
        properties = self._properties
        connection = await properties._require_connection_factory().create_connection()
        try:
            if properties.client_id is not None:
                await connection.set_client_id(properties.client_id)
            if self._prepare is not None:
                self._prepare(connection)
        except BaseException:
            await close_quietly(connection)
            raise
        return connection


async def close_quietly(*resources: Closeable | None) -> None:
    """Close them in this order, to the end even when cancelled; what fails is logged at DEBUG."""
    with anyio.CancelScope(shield=True):
        for resource in resources:
            if resource is None:
                continue
            try:
                await resource.close()
            except Exception as error:
                logger.debug("Could not close %s: %s", type(resource).__name__, error)
