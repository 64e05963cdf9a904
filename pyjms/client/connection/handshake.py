"""How a connection introduces itself to the broker: once, on first use, under one client id.

(JMS 4.3.2; ActiveMQ N6, ENCODING section 11)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from pyjms.client.connection.temporary_destinations import AdvisoryConsumer
from pyjms.errors import IllegalStateException, InvalidClientIDException
from pyjms.wire.openwire.commands import ConnectionInfo, RemoveInfo, ShutdownInfo

if TYPE_CHECKING:
    from pyjms.client.connection.connection import ActiveMQConnection

__all__ = ["Announcement"]


class Announcement:
    """What the broker was told of a connection."""

    def __init__(
        self,
        connection: ActiveMQConnection,
        generate_client_id: Callable[[], str],
        user_name: str | None,
        password: str | None,
    ) -> None:
        self._connection = connection
        self._generate_client_id = generate_client_id
        self._credentials = (user_name, password)
        self.client_id = connection.options.client_id
        """None until somebody sets it or the first use generates one."""
        self.has_own_client_id = self.client_id is not None
        """Whether the user gave the client id, so that durable subscriptions are his."""
        self.is_made = False
        self._being_made: anyio.Event | None = None
        self._advisories: AdvisoryConsumer | None = None

    async def set_client_id(self, client_id: str) -> None:
        """Take the user's client id and make the announcement under it.

        Raises:
            IllegalStateException: there is one already, or the connection was used.
            InvalidClientIDException: it is empty, or another connection has it.
        """
        if self.has_own_client_id:
            raise IllegalStateException("The clientID has already been set")
        if self.is_made:
            raise IllegalStateException(
                "Setting clientID on a used Connection is not allowed",
                hint="set it before everything else, or give it to the factory",
            )
        if not isinstance(client_id, str) or not client_id.strip():
            raise InvalidClientIDException(f"Invalid client id: {client_id!r}")
        self.client_id = client_id
        self.has_own_client_id = True
        await self.make()

    async def make(self) -> None:
        """Tell the broker of the connection, once; who comes meanwhile waits for that.

        Raises:
            JMSException: the broker refused it; the next use tries again.
        """
        while not self.is_made:
            if self._being_made is not None:
                await self._being_made.wait()
                self._connection.check_open()
                continue
            self._being_made = anyio.Event()
            try:
                await self._send()
                self.is_made = True
            finally:
                self._being_made.set()
                self._being_made = None

    async def withdraw(self, last_delivered_sequence_id: int) -> None:
        """Say goodbye; waits for the answer at most as long as the factory's `close_timeout`."""
        connection = self._connection
        if not self.is_made:
            return
        if self._advisories is not None:
            connection.oneway(RemoveInfo(self._advisories.consumer_id))
        await connection.request(
            RemoveInfo(connection.connection_id, last_delivered_sequence_id),
            connection.options.close_timeout,
        )
        connection.oneway(ShutdownInfo())

    async def _send(self) -> None:
        connection = self._connection
        if self.client_id is None:
            self.client_id = self._generate_client_id()
        user_name, password = self._credentials
        await connection.request(
            ConnectionInfo(
                connection.connection_id,
                self.client_id,
                password,
                user_name,
                manageable=True,
                client_master=True,
            ),
            connection.options.connect_response_timeout,
        )
        if connection.options.watch_topic_advisories:
            self._advisories = advisories = AdvisoryConsumer(connection)
            connection.consumers[advisories.consumer_id] = advisories
            await connection.request(advisories.info)
            connection.temporaries.are_watched = True
