"""OpenWire's filters around a transport: negotiation, keep-alive, response correlation.

Names are imported on first use: a client of `vm:` URLs starts without sockets, and one of `tcp:`
URLs without TLS.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.transport.openwire.correlator import (
        InterruptionListener as InterruptionListener,
        InterruptionListeners as InterruptionListeners,
        OpenWireTransport as OpenWireTransport,
        ReconnectingTransport as ReconnectingTransport,
        RequestTransport as RequestTransport,
        ResponseCorrelator as ResponseCorrelator,
        from_throwable as from_throwable,
    )
    from pyjms.transport.openwire.factory import (
        InactivityMonitor as InactivityMonitor,
        accepted_transport as accepted_transport,
        client_transport as client_transport,
        ssl_transport as ssl_transport,
        tcp_transport as tcp_transport,
    )
    from pyjms.transport.openwire.negotiator import WireFormatNegotiator as WireFormatNegotiator
    from pyjms.transport.openwire.options import (
        OpenWireOptions as OpenWireOptions,
        read_client_options as read_client_options,
        read_server_options as read_server_options,
    )
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
