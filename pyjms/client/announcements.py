"""Announcements of messages that can be received at once: ActiveMQ's MessageAvailableListener.

Each message that arrives is announced once, by the session's listener dispatcher, so that the
listener may receive it and never runs at the same time as another listener. Messages that have been
received in the meantime are not announced. Buffered messages are announced again when delivery
starts or resumes, and after a rollback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import MessageAvailableListener
from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer

logger: Final = get_logger(__name__)


class Announcements:
    """The announcements of one consumer's messages to one listener."""

    is_queued = False
    takes_turns = False

    def __init__(
        self, consumer: ActiveMQMessageConsumer, listener: MessageAvailableListener
    ) -> None:
        """Keep `listener`, which is called with `consumer`.

        Raises:
            IllegalStateException: the session has a message listener, so `receive` is refused.
            JMSException: there is no prefetch, so messages arrive only during a `receive`.
        """
        if consumer.session.has_listener:
            raise IllegalStateException(
                "Cannot announce messages when a MessageListener is set",
                hint="set_message_listener(None) first, or use another session",
            )
        if consumer.info.prefetch_size == 0:
            raise JMSException(
                "Messages cannot be announced with a prefetch size of zero: they arrive only during"
                " a receive()",
                hint="set a prefetch of at least 1",
            )
        self.listener = listener
        self.listener_name: str = (
            f"the message available listener of consumer {consumer.consumer_id}"
        )
        self._consumer = consumer
        self._dispatcher = consumer.session.dispatcher
        self._due = 0

    def announce(self) -> None:
        """Announce a message that arrived."""
        if self._consumer.available:
            self._due += 1
            self._dispatcher.wake(self)

    def announce_all(self) -> None:
        """Announce every buffered message."""
        self._due = self._consumer.available
        self._dispatcher.wake(self)

    async def end(self) -> None:
        """Stop announcing, and wait until the listener is not running."""
        self._due = 0
        await self._dispatcher.wait_idle(self)

    async def deliver_one(self) -> bool:
        """Make one announcement if its message is still buffered; return whether more are due."""
        self._due = min(self._due, self._consumer.available)
        if not self._due:
            return False
        self._due -= 1
        try:
            result = self.listener(self._consumer)
            if result is not None:
                await result
        except Exception:
            logger.exception(
                "%s: the message available listener failed", self._consumer.consumer_id
            )
        return self._due > 0
