"""The queue browser: each iteration scans the queue once, from its start.

(JMS 1.1, section 4.4.9; activemq-broker Q31)

The receiving side: consumers, their prefetch buffers, acknowledgement and redelivery.

    transport -> connection -> consumer.dispatch() -> [duplicate audit] -> prefetch buffer
        prefetch buffer -> next_dispatch() -> receive()                    -> application
                                           -> dispatcher -> deliver_one()  -> listener

Arrival. `dispatch` runs on the loop while a socket is read, and must not wait. It checks for a
duplicate, appends to the buffer and wakes a waiting `receive` or the session's dispatcher.

Delivery. Only `next_dispatch` takes messages from the buffer. It skips expired messages (EXPIRED
ack) and those that were redelivered too often (POISON ack), so both rules apply to `receive` and
listener alike. The ledger (`ack_ledger`) then decides when the message is acknowledged, and
`redelivery` what happens after a rollback.

Invariants:
- A buffered message is received without a wait, a cancel scope or a task switch, except that
  every 256th call lets other tasks run.
- Cancelling `receive` loses nothing: there is no await between removing a message from the buffer
  and returning it.
- Messages are delivered only while the session is started and the consumer neither paused by a
  redelivery nor closed. The consumer has one flag for that, updated when one of the three changes,
  because it is read for every message.

Life cycle of a consumer:

    state       entered by                    receive()                 arriving messages
    ----------  ----------------------------  ------------------------  -----------------
    open        creation                      waits                     are buffered
    closed      close()                       returns None or raises    are dropped
    disposed    session closed or failed      returns None, or raises   are dropped
                                              the failure

A closed consumer whose messages are not settled stays with its session, unknown to the
application, until they are: commit and acknowledge still cover them. (activemq-broker X7)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.interfaces import ClientSession
from pyjms.client.messages import command_of
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.transport.openwire import ReconnectingTransport
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

__all__ = ["ActiveMQMessageConsumer", "ActiveMQQueueBrowser", "BrowsingConsumer"]

_SHOWN_DEPTH: Final = 100_000
_SHOWN_PRODUCERS: Final = 1000
"""The number of producers whose latest messages a browser over `failover:` remembers."""


class BrowsingConsumer(ActiveMQMessageConsumer):
    """Receives a copy of each message, and a dispatch without message after the last one.

    After a failover the next broker starts from the beginning: messages that the browser has
    already returned are skipped.
    """

    _is_complete = False

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        reconnects = isinstance(session.connection.transport, ReconnectingTransport)
        self._shown = MessageAudit(_SHOWN_DEPTH, _SHOWN_PRODUCERS) if reconnects else None

    def interrupted(self) -> None:
        super().interrupted()
        self._is_complete = False

    def dispatch(self, dispatch: MessageDispatch) -> None:
        if dispatch.message is None:
            self._is_complete = True
            self.receivers.wake()
        else:
            super().dispatch(dispatch)

    def update_flow(self) -> None:
        super().update_flow()
        self.receivers.wake()

    async def browse_next(self) -> Message | None:
        """Return the next message; None at the end, or when the connection is stopped."""
        while True:
            message = self.receive_buffered()
            if message is not None:
                if self._shown is None or not self._shown.is_duplicate(
                    command_of(message).message_id
                ):
                    return message
                continue
            if self._is_complete or not self.session.is_started or self.is_closed:
                self.raise_failure()
                return None
            await self.receivers.wait(None)


OpenConsumer = Callable[[], Awaitable[BrowsingConsumer]]


class ActiveMQQueueBrowser(api.QueueBrowser):
    """Iterates over the messages in a queue; over none while the connection is not started."""

    def __init__(
        self,
        session: ClientSession,
        queue: Destination,
        selector: str | None,
        open_consumer: OpenConsumer,
        on_close: Callable[[ActiveMQQueueBrowser], None],
    ) -> None:
        self._session = session
        self._queue = queue
        self._selector = selector
        self._open_consumer = open_consumer
        self._on_close = on_close
        self._scans: set[_Scan] = set()
        self._is_closed = False

    @property
    def queue(self) -> Queue:
        self._check_open()
        assert isinstance(self._queue, Queue)
        return self._queue

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return self._selector

    def __aiter__(self) -> AsyncIterator[Message]:
        self._check_open()
        scan = _Scan(self._session, self._open_consumer)
        self._scans.add(scan)
        return scan

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for scan in self._scans:
                await scan.close()
            self._scans.clear()
            self._on_close(self)

    def dispose(self) -> None:
        """Mark the browser as closed; the session closes the consumers."""
        self._is_closed = True
        self._scans.clear()

    def _check_open(self) -> None:
        self._session.check_open()
        if self._is_closed:
            raise IllegalStateException("The QueueBrowser is closed")


class _Scan(AsyncIterator[Message]):
    """One iteration: a browsing consumer, which is closed after the last message."""

    def __init__(self, session: ClientSession, open_consumer: OpenConsumer) -> None:
        self._session = session
        self._open_consumer = open_consumer
        self._consumer: BrowsingConsumer | None = None
        self._is_over = False

    async def __anext__(self) -> Message:
        if self._is_over or not self._session.is_started:
            await self.close()
            raise StopAsyncIteration
        if self._consumer is None:
            self._consumer = await self._open_consumer()
        message = await self._consumer.browse_next()
        if message is None:
            await self.close()
            raise StopAsyncIteration
        return message

    async def close(self) -> None:
        self._is_over = True
        if self._consumer is not None:
            await self._consumer.close()
