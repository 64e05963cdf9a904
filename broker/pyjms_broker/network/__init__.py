"""Networks of brokers: store-and-forward to other brokers, whose consumers create the demand.

A `NetworkConnector` keeps a `NetworkBridge` to each remote broker that its URI names. A bridge
learns from the remote broker's advisories which destinations have consumers there, consumes from
these destinations here, and sends on what it gets. A message leaves this broker only once the
remote broker has it. See docs/networks.md. (activemq-edges 9)
"""

from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import NetworkBridge
from pyjms_broker.network.connector import NetworkConnector
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.networks import Networks
from pyjms_broker.network.remotes import Remote, read_remotes

__all__ = [
    "NetworkBridge",
    "NetworkConnector",
    "NetworkConnectorAttributes",
    "NetworkHost",
    "Networks",
    "Remote",
    "read_remotes",
]
