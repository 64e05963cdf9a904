"""The broker as a resource manager: requests over one connection, and the codes of their errors.

    error                                       code
    -----------------------------------------   ---------------------------------------------
    XAException of the broker                   the exception's; XAER_RMERR if it has none
    TransactionRolledBackException              XA_RBROLLBACK
    any other, for example connection lost      XAER_RMFAIL, as in ActiveMQ's client

(openwire-encoding 13; activemq-edges N20)
"""

from __future__ import annotations

import anyio

from pyjms.client.interfaces import ClientConnection
from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.wire.openwire.commands import (
    BrokerInfo,
    Response,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)

__all__ = ["ResourceManager"]


class ResourceManager:
    """The broker of one connection, as a resource manager."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._known = anyio.Event()
        self.broker_id: str | None = None
        """The broker's id; None before BrokerInfo has been received."""

    def on_broker_info(self, info: BrokerInfo) -> None:
        """Record the id of the present broker."""
        self.broker_id = None if info.broker_id is None else info.broker_id.value
        self._known.set()

    def connection_failed(self) -> None:
        """Wake the tasks that wait for BrokerInfo."""
        self._known.set()

    async def begin(self, branch_id: XATransactionId) -> None:
        """Begin a branch, or join it; waits only while the transport is congested or reconnects.

        Raises:
            XAException: the connection is closed or has failed.
        """
        connection = self._connection
        info = TransactionInfo(connection.connection_id, branch_id, int(TransactionType.BEGIN))
        try:
            connection.check_open()
            if connection.transport.congested:
                await connection.transport.drained()
            connection.oneway(info)
        except JMSException as error:
            raise _converted(error) from error

    async def ask(self, how: TransactionType, branch_id: XATransactionId | None) -> Response:
        """Request a step of a branch. Cancelling ends the wait; the broker may execute the request.

        Raises:
            XAException: the broker refused it, or its response is not known.
        """
        connection = self._connection
        info = TransactionInfo(connection.connection_id, branch_id, int(how))
        try:
            connection.check_open()
            return await connection.request(info)
        except JMSException as error:
            raise _converted(error) from error

    async def resource_id(self) -> str:
        """Return the identifier that all resources of one broker share.

        Raises:
            XAException: the connection failed before BrokerInfo was received.
        """
        if self._connection.options.rm_id_from_connection_id:
            return str(self._connection.connection_id)
        await self._known.wait()
        if self.broker_id is None:
            raise XAException(
                "Could not get resource manager id.",
                xa_error_code=XAException.XAER_RMERR,
                hint="the connection failed before the broker sent its id: open a new connection",
            )
        return self.broker_id


def _converted(error: JMSException) -> XAException:
    if isinstance(error, XAException):
        code, text = error.xa_error_code or XAException.XAER_RMERR, error.reason
    elif isinstance(error, TransactionRolledBackException):
        code, text = XAException.XA_RBROLLBACK, str(error)
    else:
        code, text = XAException.XAER_RMFAIL, str(error)
    converted = XAException(text, xa_error_code=code)
    converted.linked_exception = error
    return converted
