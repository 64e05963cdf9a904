"""XA: sessions whose work belongs to branches of distributed transactions.

    factory -> connection -> session -> consumer, resource -> transaction -> ledger -> branches

    branches     the branches of the loop, and what is known of their state
    ledger       what a consumer has received in each branch
    transaction  how a session works in branches
    manager      the broker: requests, and the codes of its errors
    resource     what the transaction manager calls
    consumer     receives in a branch, or outside one where the session has an `xa_ack_mode`
    session, connection, factory   the classes of these names

As everywhere in this package, imports go to the right only. The broker's part is small: BEGIN,
END, PREPARE, COMMIT, ROLLBACK, RECOVER and FORGET with the branch's id. (openwire-encoding 13;
activemq-broker X5, X6; activemq-edges N20)
"""

from __future__ import annotations

from pyjms.client.xa.factory import XAConnectionFactory

__all__ = ["XAConnectionFactory"]
