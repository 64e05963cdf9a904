"""The JMS client: connections, sessions, producers and consumers over an OpenWire transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.client.advisories import (
        Advisory as Advisory, ConnectionAdvisory as ConnectionAdvisory,
        ConsumerAdvisory as ConsumerAdvisory, DestinationAdvisory as DestinationAdvisory,
        MessageAdvisory as MessageAdvisory, ProducerAdvisory as ProducerAdvisory,
        read_advisory as read_advisory,
    )
    from pyjms.client.policies import BlobTransferPolicy as BlobTransferPolicy
    from pyjms.jms.destination import advisory_topic as advisory_topic
    from pyjms.client.xa import XAConnectionFactory as XAConnectionFactory
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
