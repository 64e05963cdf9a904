"""Sessions: units of order, acknowledgement and transaction, and their parts.

    an ActiveMQSession owns   for
    -----------------------   ----------------------------------------------------------------
    SessionResources          open consumers, producers and browsers; closed, unsettled consumers
    SessionTransaction        its transactions: none, or local ones
    SessionAcks               sending acknowledgements, `message.acknowledge()`
    ListenerDispatcher        the task that calls listeners (pyjms.client.delivery)

Life cycle: open, then closed by the application (rolls back, waits for the running listener and
tells the broker), or disposed by the connection (which tells the broker itself, or has failed).
Start and stop follow the connection's.
"""

from __future__ import annotations

from pyjms.client.session.session import ActiveMQSession

__all__ = ["ActiveMQSession"]
