"""Transports made of others: `failover:`, which reconnects, and `static:` in front of it.

    factory       URL to transport
    transport     FailoverTransport: what goes out while there is a peer, and while there is none
    connector     which broker next: passes over the list, backups, the priority broker
    brokers       the list of brokers, from the URL and from brokers and files that change it
    waiting       how long between two passes and how many, for tenacity
    state         what the broker knows of the client
    transactions  the open local transactions with their commands
    replay        the commands that make a new broker know it, in ActiveMQ's order
    pulls         the pulls whose response is outstanding
    requests      the requests whose response is outstanding

(activemq-edges 1.3; openwire-encoding 15)
"""

from pyjms.transport.failover.factory import discovery_transport, failover_transport
from pyjms.transport.failover.transport import FailoverTransport

__all__ = ["FailoverTransport", "discovery_transport", "failover_transport"]
