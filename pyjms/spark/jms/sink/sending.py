"""What a task does with its rows: one local transaction, committed before it says so.

A broker that is away before the first row is waited for; one that goes later fails the task.
Spark repeats it on a cluster and in `local[n,m]`, with m attempts. Artemis rolls a transaction back
that has a row it knows, so rows with ids are kept, and then sent again one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import TransactionRolledBackException
from pyjms.spark.jms.connections import discard_connection, new_session, run_blocking
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.rows import Outgoing

__all__ = ["RowTransaction", "send_rows"]

logger = logging.getLogger(__name__)

_ROWS_A_CALL: Final = 500

RowConverter = Callable[[int, Any], Outgoing]
"""Makes a message of a row and its number in the partition."""


class RowTransaction:
    """A transaction that rows are sent in, a piece at a time. Lives on the shared loop.

    `transacted` False: there is none, each row is lasting when it is sent.
    """

    def __init__(
        self, options: JmsOptions, to_outgoing: RowConverter, *, transacted: bool = True
    ) -> None:
        self._options = options
        self._to_outgoing = to_outgoing
        self._is_transacted = transacted
        self._session: ActiveMQSession | None = None
        self._producer: ActiveMQMessageProducer | None = None
        self.sent = 0

    async def send(self, rows: list[Any]) -> None:
        """Send some rows.

        Raises:
            JMSException: the broker is gone, or refuses; nothing of the transaction counts.
        """
        if self._session is None:
            self._session = await new_session(self._options, transacted=self._is_transacted)
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
            if self._is_transacted:
                await self._session.commit()
            await self._session.close()

    async def give_up(self) -> None:
        """Forget all: with the connection, which may be the reason."""
        if self._session is not None:
            await discard_connection(self._options)


def send_rows(options: JmsOptions, rows: Iterable[Any], to_outgoing: RowConverter) -> int:
    """Send all rows in one transaction and return how many they were. Blocks.

    With `exactlyOnce=ids` a broker may roll it back for a row that it has: then each row is sent
    by itself, and the broker drops those that it has.

    Raises:
        JMSException: it failed, and nothing was sent, unless the answer to the commit got lost, or
            rows were sent by themselves.
    """
    if options.exactly_once != "ids":
        return _send(RowTransaction(options, to_outgoing), rows)
    kept: list[Any] = []
    try:
        return _send(RowTransaction(options, to_outgoing), _keeping(rows, kept))
    except TransactionRolledBackException as error:
        logger.warning("jms: %d rows are sent one by one after a rollback: %s", len(kept), error)
    return _send(RowTransaction(options, to_outgoing, transacted=False), kept)


def _send(transaction: RowTransaction, rows: Iterable[Any]) -> int:
    try:
        for some in _pieces(iter(rows)):
            run_blocking(transaction.send, some)
        run_blocking(transaction.commit)
    except BaseException:
        run_blocking(transaction.give_up)
        raise
    return transaction.sent


def _keeping(rows: Iterable[Any], kept: list[Any]) -> Iterator[Any]:
    for row in rows:
        kept.append(row)
        yield row


def _pieces(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(rows, _ROWS_A_CALL)):
        yield some
