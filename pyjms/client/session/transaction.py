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

With a failover transport the broker may be lost meanwhile. Messages delivered by the lost one must
come again, from the next one to the same consumers; else a commit rolls back instead, after
waiting for them as long as `consumer_failover_redelivery_wait_period` says. (activemq-edges F5)

`id` is cleared before the request, so that work which starts during a commit belongs to the next
transaction. (openwire-encoding 13; activemq-broker X1, X3, X7)
"""

from __future__ import annotations

from typing import Protocol

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.client.interfaces import ClientConnection
from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.wire.openwire.commands import LocalTransactionId, TransactionInfo, TransactionType

__all__ = ["LocalTransaction", "TransactionParticipants"]

logger = get_logger(__name__)


class TransactionParticipants(Protocol):
    """The consumers whose deliveries a transaction covers."""

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge what was delivered: the transaction is about to end."""

    def stale_count(self) -> int:
        """How many deliveries a lost broker made, and the present one did not."""

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
        self._redelivery = anyio.Event()

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
        if self._participants.stale_count():
            await self._wait_for_redelivery()
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

    def redelivered(self) -> None:
        """Note that a message delivered by a lost broker came again."""
        self._redelivery.set()

    async def _wait_for_redelivery(self) -> None:
        """Wait until everything delivered by a lost broker has come again; else roll back.

        Raises:
            TransactionRolledBackException: not everything came in time.
        """
        participants = self._participants
        with _clock.timeout(self._connection.options.consumer_failover_redelivery_wait_period):
            while participants.stale_count():
                self._redelivery = anyio.Event()
                await self._redelivery.wait()
        missing, transaction_id = participants.stale_count(), self.id
        if missing:
            await self.rollback()
            raise TransactionRolledBackException(
                f"rolling back transaction ({transaction_id}) post failover recovery. {missing} "
                "previously delivered message(s) not replayed to consumer",
                hint="they come again, to this or another consumer; handle them then",
            )

    async def _end(self, how: TransactionType) -> None:
        self._participants.acknowledge_in_transaction()
        transaction_id, self.id = self.id, None
        await self._connection.request(self._info(transaction_id, how))

    def _info(
        self, transaction_id: LocalTransactionId | None, how: TransactionType
    ) -> TransactionInfo:
        return TransactionInfo(self._connection.connection_id, transaction_id, int(how))
