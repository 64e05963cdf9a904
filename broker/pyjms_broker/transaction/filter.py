"""The broker filter that begins and ends transactions and passes each command its transaction.

Local transactions are stored in the context of their connection, XA transactions in this filter.
When a connection is lost, its open transactions are rolled back, except for prepared XA branches
and those that the store is preparing or committing. XA branches that were prepared before the
broker started are recovered and can be ended like any other. (activemq-broker B3, X1 to X6)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionInfo,
    MessageAck,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.api.transaction import Synchronization, Transaction, TransactionState
from pyjms_broker.store.api import RecoveredTransaction, TransactionStore
from pyjms_broker.transaction.base import LocalTransaction
from pyjms_broker.transaction.end_order import order_behind_earlier_ends, record_waiting_end
from pyjms_broker.transaction.xa import XAER_NOTA, XATransaction, xa_exception

__all__ = ["TransactionBroker"]

logger = get_logger(__name__)


RecoveredWork = Callable[[RecoveredTransaction], Sequence[Synchronization]]
"""Returns the work of a transaction that was prepared before the broker started."""


class TransactionBroker(BrokerFilter):
    """Looks up the transaction of each command, and ends transactions."""

    def __init__(
        self,
        next_broker: Broker,
        store: TransactionStore,
        recovered_work: RecoveredWork | None = None,
    ) -> None:
        """Create the filter; `recovered_work` returns the work of a recovered transaction."""
        super().__init__(next_broker)
        self._store = store
        self._recovered_work = recovered_work
        self._xa: dict[XATransactionId, XATransaction] = {}

    async def start(self) -> None:
        """Start the next broker, then recover the store's prepared transactions.

        (activemq-broker X6)
        """
        await self.next.start()
        for recovered in self._store.recovered():
            work = () if self._recovered_work is None else self._recovered_work(recovered)
            self._xa[recovered.xid] = XATransaction.recovered(
                recovered.xid, self._store, self._forget_xa, work
            )
            logger.warning(
                "Recovered the prepared transaction %s: %d messages sent, %d acknowledged; "
                "it stays prepared until it is committed or rolled back",
                recovered.xid,
                len(recovered.added),
                len(recovered.removed),
            )

    def transaction(self, context: ConnectionContext, xid: TransactionId) -> Transaction:
        """Return the open transaction that `xid` names.

        Raises:
            JMSException: there is no such transaction (an XAException, XAER_NOTA, for an XA id).

        """
        found: Transaction | None
        if isinstance(xid, XATransactionId):
            found = self._xa.get(xid)
            if found is None:
                raise xa_exception(f"Transaction '{xid}' has not been started.", XAER_NOTA)
            return found
        found = context.transactions.get(xid)
        if found is None:
            raise JMSException(f"Transaction '{xid}' has not been started.")
        return found

    def _open(self, context: ConnectionContext, xid: TransactionId) -> Transaction:
        """Return the open transaction that `xid` names.

        Raises:
            JMSException: there is none, or its end has already been requested.
        """
        found = self.transaction(context, xid)
        if found.state is not TransactionState.IN_USE:
            raise found.busy_error("Work")
        return found

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        xid = message.transaction_id
        if xid is None:
            return self.next.send(exchange, message)
        transaction = self._open(exchange.context, xid)
        transaction.producer = exchange.info
        return self.next.send(exchange.within(transaction), message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        xid = ack.transaction_id
        if xid is None:
            return self.next.acknowledge(exchange, ack)
        transaction = self._open(exchange.context, xid)
        return self.next.acknowledge(
            ConsumerExchange(exchange.context, exchange.subscription, transaction), ack
        )

    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        if isinstance(xid, XATransactionId):
            if xid not in self._xa:
                self._xa[xid] = XATransaction(
                    xid, self._store, self._forget_xa, context.connection_id
                )
            return
        if xid in context.transactions:
            raise JMSException(f"Transaction '{xid}' has already been started.")

        def forget_local(transaction: Transaction) -> None:
            context.transactions.pop(transaction.xid, None)

        context.transactions[xid] = LocalTransaction(xid, self._store, forget_local)

    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        transaction = self.transaction(context, xid)
        if context.waiting_ends:
            order_behind_earlier_ends(context, transaction)
        result = transaction.prepare()
        if isinstance(result, Completion) and transaction.is_waiting:
            record_waiting_end(context, transaction, result)
        return result

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion:
        transaction = self.transaction(context, xid)
        if context.waiting_ends:
            order_behind_earlier_ends(context, transaction)
        result = transaction.commit(one_phase)
        if result is not COMPLETED and transaction.is_waiting:
            record_waiting_end(context, transaction, result)
        return result

    def rollback_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        return self.transaction(context, xid).rollback()

    def forget_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        return self.transaction(context, xid).rollback()

    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        found = (
            self._xa.get(xid) if isinstance(xid, XATransactionId) else context.transactions.get(xid)
        )
        if found is not None:
            found.set_rollback_only(cause)

    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        return [xid for xid, transaction in self._xa.items() if transaction.is_prepared]

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        left_open: list[Transaction] = [
            *reversed(
                context.waiting_ends
            ),  # newest first, so that the end of one does not start that of another
            *context.transactions.values(),
            *(
                transaction
                for transaction in self._xa.values()
                if transaction.connection_id == info.connection_id and not transaction.is_prepared
            ),
        ]
        for transaction in left_open:
            if transaction.is_ending:
                continue  # the store's result decides
            try:
                transaction.rollback(error)
            except Exception:
                logger.exception("Rolling back %s of a closed connection failed", transaction.xid)
        self.next.remove_connection(context, info, error)

    def _forget_xa(self, transaction: Transaction) -> None:
        if isinstance(transaction.xid, XATransactionId):
            self._xa.pop(transaction.xid, None)
