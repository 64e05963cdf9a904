"""The waits of `receive` for a message that has not arrived yet."""

from __future__ import annotations

from typing import Protocol

from anyio.lowlevel import checkpoint

from pyjms.client.delivery.prefetch import (
    PullRequests,
    Receivers,
    deadline_after,
    seconds_left,
)
from pyjms.errors import IllegalStateException
from pyjms.jms.message import Message
from pyjms.wire.openwire.commands import ConsumerInfo

__all__ = ["listener_is_set", "wait_for_message"]


class _Consumer(Protocol):
    """The consumer as used by a waiting `receive`."""

    info: ConsumerInfo
    is_closed: bool
    receivers: Receivers
    pulls: PullRequests

    @property
    def buffered(self) -> int: ...
    def receive_buffered(self) -> Message | None:
        """Deliver the next buffered message; None if there is none."""

    def raise_failure(self) -> None:
        """Raise the connection's failure, if it has ended the consumer."""


def listener_is_set() -> IllegalStateException:
    """Return the error of a receive in a session with a listener. (activemq-edges N8)"""
    return IllegalStateException(
        "Cannot synchronously receive a message when a MessageListener is set",
        hint="use another session for receive()",
    )


async def wait_for_message(consumer: _Consumer, timeout: float | None) -> Message | None:
    """Return the next message; None after `timeout` seconds or if the consumer is closed."""
    deadline = deadline_after(timeout)
    if consumer.info.prefetch_size == 0 and not consumer.buffered:
        return await _wait_for_pull(consumer, timeout)
    if timeout is not None and timeout <= 0:
        await checkpoint()
        return consumer.receive_buffered()
    left = timeout
    while not consumer.is_closed and (left is None or left > 0):
        await consumer.receivers.wait(left)
        message = consumer.receive_buffered()
        if message is not None:
            return message
        left = seconds_left(deadline)
    consumer.raise_failure()
    return consumer.receive_buffered()


async def _wait_for_pull(consumer: _Consumer, timeout: float | None) -> Message | None:
    """Pull a message; the broker signals the timeout. (activemq-edges N9)"""
    pulls = consumer.pulls
    deadline = deadline_after(timeout)
    is_stale = pulls.begin(timeout)
    while not (consumer.is_closed or pulls.timed_out):
        if not pulls.is_pending:  # the pulled message had expired or was a duplicate
            pulls.request(seconds_left(deadline))
        own_clock = deadline is not None and (is_stale or bool(consumer.buffered))
        left = seconds_left(deadline) if own_clock else None
        if left is None or left > 0:
            await consumer.receivers.wait(left)
        message = consumer.receive_buffered()
        if message is not None or pulls.timed_out or (own_clock and not seconds_left(deadline)):
            return message
    consumer.raise_failure()
    return None
