"""OpenWire's filters around a transport: negotiation, keep-alive, response correlation.

Names that need sockets or TLS are imported on first use: a client of `vm:` URLs starts without
sockets, and one of `tcp:` URLs without TLS.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of
from pyjms.transport.base import Transport
from pyjms.transport.openwire.correlator import (
    Correlator,
    InterruptionListener,
    InterruptionListeners,
    ReconnectingTransport,
    RequestChannel,
    RequestTransport,
    ResponseCorrelator,
    from_throwable,
)
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.options import (
    OpenWireOptions,
    read_client_options,
    read_server_options,
)
from pyjms.wire.openwire.commands import Command

if TYPE_CHECKING:
    from pyjms.transport.openwire.factory import (
        accepted_transport,
        client_transport,
        ssl_transport,
        tcp_transport,
    )
    from pyjms.transport.openwire.inactivity import InactivityMonitor

__all__ = [
    "Correlator",
    "InactivityMonitor",
    "InterruptionListener",
    "InterruptionListeners",
    "OpenWireOptions",
    "OpenWireTransport",
    "ReconnectingTransport",
    "RequestChannel",
    "RequestTransport",
    "ResponseCorrelator",
    "WireFormatNegotiator",
    "accepted_transport",
    "client_transport",
    "from_throwable",
    "read_client_options",
    "read_server_options",
    "ssl_transport",
    "tcp_transport",
]

OpenWireTransport = Transport[Command]

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.transport.openwire.factory": """
                accepted_transport client_transport ssl_transport tcp_transport
            """,
            "pyjms.transport.openwire.inactivity": "InactivityMonitor",
        }
    ),
)
