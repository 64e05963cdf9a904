"""What the transactions of both APIs have in common: their status, and callbacks at their end.

Guide: docs/transactions.md. The names are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.connection.transaction import (
        ResourceTransactionStatus as ResourceTransactionStatus,
        TransactionStatus as TransactionStatus,
    )
    from pyjms.jms.api import (
        LocalTransactionEventListener as LocalTransactionEventListener,
        Synchronization as Synchronization,
    )
    from pyjms.jms.xa import Xid as Xid
    from pyjms.template.synchronization import (
        TransactionSynchronization as TransactionSynchronization,
        is_synchronization_active as is_synchronization_active,
        register_synchronization as register_synchronization,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
