"""What a task does with its rows: one local transaction, committed before it says so.

A broker that is away before the first row is waited for; one that goes later fails the task, since
rows are not kept. Spark repeats it on a cluster and in `local[n,m]`, with m attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.spark.jms.client import forget, new_session, run
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.rows import Outgoing

__all__ = ["RowTransaction", "send_rows"]

_ROWS_A_CALL: Final = 500

ToOutgoing = Callable[[int, Any], Outgoing]
"""Makes a message of a row and its number in the partition."""


class RowTransaction:
    """A transaction that rows are sent in, a piece at a time. Lives on the shared loop."""

    def __init__(self, options: JmsOptions, to_outgoing: ToOutgoing) -> None:
        self._options = options
        self._to_outgoing = to_outgoing
        self._session: ActiveMQSession | None = None
        self._producer: ActiveMQMessageProducer | None = None
        self.sent = 0

    async def send(self, rows: list[Any]) -> None:
        """Send some rows.

        Raises:
            JMSException: the broker is gone, or refuses; nothing of the transaction counts.
        """
        if self._session is None:
            self._session = await new_session(self._options)
            self._producer = await self._session.create_producer(None)
        assert self._producer is not None
        default = self._options.target if self._options.destination else None
        for row in rows:
            out = self._to_outgoing(self.sent, row)
            self._producer.next_message_id = out.message_id
            await self._producer.send(
                out.message,
                destination=out.destination or default,
                delivery_mode=out.delivery_mode,
                priority=out.priority,
                time_to_live=out.time_to_live,
            )
            self.sent += 1

    async def commit(self) -> None:
        """Make all rows lasting and visible at once."""
        if self._session is not None:
            await self._session.commit()
            await self._session.close()

    async def give_up(self) -> None:
        """Forget all: with the connection, which may be the reason."""
        if self._session is not None:
            await forget(self._options)


def send_rows(options: JmsOptions, rows: Iterable[Any], to_outgoing: ToOutgoing) -> int:
    """Send all rows in one transaction and return how many they were. Blocks.

    Raises:
        JMSException: it failed, and nothing was sent, unless the answer to the commit got lost.
    """
    transaction = RowTransaction(options, to_outgoing)
    try:
        for some in _pieces(iter(rows)):
            run(transaction.send, some)
        run(transaction.commit)
    except BaseException:
        run(transaction.give_up)
        raise
    return transaction.sent


def _pieces(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, _ROWS_A_CALL)):
        yield some
