"""OpenWire's filters around a transport: negotiation, keep-alive, response correlation."""

from pyjms.transport.base import Transport
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.openwire.factory import (
    accepted_transport,
    client_transport,
    ssl_transport,
    tcp_transport,
)
from pyjms.transport.openwire.inactivity import InactivityMonitor
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.options import (
    OpenWireOptions,
    read_client_options,
    read_server_options,
)
from pyjms.transport.openwire.reconnecting import InterruptionListener, ReconnectingTransport
from pyjms.transport.openwire.remote_errors import from_throwable
from pyjms.wire.openwire.commands import Command

__all__ = [
    "InactivityMonitor",
    "InterruptionListener",
    "OpenWireOptions",
    "OpenWireTransport",
    "ReconnectingTransport",
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
