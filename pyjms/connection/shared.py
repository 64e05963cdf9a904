"""What SingleConnectionFactory hands out: a connection whose closing closes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConnectionClosedException, IllegalStateException
from pyjms.jms.api import Connection, ExceptionListener, Session
from pyjms.jms.metadata import ConnectionMetaData

if TYPE_CHECKING:
    from pyjms.connection.single import SingleConnectionFactory

__all__ = ["SharedConnection"]


class SharedConnection(Connection):
    """One user's view of the shared connection; equal to all others of its factory.

    Whatever it is asked goes to the connection that is current then, made anew if need be.
    """

    def __init__(self, factory: SingleConnectionFactory) -> None:
        self._factory = factory
        self._listener: ExceptionListener | None = None
        self._started = False
        self._closed = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedConnection) and self._factory is other._factory

    def __hash__(self) -> int:
        return hash(self._factory)

    def __repr__(self) -> str:
        return f"<shared {self._factory._connection!r}>"

    @property
    def client_id(self) -> str | None:
        """The connection's client id; the factory's while there is no connection."""
        connection = self._factory._connection
        return self._factory.client_id if connection is None else connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Accept the id that the connection has.

        Raises:
            IllegalStateException: it is another one.
        """
        self._check()
        if client_id != self.client_id:
            raise IllegalStateException(
                "set_client_id is not supported on a shared connection",
                hint="set the property 'client_id' on the factory",
            )

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """The listener of this user."""
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        """Add `listener` to those who hear of trouble.

        Raises:
            IllegalStateException: the factory's `reconnect_on_exception` is off.
        """
        self._check()
        if not self._factory.reconnect_on_exception:
            raise IllegalStateException(
                "exception_listener is not supported on a shared connection",
                hint="set the property 'exception_listener' on the factory, or turn on its "
                "'reconnect_on_exception', which allows any number of listeners",
            )
        self._drop_listener()
        self._listener = listener
        if listener is not None:
            self._factory._listeners.append(listener)

    @property
    def metadata(self) -> ConnectionMetaData:
        """The connection's metadata; the provider's general one while there is none."""
        connection = self._factory._connection
        return ConnectionMetaData() if connection is None else connection.metadata

    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> Session:
        """Open a session, or take a cached one."""
        self._check()
        connection = await self._factory._current()
        return await self._factory._open_session(connection, transacted, acknowledge_mode)

    async def start(self) -> None:
        """Have the connection run, at least until this user stops or closes."""
        self._check()
        if not self._started:
            await self._factory._start_one()
            self._started = True

    async def stop(self) -> None:
        """Want the connection to run no longer; others may still."""
        self._check()
        await self._stop_mine()

    async def close(self) -> None:
        """Undo this user's start and exception listener; the connection stays open."""
        if not self._closed:
            self._closed = True
            self._drop_listener()
            await self._stop_mine()

    async def _stop_mine(self) -> None:
        if self._started:
            self._started = False
            await self._factory._stop_one()

    def _drop_listener(self) -> None:
        if self._listener is not None:
            self._factory._listeners.remove(self._listener)
            self._listener = None

    def _check(self) -> None:
        if self._closed:
            raise ConnectionClosedException
