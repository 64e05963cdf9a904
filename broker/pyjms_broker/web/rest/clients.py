"""The connections of REST requests: per request, per session, or per client id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.host import WebHost
from pyjms_broker.web.user import WebUser

__all__ = ["ClientName", "RestClient", "RestClients"]

logger = get_logger(__name__)

_MAXIMUM: Final = 200
"""The maximum number of named clients, each with a connection."""
_MAXIMUM_CONSUMERS: Final = 20
"""The maximum number of consumers of one named client."""
_IDLE: Final = 300.0
"""Seconds without a request after which a named client is closed."""


@dataclass(frozen=True, slots=True)
class ClientName:
    """The key of a kept client: the client id of requests, or the id of their session."""

    text: str
    is_session: bool = False

    def __str__(self) -> str:
        return "of this session" if self.is_session else repr(self.text[:100])


class RestClient:
    """A connection as a user, with a session and its consumers."""

    def __init__(self, connection: ActiveMQConnection, session: ActiveMQSession) -> None:
        self._connection = connection
        self.session = session
        self._consumers: dict[tuple[Destination, str | None], ActiveMQMessageConsumer] = {}
        self.busy = False
        self.used = _clock.now()

    @property
    def has_failed(self) -> bool:
        """Whether the broker has closed the connection, for example at an operator's request."""
        return self._connection.failure is not None

    async def consumer(
        self, destination: Destination, selector: str | None
    ) -> ActiveMQMessageConsumer:
        """Return the consumer of a destination, which stays open.

        Raises:
            JMSException: the user may not receive from it, or the selector is invalid.
            WebError: the client has too many consumers.
        """
        key = destination, selector
        found = self._consumers.get(key)
        if found is None:
            if len(self._consumers) >= _MAXIMUM_CONSUMERS:
                raise WebError(
                    429,
                    f"The client has {_MAXIMUM_CONSUMERS} consumers, one for each destination and "
                    "selector",
                    "close it with POST and action=unsubscribe, or use another clientId",
                )
            found = await self.session.create_consumer(destination, selector)
            self._consumers[key] = found
        return found

    async def forget(self, destination: Destination, selector: str | None) -> None:
        """Close a consumer; undelivered messages return to the broker. Idempotent."""
        consumer = self._consumers.pop((destination, selector), None)
        if consumer is not None:
            await consumer.close()

    async def close(self) -> None:
        """Close the connection, logging an error."""
        with anyio.CancelScope(shield=True):
            try:
                await self._connection.close()
            except JMSException as error:
                logger.debug("The connection of a REST client did not close: %s", error)


class RestClients:
    """All connections of REST requests.

    Args:
        service: the broker.
    """

    def __init__(self, service: WebHost) -> None:
        self._service = service
        self._named: dict[tuple[str, ClientName], RestClient] = {}
        self._sweeping: BackgroundTask | None = None

    @asynccontextmanager
    async def client(self, user: WebUser, name: ClientName | None) -> AsyncIterator[RestClient]:
        """Use the client of that name, or a separate one for this request.

        While there are too many clients, a session gets a separate one for each request.

        Raises:
            WebError: another request uses it, or there are too many.
            JMSException: the broker refuses the connection.
        """
        if name is None or (name.is_session and self._is_full(user, name)):
            client = await self._connected(user)
            try:
                yield client
            finally:
                await client.close()
            return
        client = await self._of_name(user, name)
        if client.busy:
            raise WebError(
                500,
                f"Another request uses the client {name}",
                "wait for its answer, or use another clientId",
            )
        client.busy = True
        try:
            yield client
        finally:
            client.busy = False
            client.used = _clock.now()

    def _is_full(self, user: WebUser, name: ClientName) -> bool:
        return len(self._named) >= _MAXIMUM and (user.name, name) not in self._named

    async def _of_name(self, user: WebUser, name: ClientName) -> RestClient:
        key = user.name, name
        found = self._named.get(key)
        if found is not None and not found.has_failed:
            return found
        if found is not None:
            del self._named[key]
            await found.close()
        await self._evict_session()
        made = await self._connected(user)
        try:
            if key not in self._named:  # otherwise another request was faster
                await self._evict_session()  # others may have been added meanwhile
            found = self._named.setdefault(key, made)
        finally:
            if self._named.get(key) is not made:
                await made.close()
        if self._sweeping is None or self._sweeping.done:
            self._sweeping = spawn(self._sweep, name="REST clients")
        return found

    async def _evict_session(self) -> None:
        """If there are too many clients, end the least recently used session.

        Raises:
            WebError: all clients have a clientId, or are in use.
        """
        while len(self._named) >= _MAXIMUM:
            idle = [
                (client.used, key)
                for key, client in self._named.items()
                if key[1].is_session and not client.busy
            ]
            if not idle:
                raise WebError(
                    503,
                    f"There are {_MAXIMUM} clients with a clientId",
                    "close some with POST and action=unsubscribe, or leave clientId out",
                )
            _, key = min(idle, key=itemgetter(0))
            await self._named.pop(key).close()

    async def _connected(self, user: WebUser) -> RestClient:
        factory = ConnectionFactory(
            f"{self._service.vm_uri}?create=false"
            "&jms.prefetchPolicy.all=1&jms.watchTopicAdvisories=false"
        )
        connection = await factory.create_connection(user.name or None, user.password)
        try:
            session = await connection.create_session(False, AcknowledgeMode.CLIENT)
            await connection.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await connection.close()
            raise
        return RestClient(connection, session)

    async def unsubscribe(self, user: WebUser, name: ClientName | None) -> bool:
        """Close the client of that name; return whether there was one."""
        client = None if name is None else self._named.pop((user.name, name), None)
        if client is None:
            return False
        await client.close()
        return True

    async def _sweep(self) -> None:
        while self._named:
            await _clock.sleep(_IDLE / 10)
            now = _clock.now()
            for key, client in list(self._named.items()):
                if not client.busy and now - client.used >= _IDLE:
                    del self._named[key]
                    await client.close()

    async def close(self) -> None:
        """Close all connections."""
        await end_tasks(self._sweeping)
        named, self._named = self._named, {}
        for client in named.values():
            await client.close()

    def __len__(self) -> int:
        return len(self._named)
