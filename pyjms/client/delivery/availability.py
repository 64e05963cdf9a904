"""Announcements of messages that can be received at once: ActiveMQ's MessageAvailableListener.

Each message that arrives is announced once, by the session's listener dispatcher, so that the
listener may receive it and never runs at the same time as another listener. Messages that have been
received in the meantime are not announced. Buffered messages are announced again when delivery
starts or resumes, and after a rollback.
"""

from __future__ import annotations

from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.client.interfaces import ClientSession
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import MessageAvailableListener, MessageConsumer, MessageListener
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo

__all__ = ["Announcements", "check_message_listener"]

logger: Final = get_logger(__name__)


class _Consumer(Protocol):
    """The consumer as used by its announcements."""

    session: ClientSession
    info: ConsumerInfo
    consumer_id: ConsumerId

    @property
    def available(self) -> int:
        """The number of messages that can be received without waiting."""


class Announcements:
    """The announcements of one consumer's messages to one listener."""

    is_queued = False

    def __init__(
        self, state: _Consumer, consumer: MessageConsumer, listener: MessageAvailableListener
    ) -> None:
        """Keep `listener`, which is called with `consumer`; `state` is the consumer's buffer.

        Raises:
            IllegalStateException: the session has a message listener, so `receive` is refused.
            JMSException: there is no prefetch, so messages arrive only during a `receive`.
        """
        if state.session.has_listener:
            raise IllegalStateException(
                "Cannot announce messages when a MessageListener is set",
                hint="set_message_listener(None) first, or use another session",
            )
        if state.info.prefetch_size == 0:
            raise JMSException(
                "Messages cannot be announced with a prefetch size of zero: they arrive only during"
                " a receive()",
                hint="set a prefetch of at least 1",
            )
        self.listener = listener
        self.listener_name: str = f"the message available listener of consumer {state.consumer_id}"
        self._state = state
        self._consumer = consumer
        self._due = 0

    def announce(self) -> None:
        """Announce a message that arrived."""
        if self._state.available:
            self._due += 1
            self._state.session.dispatcher.wake(self)

    def announce_all(self) -> None:
        """Announce every buffered message."""
        self._due = self._state.available
        self._state.session.dispatcher.wake(self)

    async def end(self) -> None:
        """Stop announcing, and wait until the listener is not running."""
        self._due = 0
        await self._state.session.dispatcher.wait_idle(self)

    async def deliver_one(self) -> bool:
        """Make one announcement if its message is still buffered; return whether more are due."""
        self._due = min(self._due, self._state.available)
        if not self._due:
            return False
        self._due -= 1
        try:
            result = self.listener(self._consumer)
            if result is not None:
                await result
        except Exception:
            logger.exception("%s: the message available listener failed", self._state.consumer_id)
        return self._due > 0


def check_message_listener(
    info: ConsumerInfo, listener: MessageListener | None, announcements: Announcements | None
) -> None:
    """Refuse a message listener that would not be called, or that conflicts with announcements.

    Raises:
        JMSException: there is no prefetch.
        IllegalStateException: a message available listener is set.
    """
    if info.prefetch_size == 0:
        raise JMSException(
            "Illegal prefetch size of zero. This setting is not supported for asynchronous"
            " consumers please set a value of at least 1"
        )
    if listener is not None and announcements is not None:
        raise IllegalStateException(
            "Cannot set a MessageListener when a message available listener is set",
            hint="set_message_available_listener(None) first",
        )
