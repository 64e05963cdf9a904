"""OpenWire clients: their commands, their resources, and the broker's responses.

The module of a name is imported when the name is first used: `vm://` needs no TCP connector.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.connector.openwire.command_handlers import serve
    from pyjms_broker.connector.openwire.connection import BrokerConnection
    from pyjms_broker.connector.openwire.connector import (
        OpenWireConnector,
        OpenWireSslConnector,
    )

__all__ = ["BrokerConnection", "OpenWireConnector", "OpenWireSslConnector", "serve"]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "BrokerConnection": "pyjms_broker.connector.openwire.connection",
        "OpenWireConnector": "pyjms_broker.connector.openwire.connector",
        "OpenWireSslConnector": "pyjms_broker.connector.openwire.connector",
        "serve": "pyjms_broker.connector.openwire.command_handlers",
    },
)
