"""The broker as a service: its attributes, its filter chain, start and stop.

Importing this package makes `vm://` known to clients of the process, with a factory that creates
the brokers that do not run yet.
"""

from __future__ import annotations

from broker.api.filter import BrokerPlugin
from broker.connector.vm import registry, vm_transport
from broker.service.embedded import create_for_vm
from broker.service.persistence import PersistenceFactory
from broker.service.service import BrokerService
from broker.service.store_failures import IOExceptionHandler
from broker.service.uri import check_options
from pyjms.transport import registry as transports

__all__ = [
    "BrokerPlugin",
    "BrokerService",
    "IOExceptionHandler",
    "PersistenceFactory",
    "vm_transport",
]

registry.set_factory(create_for_vm, check_options)
# spares vm:// the scan of installed packages, and works where pyjms is not installed
transports.register("vm", vm_transport)
