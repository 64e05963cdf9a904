"""Receiving and browsing messages for `pyjms receive` and `browse`."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms._wakeup import spawn
from pyjms.client.factory import ConnectionFactory
from pyjms.client.session.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.jms.api import MessageConsumer
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message

__all__ = ["Acknowledgement", "Incoming", "browse_all", "receive_all", "receive_until_interrupted"]


class Acknowledgement(StrEnum):
    """The acknowledgement modes of `pyjms receive`."""

    CLIENT = "client"
    AUTO = "auto"
    DUPS_OK = "dups-ok"
    TRANSACTED = "transacted"
    NONE = "none"


_MODES: Final = {
    Acknowledgement.CLIENT: AcknowledgeMode.INDIVIDUAL,
    Acknowledgement.AUTO: AcknowledgeMode.AUTO,
    Acknowledgement.DUPS_OK: AcknowledgeMode.DUPS_OK,
    Acknowledgement.TRANSACTED: AcknowledgeMode.TRANSACTED,
    Acknowledgement.NONE: AcknowledgeMode.CLIENT,
}


@dataclass(slots=True)
class Incoming:
    """The source and options of a receive."""

    destination: Destination
    selector: str | None = None
    count: int | None = 1
    """The maximum number of messages; None: receive until no message arrives."""
    timeout: float | None = None
    """Seconds to wait for each message; None: no limit."""
    acknowledgement: Acknowledgement = Acknowledgement.CLIENT
    subscription: str | None = None
    """The name of a durable subscription; then the destination is a topic."""


async def receive_all(
    factory: ConnectionFactory, incoming: Incoming, handle: Callable[[Message], None]
) -> int:
    """Receive messages, and acknowledge each after `handle` has returned; return their number.

    A transaction is committed after the last message, and rolled back if `handle` fails or the
    call is cancelled.

    Raises:
        JMSException: the broker cannot be reached, or rejected a request.
    """
    received = 0
    acknowledgement = incoming.acknowledgement
    async with await factory.create_connection() as connection:
        transacted = acknowledgement is Acknowledgement.TRANSACTED
        session = await connection.create_session(
            transacted=transacted, acknowledge_mode=_MODES[acknowledgement]
        )
        consumer = await _consumer(session, incoming)
        await connection.start()
        while incoming.count is None or received < incoming.count:
            message = await consumer.receive(incoming.timeout)
            if message is None:
                break
            handle(message)
            received += 1
            if acknowledgement is Acknowledgement.CLIENT:
                await message.acknowledge()
        if transacted:
            await session.commit()
    return received


async def receive_until_interrupted(
    factory: ConnectionFactory, incoming: Incoming, handle: Callable[[Message], None]
) -> bool:
    """Receive as `receive_all`, until SIGINT; return whether SIGINT ended it. Main thread only.

    The signal is handled even if the process has inherited that it is ignored, as background
    commands of shells do.
    """
    watching = anyio.Event()
    with anyio.CancelScope() as scope:
        watcher = spawn(_cancel_on_interrupt, scope, watching, name="pyjms receive, signals")
        try:
            while not (watching.is_set() or watcher.done):
                await checkpoint()
            await receive_all(factory, incoming, handle)
        finally:
            watcher.cancel()
            with anyio.CancelScope(shield=True):
                await watcher.wait()
    return scope.cancelled_caught


async def _cancel_on_interrupt(scope: anyio.CancelScope, watching: anyio.Event) -> None:
    try:
        with anyio.open_signal_receiver(signal.SIGINT) as received:
            watching.set()
            async for _ in received:
                scope.cancel()
    except NotImplementedError:
        watching.set()  # Windows: SIGINT raises KeyboardInterrupt


async def _consumer(session: ActiveMQSession, incoming: Incoming) -> MessageConsumer:
    destination = incoming.destination
    if incoming.subscription is None:
        return await session.create_consumer(destination, incoming.selector)
    assert isinstance(destination, Topic), "checked by the command"
    return await session.create_durable_subscriber(
        destination, incoming.subscription, incoming.selector
    )


async def browse_all(
    factory: ConnectionFactory,
    queue: Queue,
    selector: str | None,
    limit: int | None,
    handle: Callable[[Message], None],
) -> int:
    """Call `handle` with each message of a queue, at most `limit`; return their number.

    Raises:
        JMSException: the broker cannot be reached, or rejected a request.
    """
    seen = 0
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        browser = await session.create_browser(queue, selector)
        async for message in browser:
            handle(message)
            seen += 1
            if seen == limit:
                break
        await browser.close()
    return seen
