"""Restoring of prepared transactions from the rows that were found at the start."""

from __future__ import annotations

from collections.abc import Callable

from pyjms._logger import get_logger
from pyjms.wire.kahadb.frames import decode_message
from pyjms.wire.openwire.commands import XATransactionId
from pyjms.wire.openwire.message_size import message_size
from pyjms_broker.api.message import StoredMessage
from pyjms_broker.store.api import RecoveredTransaction
from pyjms_broker.store.jdbc.execution.loading import PreparedRow
from pyjms_broker.store.jdbc.schema.xids import decode_xid
from pyjms_broker.store.jdbc.stores.message_store import JDBCMessageStore
from pyjms_broker.store.jdbc.stores.topic_store import JDBCTopicMessageStore
from pyjms_broker.store.jdbc.stores.transactions import JDBCTransactionStore
from pyjms_broker.store.jdbc.stores.work import Acknowledgement, Addition, Removal, Work

__all__ = ["recover_prepared"]

logger = get_logger(__name__)


def recover_prepared(
    rows: list[PreparedRow],
    store_of: Callable[[str], JDBCMessageStore],
    transactions: JDBCTransactionStore,
) -> None:
    """Add the transactions to `transactions`; rows that cannot be read are logged and stay.

    `store_of` returns the store of a container.
    """
    found: dict[XATransactionId, RecoveredTransaction] = {}
    works: dict[XATransactionId, list[Work]] = {}
    for row in rows:
        try:
            xid, added = decode_xid(row.xid)
            transaction = found.get(xid) or RecoveredTransaction(xid, [], [])
            work = _recover_row(row, store_of(row.container), transaction, added)
        except Exception as error:  # no stored data may prevent a start
            logger.error(
                "%s: row %d of a prepared transaction cannot be read and is quarantined: %s",
                row.container,
                row.id,
                error,
            )
            continue
        found[xid] = transaction
        works.setdefault(xid, []).append(work)
    for xid, transaction in found.items():
        transactions.recover(transaction, works[xid])


def _recover_row(
    row: PreparedRow, store: JDBCMessageStore, transaction: RecoveredTransaction, added: bool
) -> Work:
    message = decode_message(row.frame)
    size = message_size(message)
    if added:
        message_id = message.message_id
        if message_id is None:
            raise ValueError("the message has no id")
        transaction.added.append((store.destination, message))
        return Addition(store, message, message_id, size, lambda _: None, row.id)
    stored = StoredMessage(store.position_at(row.id, row.priority), message)
    if row.key is None:
        work: Work = Removal(store, row.id, size)
    elif isinstance(store, JDBCTopicMessageStore):
        work = Acknowledgement(store, row.key, row.id, row.priority, size, prepared=True)
    else:
        raise ValueError(f"{store.destination} is not a topic")
    transaction.removed.append((store.destination, row.key, stored))
    return work
