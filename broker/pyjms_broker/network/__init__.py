"""Networks of brokers: store-and-forward to other brokers, driven by their consumers.

A `NetworkConnector` maintains a `NetworkBridge` to each remote broker of its URI. A bridge learns
from the remote broker's advisories which destinations have remote consumers, consumes from these
destinations at the local broker, and forwards the messages. A message is removed from the local
broker only once the remote broker has it. See docs/networks.md. (activemq-edges 9)
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
