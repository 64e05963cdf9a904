"""Blocking connection factory and connection."""

from __future__ import annotations

from typing import Any

from pyjms.client.factory import ConnectionFactory as CoreConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.jms import api
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.sync.closing import CloseableFace
from pyjms.sync.facade import Facade, blocking, blocking_as
from pyjms.sync.portal import call_on_loop, current_loop
from pyjms.sync.session import Session

__all__ = ["Connection", "ConnectionFactory"]


class Connection(CloseableFace[api.Connection]):
    """A client's line to the broker; stopped until `start`. Close it, or use `with`."""

    set_client_id = blocking(api.Connection.set_client_id)
    start = blocking(api.Connection.start)
    stop = blocking(api.Connection.stop)

    def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> Session:
        """Make a session. See `pyjms.aio` for what the arguments promise."""
        core = call_on_loop(self._loop, self.core.create_session, transacted, acknowledge_mode)
        return Session.of(core, self._loop, self)

    @property
    def client_id(self) -> str | None:
        """The id that durable subscriptions belong to."""
        return self.core.client_id

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions and names of the provider."""
        return self.core.metadata

    @property
    def exception_listener(self) -> api.ExceptionListener | None:
        """Hears of a broken connection; called on the loop's thread, must not block."""
        return self.core.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: api.ExceptionListener | None) -> None:
        self.core.exception_listener = listener


class ConnectionFactory(Facade[CoreConnectionFactory]):
    """Makes blocking connections to the broker at `url`; takes the options of `pyjms.aio`'s.

    `ConnectionFactory()` is `tcp://localhost:61616`, or what AMQ_HOST and AMQ_PORT say.

    Raises:
        ValueError: the URL cannot be read, or has an option that does not exist.

    """

    def __init__(
        self,
        url: str | None = None,
        *,
        user_name: str | None = None,
        password: str | None = None,
        **options: Any,
    ) -> None:
        self.core = CoreConnectionFactory(url, user_name=user_name, password=password, **options)
        self._loop = current_loop()

    create_connection = blocking_as(lambda: Connection, CoreConnectionFactory.create_connection)
