"""The local transaction of a transacted session.

A session has at most one transaction, and begins it with the first work: a send, or a message
delivered. Without work a commit or rollback asks nothing of the broker.

    state         send, delivery        commit()               rollback()
    -----------   -------------------   --------------------   -------------------
    none          BEGIN; -> active      nothing                nothing
    active        carries the id        COMMIT_ONE_PHASE       ROLLBACK
                                        -> none                -> none

Before either end the consumers acknowledge, in the transaction, what was delivered. Afterwards:

    commit succeeded                 delivered messages are settled
    commit refused by the broker     they are redelivered: the broker has rolled back
    commit cancelled                 they count as committed: the broker has the command
    commit without response          unknown; the caller decides (ConnectionFailedException)
    rollback, whatever the outcome   they are redelivered

`id` is cleared before the request, so that work which starts during a commit belongs to the next
transaction. (openwire-encoding 13; activemq-broker X1, X3, X7)
"""

from __future__ import annotations

import logging
from typing import Protocol

import anyio

from pyjms.client.interfaces import ClientConnection
from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.wire.openwire.commands import LocalTransactionId, TransactionInfo, TransactionType

__all__ = ["LocalTransaction", "TransactionParticipants"]

logger = logging.getLogger(__name__)


class TransactionParticipants(Protocol):
    """The consumers whose deliveries a transaction covers."""

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge what was delivered: the transaction is about to end."""

    def settle(self) -> None:
        """Settle what was delivered: it was committed."""

    def roll_back(self) -> None:
        """Redeliver what was delivered: it was rolled back."""


class LocalTransaction:
    """What a session did since its last commit or rollback. `id` is None before any work."""

    def __init__(self, connection: ClientConnection, participants: TransactionParticipants) -> None:
        self._connection = connection
        self._participants = participants
        self.id: LocalTransactionId | None = None

    def begin(self) -> LocalTransactionId:
        """Return the transaction's id; begin one if this is its first work."""
        if self.id is None:
            transaction_id = self._connection.next_transaction_id()
            self._connection.oneway(self._info(transaction_id, TransactionType.BEGIN))
            self.id = transaction_id
        return self.id

    async def commit(self) -> None:
        """Commit and wait for the broker; see the module for the outcomes.

        Raises:
            TransactionRolledBackException: the broker rolled back; messages are redelivered.
            ConnectionFailedException: the outcome is unknown.
        """
        if self.id is None:
            return
        try:
            await self._end(TransactionType.COMMIT_ONE_PHASE)
        except anyio.get_cancelled_exc_class():
            self._participants.settle()
            raise
        except (ConnectionFailedException, RequestTimeoutException):
            raise
        except JMSException as error:
            logger.warning("Commit failed and was rolled back: %s", error)
            self._participants.roll_back()
            if isinstance(error, TransactionRolledBackException):
                raise
            refusal = TransactionRolledBackException(error.reason or str(error))
            refusal.linked_exception = error
            raise refusal from error
        self._participants.settle()

    async def rollback(self) -> None:
        """Roll back: sends are dropped and messages redelivered, whatever the broker responds."""
        if self.id is None:
            return
        try:
            await self._end(TransactionType.ROLLBACK)
        finally:
            self._participants.roll_back()

    async def _end(self, how: TransactionType) -> None:
        self._participants.acknowledge_in_transaction()
        transaction_id, self.id = self.id, None
        await self._connection.request(self._info(transaction_id, how))

    def _info(
        self, transaction_id: LocalTransactionId | None, how: TransactionType
    ) -> TransactionInfo:
        return TransactionInfo(self._connection.connection_id, transaction_id, int(how))
