"""The broker as a service: its attributes, its filter chain, start and stop.

Importing this package registers `vm://` for clients in this process, with a factory that creates
brokers that are not running yet. What clients need is imported for the first of them.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from pyjms._forwarding import names_of
from pyjms.transport import registry as transports
from pyjms_broker.api.filter import BrokerPlugin
from pyjms_broker.connector.vm import registry
from pyjms_broker.service.embedded import create_for_vm
from pyjms_broker.service.persistence import PersistenceFactory
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.store_failures import IOExceptionHandler
from pyjms_broker.service.uri import check_options

if TYPE_CHECKING:
    from pyjms.transport.openwire import RequestTransport
    from pyjms.transport.uri import TransportURI
    from pyjms_broker.connector.vm import vm_transport
    from pyjms_broker.service.peers import peer_transport

__all__ = [
    "BrokerPlugin",
    "BrokerService",
    "IOExceptionHandler",
    "PersistenceFactory",
    "peer_transport",
    "vm_transport",
]

_TRANSPORTS = {
    "peer_transport": "pyjms_broker.service.peers",
    "vm_transport": "pyjms_broker.connector.vm.client",
}
__getattr__, __dir__ = names_of(globals(), _TRANSPORTS)


def _transport(uri: TransportURI) -> RequestTransport:
    name = f"{uri.scheme}_transport"
    transport: RequestTransport = pkgutil.resolve_name(f"{_TRANSPORTS[name]}:{name}")(uri)
    return transport


registry.set_factory(create_for_vm, check_options)
# vm:// needs no scan of installed packages, and works where pyjms is not installed
transports.register("vm", _transport)
transports.register("peer", _transport)
