"""Transports composed of other transports: `failover:`, which reconnects, and `static:` above it.

    factory       URL to transport
    transport     FailoverTransport: sends and receives with and without a connected broker
    connector     finds the next broker: passes over the list, backups, the priority broker
    brokers       the list of brokers, from the URL and from brokers and files that change it
    waiting       the number of passes and the waits between them, for tenacity
    state         the client's state that the broker has
    transactions  the open local transactions with their commands
    replay        the commands that restore the state at a new broker, in ActiveMQ's order
    pulls         the pulls whose response is pending
    requests      the requests whose response is pending

(activemq-edges 1.3; openwire-encoding 15)
"""

from pyjms.transport.failover.transport import (
    FailoverTransport,
    discovery_transport,
    failover_transport,
)

__all__ = ["FailoverTransport", "discovery_transport", "failover_transport"]
