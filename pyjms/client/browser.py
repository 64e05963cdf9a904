"""The queue browser: each iteration scans the queue once, from its start.

(JMS 1.1, section 4.4.9; activemq-broker Q31)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar, Final

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.messages import command_of
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.transport.openwire.correlator import ReconnectingTransport
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession

_SHOWN_DEPTH: Final = 100_000
_SHOWN_PRODUCERS: Final = 1000
"""The number of producers whose latest messages a browser over `failover:` remembers."""


class BrowsingConsumer(ActiveMQMessageConsumer):
    """Receives a copy of each message, and a dispatch without message after the last one.

    After a failover the next broker starts from the beginning: messages that the browser has
    already returned are skipped.
    """

    is_measured: ClassVar[bool] = False

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._is_complete = False
        reconnects = isinstance(session.connection.transport, ReconnectingTransport)
        self._shown = MessageAudit(_SHOWN_DEPTH, _SHOWN_PRODUCERS) if reconnects else None

    def on_interruption(self) -> None:
        super().on_interruption()
        self._is_complete = False

    def dispatch(self, dispatch: MessageDispatch) -> None:
        if dispatch.message is None:
            self._is_complete = True
            self.wake_receivers()
        else:
            super().dispatch(dispatch)

    def update_flow(self) -> None:
        super().update_flow()
        self.wake_receivers()

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
            if self._is_complete or not self.session.is_started or self._is_closed:
                self.raise_failure()
                return None
            if self.info.prefetch_size == 0 and not self.pulls.is_pending:
                self.pulls.request(None)
            await self.wait_for_arrival(None)


class ActiveMQQueueBrowser(api.QueueBrowser):
    """Iterates over the messages in a queue; over none while the connection is not started."""

    def __init__(self, session: ActiveMQSession, queue: Destination, selector: str | None) -> None:
        self._session = session
        self._queue = queue
        self._selector = selector
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
        scan = _Scan(self._session, self._queue, self._selector)
        self._scans.add(scan)
        return scan

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for scan in self._scans:
                await scan.close()
            self._scans.clear()
            self._session.remove_browser(self)

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

    def __init__(self, session: ActiveMQSession, queue: Destination, selector: str | None) -> None:
        self._session = session
        self._queue = queue
        self._selector = selector
        self._consumer: BrowsingConsumer | None = None
        self._is_over = False

    async def __anext__(self) -> Message:
        if self._is_over or not self._session.is_started:
            await self.close()
            raise StopAsyncIteration
        if self._consumer is None:
            self._consumer = await self._session.open_consumer(
                self._queue, self._selector, BrowsingConsumer, browser=True
            )
        message = await self._consumer.browse_next()
        if message is None:
            await self.close()
            raise StopAsyncIteration
        return message

    async def close(self) -> None:
        self._is_over = True
        if self._consumer is not None:
            await self._consumer.close()
