"""Networks of brokers: store-and-forward to other brokers, driven by their consumers.

A `NetworkConnector` maintains a `NetworkBridge` to each remote broker of its URI. A bridge learns
from the remote broker's advisories which destinations have remote consumers, consumes from these
destinations at the local broker, and forwards the messages. A message is removed from the local
broker only once the remote broker has it. See docs/networks.md. (activemq-edges 9)

The module of a name is imported when the name is first used, because few brokers have a network.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.network.attributes import NetworkConnectorAttributes
    from pyjms_broker.network.bridge import NetworkBridge
    from pyjms_broker.network.connector import NetworkConnector, Remote, read_remotes
    from pyjms_broker.network.networks import NetworkHost, Networks

__all__ = [
    "NetworkBridge",
    "NetworkConnector",
    "NetworkConnectorAttributes",
    "NetworkHost",
    "Networks",
    "Remote",
    "read_remotes",
]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "NetworkBridge": "pyjms_broker.network.bridge",
        "NetworkConnector": "pyjms_broker.network.connector",
        "NetworkConnectorAttributes": "pyjms_broker.network.attributes",
        "NetworkHost": "pyjms_broker.network.networks",
        "Networks": "pyjms_broker.network.networks",
        "Remote": "pyjms_broker.network.connector",
        "read_remotes": "pyjms_broker.network.connector",
    },
)
