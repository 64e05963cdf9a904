"""The queue browser: each iteration looks at the queue once, from its start.

(JMS 4.4.9, ActiveMQ Q31)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.wire.openwire.commands import MessageDispatch

if TYPE_CHECKING:
    from pyjms.client.session.session import ActiveMQSession

__all__ = ["ActiveMQQueueBrowser", "BrowsingConsumer"]


class BrowsingConsumer(ActiveMQMessageConsumer):
    """Is shown a copy of each message; a dispatch without message says that these were all."""

    _has_seen_all = False

    def dispatch(self, dispatch: MessageDispatch) -> None:
        if dispatch.message is None:
            self._has_seen_all = True
            self._wake_receiver()
        else:
            super().dispatch(dispatch)

    def update_flow(self) -> None:
        super().update_flow()
        self._wake_receiver()

    async def browse_next(self) -> Message | None:
        """Return the next message; None at the end, and when the connection is stopped."""
        while True:
            message = self._take()
            if message is not None:
                return message
            if self._has_seen_all or not self.session.is_started or self.is_closed:
                self._raise_failure()
                return None
            await self._until_woken(None)


class ActiveMQQueueBrowser(api.QueueBrowser):
    """Shows a queue's messages and leaves them there; on a connection not started it shows none."""

    def __init__(self, session: ActiveMQSession, queue: Destination, selector: str | None) -> None:
        self._session = session
        self._queue = queue
        self._selector = selector
        self._looks: set[_Look] = set()
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
        look = _Look(self._session, self._queue, self._selector)
        self._looks.add(look)
        return look

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for look in self._looks:
                await look.close()
            self._looks.clear()
            self._session.members.browser_closed(self)

    def dispose(self) -> None:
        """End it on this side; the session closes the consumers."""
        self._is_closed = True
        self._looks.clear()

    def _check_open(self) -> None:
        self._session.check_open()
        if self._is_closed:
            raise IllegalStateException("The QueueBrowser is closed")


class _Look(AsyncIterator[Message]):
    """One iteration: a browsing consumer, closed at the end of what it is shown."""

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
            self._consumer = await self._session.open_browsing_consumer(self._queue, self._selector)
        message = await self._consumer.browse_next()
        if message is None:
            await self.close()
            raise StopAsyncIteration
        return message

    async def close(self) -> None:
        self._is_over = True
        if self._consumer is not None:
            await self._consumer.close()
