"""Acknowledgement by a session: what `message.acknowledge()` does, and how acks are sent.

By default acknowledgements are sent without waiting. With `jms.sendAcksAsync=false`,
acknowledgements outside transactions require a response, for which `receive` and
`await message.acknowledge()` wait. The responses to a listener's acknowledgements are awaited after
the listener, and a refusal is passed to the exception listener.
(JMS 1.1, section 4.4.11; activemq-broker A5)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator

import anyio

from pyjms.client.interfaces import ClientConnection
from pyjms.client.session.resources import SessionResources
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.message import Acknowledger, Message
from pyjms.transport.openwire import RequestTransport
from pyjms.wire.openwire.commands import MessageAck, MessageDispatch, Response

__all__ = ["PendingAckResponses", "SessionAcks"]


class PendingAckResponses:
    """The pending responses to acknowledgements of one session. Awaitable."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport
        self._pending = 0
        self._error: Exception | None = None
        self._complete = anyio.Event()

    def send(self, ack: MessageAck) -> None:
        """Send `ack` and expect a response. Synchronous."""
        if self._pending == 0:
            self._complete = anyio.Event()
        self._pending += 1
        try:
            self._transport.request_soon(ack, self._on_response)
        except JMSException:
            self._pending -= 1
            raise

    async def wait(self) -> None:
        """Wait for all responses; not cancellable, so that no received message is lost.

        Raises:
            JMSException: the broker refused one of the acknowledgements.
        """
        while self._pending:
            with anyio.CancelScope(shield=True):
                await self._complete.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __await__(self) -> Generator[object, object, None]:
        return self.wait().__await__()

    def _on_response(self, response: Response | Exception) -> None:
        self._pending -= 1
        if isinstance(response, Exception):
            self._error = self._error or response
        if self._pending == 0:
            self._complete.set()


class SessionAcks:
    """The acknowledgements of one session."""

    def __init__(
        self,
        connection: ClientConnection,
        mode: AcknowledgeMode,
        resources: SessionResources,
        check_open: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._mode = mode
        self._resources = resources
        self._check_open = check_open
        asynchronous = connection.options.send_acks_async
        self._responses = None if asynchronous else PendingAckResponses(connection.transport)
        self.waits_for_responses: bool = not asynchronous

    @property
    def sender(self) -> Callable[[MessageAck], None]:
        """The synchronous function that sends an acknowledgement."""
        return self._connection.oneway if self._responses is None else self._send

    def _send(self, ack: MessageAck) -> None:
        assert self._responses is not None
        if ack.transaction_id is None:
            self._responses.send(ack)
        else:
            self._connection.oneway(ack)

    async def wait(self) -> None:
        """Wait for pending responses, if responses are awaited.

        Raises:
            JMSException: the broker refused one of the acknowledgements.
        """
        if self._responses is not None:
            await self._responses.wait()

    async def wait_or_report(self) -> None:
        """Wait like `wait`, but pass a refusal to the exception listener."""
        try:
            await self.wait()
        except JMSException as error:
            self._connection.report(error)

    def acknowledger_for(
        self, acknowledge_one: Callable[[MessageDispatch], None] | None
    ) -> Acknowledger:
        """Return the function that `acknowledge()` calls on the messages of a consumer.

        `acknowledge_one` is the ledger's function for mode INDIVIDUAL.
        """
        if self._mode == AcknowledgeMode.INDIVIDUAL and acknowledge_one is not None:
            return lambda message: self._acknowledge_one(acknowledge_one, message)
        return self.acknowledge if self._mode == AcknowledgeMode.CLIENT else self._ignore

    def acknowledge(self, message: Message | None = None) -> Awaitable[None] | None:
        """CLIENT: acknowledge everything that the session has delivered.

        Raises:
            IllegalStateException: the session is closed.
        """
        self._check_open()
        self._resources.acknowledge()
        return self._responses

    def _acknowledge_one(
        self, acknowledge_one: Callable[[MessageDispatch], None], message: Message
    ) -> Awaitable[None] | None:
        self._check_open()
        assert isinstance(message.provider_delivery, MessageDispatch)
        acknowledge_one(message.provider_delivery)
        self._resources.release_closed_consumers(only_settled=True)
        return self._responses

    def _ignore(self, message: Message) -> None:
        self._check_open()
