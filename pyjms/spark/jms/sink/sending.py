"""Sending the rows of a task: one local transaction, committed before the task reports success.

If the broker is down before the first row, the task waits for it; if the connection is lost later,
the task fails. Spark repeats the task on a cluster and in `local[n,m]`, up to m attempts. Artemis
rolls back a transaction with a known id, so rows with ids are kept in memory, to send them one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from pyjms._logger import get_logger
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import TransactionRolledBackException
from pyjms.spark.jms.connections import discard_connection, new_session, run_blocking
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.rows import Outgoing

__all__ = ["RowTransaction", "send_rows"]

logger: Final = get_logger(__name__)

_ROWS_PER_CALL: Final = 500

RowConverter = Callable[[int, Any], Outgoing]
"""Converts a row, given its number in the partition, to a message."""


class RowTransaction:
    """A transaction in which rows are sent, chunk by chunk. Lives on the shared loop.

    With `transacted=False` there is no transaction: each row is durable when it is sent.
    """

    def __init__(
        self, options: JmsOptions, to_outgoing: RowConverter, *, transacted: bool = True
    ) -> None:
        self._options = options
        self._to_outgoing = to_outgoing
        self._is_transacted = transacted
        self._session: ActiveMQSession | None = None
        self._producer: ActiveMQMessageProducer | None = None
        self.sent: int = 0

    async def send(self, rows: list[Any]) -> None:
        """Send some rows.

        Raises:
            JMSException: the connection is lost, or the broker refuses; nothing was committed.
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
        """Make all rows durable and visible at once."""
        if self._session is not None:
            if self._is_transacted:
                await self._session.commit()
            await self._session.close()

    async def abort(self) -> None:
        """Discard the transaction and the connection, which may have caused the failure."""
        if self._session is not None:
            await discard_connection(self._options)


def send_rows(options: JmsOptions, rows: Iterable[Any], to_outgoing: RowConverter) -> int:
    """Send all rows in one transaction and return their number. Blocks.

    With `exactlyOnce=ids` a broker may roll the transaction back because it knows a row's id; then
    each row is sent separately, and the broker drops duplicates.

    Raises:
        JMSException: sending failed. Nothing was sent, unless the response to the commit was lost,
            or rows were sent one by one.
    """
    if options.exactly_once != "ids":
        return _send(RowTransaction(options, to_outgoing), rows)
    kept: list[Any] = []
    try:
        return _send(RowTransaction(options, to_outgoing), _keeping(rows, kept))
    except TransactionRolledBackException as error:
        logger.warning(
            "jms: the broker rolled back a transaction of %d rows; sending them one by one: %s",
            len(kept),
            error,
        )
    return _send(RowTransaction(options, to_outgoing, transacted=False), kept)


def _send(transaction: RowTransaction, rows: Iterable[Any]) -> int:
    try:
        for chunk in _chunks(iter(rows)):
            run_blocking(transaction.send, chunk)
        run_blocking(transaction.commit)
    except BaseException:
        run_blocking(transaction.abort)
        raise
    return transaction.sent


def _keeping(rows: Iterable[Any], kept: list[Any]) -> Iterator[Any]:
    for row in rows:
        kept.append(row)
        yield row


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, _ROWS_PER_CALL)):
        yield chunk
