"""Networks of brokers: store-and-forward to other brokers, driven by their consumers.

A `NetworkConnector` maintains a `NetworkBridge` to each remote broker of its URI. A bridge learns
from the remote broker's advisories which destinations have remote consumers, consumes from these
destinations at the local broker, and forwards the messages. A message is removed from the local
broker only once the remote broker has it. See docs/networks.md. (activemq-edges 9)

The module of a name is imported when the name is first used, because few brokers have a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms_broker.network.attributes import (
        NetworkConnectorAttributes as NetworkConnectorAttributes,
    )
    from pyjms_broker.network.bridge import NetworkBridge as NetworkBridge
    from pyjms_broker.network.connector import (
        NetworkConnector as NetworkConnector,
        Remote as Remote,
        read_remotes as read_remotes,
    )
    from pyjms_broker.network.networks import (
        Networks as Networks,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
