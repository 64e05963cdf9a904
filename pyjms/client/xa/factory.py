"""The XA connection factory of the coroutine API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pyjms.client.factory import ConnectionFactory
from pyjms.client.options.client_options import read_option
from pyjms.client.xa.connection import ActiveMQXAConnection
from pyjms.enums import AcknowledgeMode

if TYPE_CHECKING:
    from pyjms.client.options.keywords import ConnectionFactoryKeywords

__all__ = ["XAConnectionFactory"]


class XAConnectionFactory(ConnectionFactory):
    """Creates XA connections to the broker of a URL. ActiveMQ: ActiveMQXAConnectionFactory.

    Tasks of one loop may share it.

    Args:
        url: as for `ConnectionFactory`, with the same options.
        xa_ack_mode: the acknowledge mode outside of branches: AUTO, CLIENT, DUPS_OK or INDIVIDUAL;
            TRANSACTED: sessions refuse to work outside of branches. None: the URL's
            `jms.xaAckMode`, or else TRANSACTED.
        keywords: the keyword arguments of `ConnectionFactory`.
    """

    _connection_class = ActiveMQXAConnection
    xa_ack_mode: AcknowledgeMode = AcknowledgeMode.TRANSACTED
    """How sessions acknowledge outside of branches."""

    def __init__(
        self,
        url: str | None = None,
        *,
        xa_ack_mode: AcknowledgeMode | None = None,
        **keywords: Unpack[ConnectionFactoryKeywords],
    ) -> None:
        super().__init__(url, **keywords)
        if xa_ack_mode is not None:
            self.xa_ack_mode = AcknowledgeMode(xa_ack_mode)

    def take_options(self, given: dict[str, str]) -> None:
        """Take `xaAckMode`."""
        text = given.pop("xaAckMode", None)
        if text is not None:
            self.xa_ack_mode = read_option("jms.xaAckMode", text, _acknowledge_mode)

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> ActiveMQXAConnection:
        """Connect, and return an XA connection, like `create_xa_connection`."""
        connection = await super().create_connection(user_name, password)
        assert isinstance(connection, ActiveMQXAConnection)
        connection.xa_ack_mode = self.xa_ack_mode
        connection.url = str(self.uri)
        return connection

    async def create_xa_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> ActiveMQXAConnection:
        """Connect, and return a connection that is not started. Cancelling closes the transport.

        Args:
            user_name: None: the factory's user and password.
            password: the user's password.

        Raises:
            ConnectionFailedException: the broker cannot be reached, or does not speak OpenWire.
        """
        return await self.create_connection(user_name, password)


def _acknowledge_mode(text: str) -> AcknowledgeMode:
    try:
        return AcknowledgeMode(int(text))
    except ValueError:
        known = ", ".join(f"{mode.value} ({mode.name})" for mode in AcknowledgeMode)
        raise ValueError(f"write one of {known}") from None
