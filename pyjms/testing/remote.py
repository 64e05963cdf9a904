"""A broker outside the test's process, as used by `JmsTestApp`: only through JMS."""

from __future__ import annotations

from typing import Final

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import RequestTimeoutException, UnsupportedOperationException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, parse_destination
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ConnectionId

_LOOK_AGAIN: Final = 0.02
"""Seconds between two checks of a queue."""
_DEAD_LETTER_DELAY: Final = 0.5
"""Seconds until a dead letter is in its queue: ActiveMQ removes the message first."""


class RemoteBroker:
    """Waits for the queues of a broker to be empty, and reads its dead letters, by browsing.

    The broker may have been used before: dead letters from before `begin` are not returned.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._old: set[str | None] = set()

    async def begin(self) -> None:
        """Note the dead letters of earlier tests."""
        found = await self._browse(Queue(DEFAULT_DEAD_LETTER_QUEUE))
        self._old = {message.message_id for message in found}

    async def drained(self, name: str, timeout: float | None = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Raises:
            RequestTimeoutException: it still has messages after `timeout` seconds of real time.
        """
        queue = parse_destination(name)
        clock = _clock.SystemClock()
        left = await self._browse(queue)
        with clock.timeout(timeout):
            while left:
                await clock.sleep(_LOOK_AGAIN)
                left = await self._browse(queue)
        if not left:
            return
        raise RequestTimeoutException(
            f"{queue} was not drained within {timeout} s: {len(left)} messages",
            hint="check that a listener consumes it, is started and acknowledges",
        )

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[Message]:
        """Return dead letters since `begin`, oldest first, without removing them.

        `name` is a dead-letter queue, or the destination to which they were sent originally.
        """
        clock = _clock.SystemClock()
        wanted = parse_destination(name)
        found = await self._dead_letters(wanted)
        with clock.timeout(_DEAD_LETTER_DELAY):
            while not found:
                await clock.sleep(_LOOK_AGAIN)
                found = await self._dead_letters(wanted)
        return found

    async def _dead_letters(self, wanted: Destination) -> list[Message]:
        common = Queue(DEFAULT_DEAD_LETTER_QUEUE)
        found = [m for m in await self._browse(common) if m.message_id not in self._old]
        if wanted == common:
            return found
        of_destination = [message for message in found if message.original_destination == wanted]
        return of_destination or await self._browse(wanted)

    async def drop_connections(self, of: ConnectionId | None = None) -> int:
        """Raise: only the embedded broker's connections can be broken.

        Raises:
            UnsupportedOperationException: always.
        """
        raise _embedded_only("break connections")

    async def restart(self) -> None:
        """Raise: only the embedded broker can be restarted.

        Raises:
            UnsupportedOperationException: always.
        """
        raise _embedded_only("restart the broker")

    async def _browse(self, queue: Destination) -> list[Message]:
        if not isinstance(queue, Queue):
            raise UnsupportedOperationException(
                f"{queue} cannot be browsed outside of the test's process",
                hint="name a queue; a topic keeps no messages",
            )
        async with await ConnectionFactory(self.url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            async with await session.create_browser(queue) as browser:
                return [message async for message in browser]


def _embedded_only(what: str) -> UnsupportedOperationException:
    return UnsupportedOperationException(
        f"jms_chaos cannot {what} outside of the test's process",
        hint="run this test on the embedded broker: without --pyjms-broker",
    )
