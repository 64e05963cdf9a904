"""`failover:` reconnects to one of several brokers; `static:` and `discovery:` name these brokers.

    transport     FailoverTransport: sends and receives with and without a connected broker
    connector     finds the next broker: passes over the list, backups, the priority broker
    brokers       options; the list of brokers, from the URL and from brokers and files that change
                  it
    state         the client's state that the broker has, with open transactions and pulls; what
                  restores it at a new broker, and becomes of pending requests

(activemq-edges 1.3; openwire-encoding 15)
"""

from pyjms.transport.failover.transport import (
    FailoverTransport,
    discovery_transport,
    failover_transport,
)

__all__ = ["FailoverTransport", "discovery_transport", "failover_transport"]
