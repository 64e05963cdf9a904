"""What becomes of transactions that the stores found prepared at their start. (K26)

One that was decided is committed wherever it is still prepared; a local one that was not is
rolled back. The others are XA transactions that wait for their manager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.api.completion import Completion, all_of, wait_for
from broker.store.api import RecoveredTransaction, TransactionStore
from broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from broker.store.kahadb.settings import PurgeRecoveredXATransactionStrategy
from broker.store.multi.decision_log import LOCAL_FORMAT_ID, DecisionLog
from broker.store.multi.transactions import MultiTransactionStore

__all__ = ["recover_transactions"]

logger = logging.getLogger(__name__)


async def recover_transactions(
    adapters: Iterable[tuple[KahaDBPersistenceAdapter, PurgeRecoveredXATransactionStrategy]],
    outcomes: DecisionLog,
    transactions: MultiTransactionStore,
) -> None:
    """Carry out what was decided and hand the rest to the transaction store.

    Raises:
        JMSException: a store has failed.
    """
    waiting: list[tuple[TransactionStore, RecoveredTransaction]] = []
    answers: list[Completion | None] = []
    for adapter, strategy in adapters:
        store = adapter.transaction_store()
        for found in store.recovered():
            if found.xid in outcomes.decided:
                logger.info("Committing %s in %s, as decided", found.xid, adapter.directory)
                answers.append(adapter.commit_recovered(found))
            elif found.xid.format_id == LOCAL_FORMAT_ID:
                logger.info("Rolling back %s in %s", found.xid, adapter.directory)
                answers.append(store.rollback(found.xid))
            elif strategy is PurgeRecoveredXATransactionStrategy.NEVER:
                waiting.append((store, found))
            else:
                logger.warning("Prepared transaction %s: %s", found.xid, strategy.value)
                commit = strategy is PurgeRecoveredXATransactionStrategy.COMMIT
                answers.append(
                    adapter.commit_recovered(found) if commit else store.rollback(found.xid)
                )
    await wait_for(all_of(answers))
    for xid in list(outcomes.decided):
        outcomes.mark_completed(xid)
    transactions.adopt(waiting)
