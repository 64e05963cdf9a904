"""Views of prepared XA transactions. (ActiveMQ RecoveredXATransactionView; activemq-edges 7)"""

from __future__ import annotations

from typing import Final, TypeAlias

from pyjms.wire.openwire.commands import XATransactionId
from pyjms_broker.management.conversion import INT
from pyjms_broker.management.host import Managed
from pyjms_broker.management.model import Attribute, Operation, ViewKind, view_kind

__all__ = ["XA_TRANSACTION"]

_Branch: TypeAlias = Managed[XATransactionId]

_BYTES: Final = "[B"


def _bytes(data: bytes | None) -> list[int]:
    """Return bytes as Java's signed bytes, from -128 to 127."""
    return [byte - 256 if byte > 127 else byte for byte in data or b""]


XA_TRANSACTION: Final[ViewKind[_Branch]] = view_kind(
    "RecoveredXATransactionView",
    "A prepared XA transaction that waits for its transaction manager.",
    [
        Attribute("FormatId", INT, "The format id of the Xid.", lambda t: t.it.format_id),
        Attribute(
            "GlobalTransactionId",
            _BYTES,
            "The global transaction id of the Xid.",
            lambda t: _bytes(t.it.global_transaction_id),
        ),
        Attribute(
            "BranchQualifier",
            _BYTES,
            "The branch qualifier of the Xid.",
            lambda t: _bytes(t.it.branch_qualifier),
        ),
    ],
    [
        Operation(
            "heuristicCommit",
            "void",
            "Commit the branch without its transaction manager.",
            lambda t: t.tree.host.broker.commit_transaction(t.tree.client, t.it, one_phase=False),
        ),
        Operation(
            "heuristicRollback",
            "void",
            "Roll back the branch without its transaction manager.",
            lambda t: t.tree.host.broker.rollback_transaction(t.tree.client, t.it),
        ),
    ],
)
