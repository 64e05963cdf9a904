"""The registration of a connection with the broker: once, on first use, under one client id.

Creating a connection only opens the transport. ConnectionInfo is sent with the first session,
`start` or `set_client_id`, so that the application can set a client id after creation.

    state         request in flight   concurrent callers        after a failure
    -----------   -----------------   -----------------------   -------------------
    NEW           no                  the first one registers   NEW: next use retries
    IN_PROGRESS   yes                 wait for its outcome      NEW
    COMPLETE      no                  return at once

The registration runs in a separate task: if a caller is cancelled, the broker may already have the
command, and would refuse to register the connection again.

(JMS 1.1, section 4.3.2; activemq-edges N6; openwire-encoding 11)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import anyio

from pyjms.client.connection.temporary_destinations import (
    AdvisoryConsumer,
    TemporaryDestinations,
)
from pyjms.client.interfaces import ClientConnection
from pyjms.errors import IllegalStateException, InvalidClientIDException, JMSException
from pyjms.transport.openwire import ReconnectingTransport
from pyjms.wire.openwire.commands import ConnectionInfo, RemoveInfo, ShutdownInfo

__all__ = ["ConnectionHandshake"]


class _State(Enum):
    NEW = "new"
    IN_PROGRESS = "in progress"
    COMPLETE = "complete"


class ConnectionHandshake:
    """Registers one connection with the broker, and unregisters it."""

    def __init__(
        self,
        connection: ClientConnection,
        temporaries: TemporaryDestinations,
        generate_client_id: Callable[[], str],
        credentials: tuple[str | None, str | None],
        check_open: Callable[[], None],
        spawn: Callable[..., object],
    ) -> None:
        self._connection = connection
        self._temporaries = temporaries
        self._generate_client_id = generate_client_id
        self._credentials = credentials
        self._check_open = check_open
        self._spawn = spawn
        self.registered_client_id = connection.options.client_id
        """The client id; None until it is set, or generated on first use."""
        self.has_own_client_id: bool = self.registered_client_id is not None
        """Whether the application set the client id, as durable subscriptions require."""
        self._state = _State.NEW
        self._outcome = anyio.Event()
        self._advisories: AdvisoryConsumer | None = None

    async def set_client_id(self, client_id: str) -> None:
        """Register under a client id set by the application.

        Raises:
            IllegalStateException: a client id was set before, or the connection was used.
            InvalidClientIDException: it is empty, or in use by another connection.
        """
        if self.has_own_client_id:
            raise IllegalStateException(
                "The clientID has already been set",
                hint=f"it is {self.registered_client_id!r}; open another connection for another "
                "client id",
            )
        if self._state is _State.COMPLETE:
            raise IllegalStateException(
                "Setting clientID on a used Connection is not allowed",
                hint="set it before everything else, or give it to the factory",
            )
        if not isinstance(client_id, str) or not client_id.strip():
            raise InvalidClientIDException(
                f"Invalid client id: {client_id!r}", hint="it must be a string that is not empty"
            )
        self.registered_client_id = client_id
        self.has_own_client_id = True
        await self.ensure()

    async def ensure(self) -> None:
        """Register the connection if it is not registered; concurrent callers wait for that.

        Cancelling ends the wait; the registration continues.

        Raises:
            JMSException: the broker refused the registration; the next use tries again.
        """
        while self._state is not _State.COMPLETE:
            if self._state is _State.IN_PROGRESS:
                await self._outcome.wait()
                self._check_open()
                continue
            self._state = _State.IN_PROGRESS
            self._outcome = anyio.Event()
            failures: list[JMSException] = []
            self._spawn(self._run, failures)
            await self._outcome.wait()
            if failures:
                raise failures[0]
            self._check_open()

    async def _run(self, failures: list[JMSException]) -> None:
        """Register the connection; append a failure to `failures`."""
        try:
            await self._register()
            self._state = _State.COMPLETE
        except JMSException as error:
            failures.append(error)
        finally:
            if self._state is not _State.COMPLETE:
                self._state = _State.NEW
            self._outcome.set()

    async def unregister(self, last_delivered_sequence_id: int) -> None:
        """Remove the connection; waits for the response at most `close_timeout` seconds."""
        connection = self._connection
        if self._state is not _State.COMPLETE:
            return
        if self._advisories is not None:
            connection.oneway(RemoveInfo(self._advisories.consumer_id))
        await connection.request(
            RemoveInfo(connection.connection_id, last_delivered_sequence_id),
            connection.options.close_timeout,
        )
        connection.oneway(ShutdownInfo())

    async def _register(self) -> None:
        connection = self._connection
        if self.registered_client_id is None:
            self.registered_client_id = self._generate_client_id()
        user_name, password = self._credentials
        await connection.request(
            ConnectionInfo(
                connection.connection_id,
                self.registered_client_id,
                password,
                user_name,
                manageable=True,
                client_master=True,
                fault_tolerant=isinstance(connection.transport, ReconnectingTransport),
            ),
            connection.options.connect_response_timeout,
        )
        if connection.options.watch_topic_advisories:
            self._advisories = AdvisoryConsumer(connection, self._temporaries)
            connection.add_consumer(self._advisories)
            await connection.request(self._advisories.info)
            self._temporaries.are_watched = True
