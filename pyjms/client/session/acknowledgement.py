"""How a session acknowledges: what `message.acknowledge()` does, and how acknowledgements are sent.

By default nobody waits for their answers; `jms.sendAcksAsync=false` has receive and
`await message.acknowledge()` wait. (JMS 4.4.11; ActiveMQ A5)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

import anyio

from pyjms.client.delivery.ack_ledger import HeldLedger, IndividualLedger
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.message import Acknowledger, Message
from pyjms.transport.openwire import RequestTransport
from pyjms.wire.openwire.commands import MessageAck, MessageDispatch, Response

if TYPE_CHECKING:
    from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
    from pyjms.client.session.session import ActiveMQSession

__all__ = ["AckAnswers", "SessionAcks"]


class AckAnswers:
    """The answers that acknowledgements of one session wait for. Can be awaited."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport
        self._due = 0
        self._error: Exception | None = None
        self._all_here = anyio.Event()

    def ask(self, ack: MessageAck) -> None:
        """Send `ack` and expect an answer."""
        if self._due == 0:
            self._all_here = anyio.Event()
        self._due += 1
        try:
            self._transport.request_soon(ack, self._take)
        except JMSException:
            self._due -= 1
            raise

    async def wait(self) -> None:
        """Wait until all are answered; not cancellable, so that no received message is lost.

        Raises:
            JMSException: the broker refused one of them.
        """
        while self._due:
            with anyio.CancelScope(shield=True):
                await self._all_here.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __await__(self) -> Generator[object, object, None]:
        return self.wait().__await__()

    def _take(self, answer: Response | Exception) -> None:
        self._due -= 1
        if isinstance(answer, Exception):
            self._error = self._error or answer
        if self._due == 0:
            self._all_here.set()


class SessionAcks:
    """The acknowledgements of one session."""

    def __init__(self, session: ActiveMQSession) -> None:
        self._session = session
        self._oneway = session.connection.oneway
        asynchronous = session.connection.options.send_acks_async
        self.answers = None if asynchronous else AckAnswers(session.connection.transport)

    @property
    def sender(self) -> Callable[[MessageAck], None]:
        """What sends an acknowledgement; a plain call."""
        return self._oneway if self.answers is None else self._ask

    def _ask(self, ack: MessageAck) -> None:
        assert self.answers is not None
        if ack.transaction_id is None:
            self.answers.ask(ack)
        else:
            self._oneway(ack)

    async def wait(self) -> None:
        """Wait for the answers, if answers are waited for.

        Raises:
            JMSException: the broker refused one of them.
        """
        if self.answers is not None:
            await self.answers.wait()

    async def wait_or_report(self) -> None:
        """Wait as `wait` does; a refusal goes to the exception listener."""
        try:
            await self.wait()
        except JMSException as error:
            self._session.connection.report(error)

    def acknowledger_for(self, consumer: ActiveMQMessageConsumer) -> Acknowledger:
        """Return what `acknowledge()` of a message of `consumer` calls."""
        mode = self._session.acknowledge_mode
        ledger = consumer.ledger
        if mode == AcknowledgeMode.INDIVIDUAL and isinstance(ledger, IndividualLedger):
            return lambda message: self._acknowledge_one(ledger, message)
        return self.acknowledge if mode == AcknowledgeMode.CLIENT else self._ignore

    def acknowledge(self, message: Message | None = None) -> Awaitable[None] | None:
        """CLIENT: acknowledge everything that the session has handed out.

        Raises:
            IllegalStateException: the session is closed.
        """
        self._session.check_open()
        for consumer in self._session.members.all_consumers:
            if isinstance(consumer.ledger, HeldLedger):
                consumer.ledger.acknowledge()
        self._session.members.release_lingering()
        return self.answers

    def _acknowledge_one(
        self, ledger: IndividualLedger, message: Message
    ) -> Awaitable[None] | None:
        self._session.check_open()
        assert isinstance(message.provider_delivery, MessageDispatch)
        ledger.acknowledge_one(message.provider_delivery)
        self._session.members.release_lingering(only_settled=True)
        return self.answers

    def _ignore(self, message: Message) -> None:
        self._session.check_open()
