"""The broker as a service: its attributes, its chain of filters, start and stop.

Importing it tells `vm://` how to make a broker.
"""

from __future__ import annotations

from broker.connector import vm_registry
from broker.service.attributes import check_options
from broker.service.embedded import create_for_vm
from broker.service.io_errors import IOExceptionHandler
from broker.service.links import BrokerPlugin
from broker.service.persistence import PersistenceFactory
from broker.service.service import BrokerService

__all__ = ["BrokerPlugin", "BrokerService", "IOExceptionHandler", "PersistenceFactory"]

vm_registry.set_factory(create_for_vm, check_options)
