"""Clients in the broker's process: `vm://name`.

The module of a name is imported when the name is first used: a broker starts without vm clients.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.connector.vm.client import vm_transport
    from pyjms_broker.connector.vm.connector import VmConnector

__all__ = ["VmConnector", "vm_transport"]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "VmConnector": "pyjms_broker.connector.vm.connector",
        "vm_transport": "pyjms_broker.connector.vm.client",
    },
)
