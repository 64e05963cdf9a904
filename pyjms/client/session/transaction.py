"""The local transaction of a transacted session: begun by its first work, one after another.

(ENCODING section 13; ActiveMQ X1, X3, X7)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.wire.openwire.commands import LocalTransactionId, TransactionInfo, TransactionType

if TYPE_CHECKING:
    from pyjms.client.session.session import ActiveMQSession

__all__ = ["LocalTransaction"]

logger = logging.getLogger(__name__)


class LocalTransaction:
    """What the session did since the last commit or rollback. `id` is None before any work."""

    def __init__(self, session: ActiveMQSession) -> None:
        self._session = session
        self.id: LocalTransactionId | None = None

    def begin(self) -> LocalTransactionId:
        """Return the transaction's id; tells the broker if this is its first work."""
        if self.id is None:
            connection = self._session.connection
            transaction_id = connection.next_transaction_id()
            connection.oneway(self._info(transaction_id, TransactionType.BEGIN))
            self.id = transaction_id
        return self.id

    async def commit(self) -> None:
        """Commit; without work nothing is asked of the broker.

        A cancelled wait counts as committed: the broker has the command.

        Raises:
            TransactionRolledBackException: the broker rolled it back; messages come again.
            ConnectionFailedException: nobody knows how it ended.
        """
        if self.id is None:
            return
        try:
            await self._end(TransactionType.COMMIT_ONE_PHASE)
        except anyio.get_cancelled_exc_class():
            self._session.after_commit()
            raise
        except (ConnectionFailedException, RequestTimeoutException):
            raise
        except JMSException as error:
            logger.warning("Commit failed and was rolled back: %s", error)
            self._session.after_rollback()
            if isinstance(error, TransactionRolledBackException):
                raise
            refusal = TransactionRolledBackException(error.reason or str(error))
            refusal.linked_exception = error
            raise refusal from error
        self._session.after_commit()

    async def rollback(self) -> None:
        """Roll back: sends are dropped, messages come again, whatever the broker answers."""
        if self.id is None:
            return
        try:
            await self._end(TransactionType.ROLLBACK)
        finally:
            self._session.after_rollback()

    async def _end(self, how: TransactionType) -> None:
        self._session.before_transaction_end()
        transaction_id, self.id = self.id, None
        await self._session.connection.request(self._info(transaction_id, how))

    def _info(
        self, transaction_id: LocalTransactionId | None, how: TransactionType
    ) -> TransactionInfo:
        return TransactionInfo(self._session.connection.connection_id, transaction_id, int(how))
