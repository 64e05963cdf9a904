"""XA: sessions whose work belongs to branches of distributed transactions.

    factory -> connection -> session -> consumer, resource -> transaction -> ledger -> branches

    branches     the branches of the loop, and their known states
    ledger       the messages that a consumer has received in each branch
    transaction  the work of a session in branches
    manager      requests to the broker, and the codes of its errors
    resource     the interface for the transaction manager
    consumer     receives in a branch, or outside of branches if the session has an `xa_ack_mode`
    session, connection, factory   the XA session, connection and connection factory

As everywhere in `pyjms.client`, imports go to the right only. The broker only gets BEGIN, END,
PREPARE, COMMIT, ROLLBACK, RECOVER and FORGET with the branch's id. (openwire-encoding 13;
activemq-broker X5, X6; activemq-edges N20)
"""

from __future__ import annotations

from pyjms.client.xa.factory import XAConnectionFactory

__all__ = ["XAConnectionFactory"]
