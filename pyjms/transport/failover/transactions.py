"""The open local transactions of a client, with the messages sent in them.

Acknowledgements are not kept: the client's consumers know which messages were delivered to them,
and the transaction can be committed only if the next broker delivers these messages again.
(activemq-edges F4, F5)
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field

from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    TransactionId,
    TransactionInfo,
    TransactionType,
)

__all__ = ["OpenTransactions"]


@dataclass
class _Transaction:
    begin: TransactionInfo
    messages: dict[int, ActiveMQMessage] = field(default_factory=dict)
    """The messages by their `id()`, in the order in which they were sent."""
    producers: set[ProducerId | None] = field(default_factory=set)
    """The producers of the messages."""
    latest_producer: ProducerId | None = None
    closed_producers: list[ProducerInfo] = field(default_factory=list)


class OpenTransactions:
    """The transactions of one client, in the order in which they began."""

    def __init__(self) -> None:
        self._transactions: dict[TransactionId | None, _Transaction] = {}

    def begin(self, info: TransactionInfo) -> None:
        """Add a transaction."""
        self._transactions[info.transaction_id] = _Transaction(info)

    def end(self, transaction_id: TransactionId | None) -> None:
        """Remove a transaction that was committed or rolled back."""
        self._transactions.pop(transaction_id, None)

    def add(self, message: ActiveMQMessage) -> bool:
        """Add a message to its transaction; return whether it belongs to one."""
        transaction = self._transactions.get(message.transaction_id)
        if transaction is not None:
            transaction.messages[id(message)] = message
            if message.producer_id is not transaction.latest_producer:
                transaction.latest_producer = message.producer_id
                transaction.producers.add(message.producer_id)
        return transaction is not None

    def remove(self, message: ActiveMQMessage) -> None:
        """Remove a message that is not sent."""
        transaction = self._transactions.get(message.transaction_id)
        if transaction is not None:
            transaction.messages.pop(id(message), None)

    def producer_closed(self, info: ProducerInfo) -> None:
        """Keep a closed producer in the transactions that contain its messages."""
        for transaction in self._transactions.values():
            if info.producer_id in transaction.producers:
                transaction.closed_producers.append(info)

    def replay(self, pending: frozenset[int]) -> Iterator[Command]:
        """Yield the commands of the transactions, except those whose `id()` is in `pending`."""
        for transaction in self._transactions.values():
            yield from map(copy, transaction.closed_producers)
            yield TransactionInfo(
                transaction.begin.connection_id,
                transaction.begin.transaction_id,
                int(TransactionType.BEGIN),
            )
            for message in transaction.messages.values():
                if id(message) not in pending:
                    yield copy(message)
            for info in transaction.closed_producers:
                yield RemoveInfo(info.producer_id)
