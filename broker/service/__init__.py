"""The broker as a service: its attributes, its chain of filters, start and stop.

Importing it tells `vm://` how to make a broker.
"""

from __future__ import annotations

from broker.connector import vm_registry
from broker.service.embedded import create_for_vm
from broker.service.service import BrokerPlugin, BrokerService

__all__ = ["BrokerPlugin", "BrokerService"]

vm_registry.set_factory(create_for_vm)
