"""The broker as a service: its attributes, its filter chain, start and stop.

Importing this package sets the factory of the brokers that `vm://` creates when they do not run
yet. The transports of clients (`pyjms.transport.registry`) are imported for the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily
from pyjms_broker.api.broker import BrokerPlugin
from pyjms_broker.connector.vm import registry
from pyjms_broker.service.configuration import IOExceptionHandler, PersistenceFactory
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.uri import check_options

if TYPE_CHECKING:
    from pyjms_broker.connector.vm.client import vm_transport
    from pyjms_broker.service.factories import peer_transport

__all__ = [
    "BrokerPlugin",
    "BrokerService",
    "IOExceptionHandler",
    "PersistenceFactory",
    "peer_transport",
    "vm_transport",
]

__getattr__, __dir__ = lazily(globals())

registry.set_factory(BrokerService.start_for_vm, check_options)
