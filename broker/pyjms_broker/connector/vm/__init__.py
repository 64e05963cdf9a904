"""Clients in the broker's process: `vm://name`."""

from __future__ import annotations

from pyjms_broker.connector.vm.client import vm_transport
from pyjms_broker.connector.vm.connector import VmConnector

__all__ = ["VmConnector", "vm_transport"]
