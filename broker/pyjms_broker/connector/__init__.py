"""Connectors, which accept clients: their base classes, and one sub-package per protocol.

A connector for another protocol extends `TcpConnector` (or `TransportConnector`, if it does not
listen on a TCP port) and is found through the entry point group `broker.connectors`; see
docs/extending-broker.md.

The module of a name is imported when the name is first used: a broker starts without TCP and TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms_broker.connector.base import (
        BrokerHost as BrokerHost,
        ServedConnection as ServedConnection,
        TransportConnector as TransportConnector,
    )
    from pyjms_broker.connector.connection_registry import ConnectionRegistry as ConnectionRegistry
    from pyjms_broker.connector.tcp import TcpConnector as TcpConnector
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
