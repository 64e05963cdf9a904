"""The operations of a template on a session: receive and browse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyjms.core.closing import call, using
from pyjms.core.resources import BoundResource
from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import QueueBrowser, Session
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message

__all__ = ["browse_with", "limited", "receive_from"]

_T = TypeVar("_T")

_ACKNOWLEDGED_BY_TEMPLATE = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


async def receive_from(
    session: Session,
    destination: Destination,
    selector: str | None,
    *,
    timeout: float | None,
    no_local: bool,
    commit: bool,
) -> Message | None:
    """Receive one message; acknowledge it, or commit if `commit`, according to the session."""
    if destination.is_queue and not destination.is_temporary:
        # What others could have stays in the queue. A topic's messages are copies of our own.
        opened = await session.create_pull_consumer(destination, selector, timeout=timeout)
    else:
        opened = await session.create_consumer(destination, selector, no_local=no_local)
    async with using(opened) as consumer:
        message = await consumer.receive(timeout)
        if session.transacted:
            if commit:
                await session.commit()
        elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_TEMPLATE:
            await message.acknowledge()
        return message


async def browse_with(
    session: Session,
    queue: Queue,
    selector: str | None,
    action: Callable[[Session, QueueBrowser], Awaitable[_T] | _T],
) -> _T:
    """Return the result of `action(session, browser)` for a browser of `queue`."""
    async with using(await session.create_browser(queue, selector)) as browser:
        return await call(action, session, browser)


def limited(timeout: float | None, resource: BoundResource | None) -> float | None:
    """Return `timeout`, or the rest of the transaction's time if that is shorter."""
    remaining = None if resource is None else resource.remaining()
    # As in Spring, a template that waits for ever also does so in a transaction with a deadline.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)
