"""The broker as a service: its attributes, its filter chain, start and stop.

Importing this package registers `vm://` for clients in this process, with a factory that creates
brokers that are not running yet.
"""

from __future__ import annotations

from pyjms.transport import registry as transports
from pyjms_broker.api.filter import BrokerPlugin
from pyjms_broker.connector.vm import registry, vm_transport
from pyjms_broker.service.embedded import create_for_vm
from pyjms_broker.service.peers import peer_transport
from pyjms_broker.service.persistence import PersistenceFactory
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.store_failures import IOExceptionHandler
from pyjms_broker.service.uri import check_options

__all__ = [
    "BrokerPlugin",
    "BrokerService",
    "IOExceptionHandler",
    "PersistenceFactory",
    "peer_transport",
    "vm_transport",
]

registry.set_factory(create_for_vm, check_options)
# vm:// needs no scan of installed packages, and works where pyjms is not installed
transports.register("vm", vm_transport)
transports.register("peer", peer_transport)
