"""Transports: they carry commands between two peers.

`create_transport(url)` returns a client's transport. A package that adds one registers a
factory under the entry point `pyjms.transports`; see docs/extending.md. `spawn` and `end_tasks`
start and end background tasks of transports, discovery agents and connectors, on asyncio and trio.

The module of a name is imported when the name is first used: a broker starts without the client's
transports.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
    from pyjms.transport.base import Channel, Transport, TransportFilter, TransportListener
    from pyjms.transport.options import TcpOptions
    from pyjms.transport.registry import create_transport, known_schemes
    from pyjms.transport.tcp import TcpTransport
    from pyjms.transport.uri import TransportURI

__all__ = [
    "BackgroundTask",
    "Channel",
    "TcpOptions",
    "TcpTransport",
    "Transport",
    "TransportFilter",
    "TransportListener",
    "TransportURI",
    "create_transport",
    "end_tasks",
    "known_schemes",
    "spawn",
]

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.runtime.event_loop": "BackgroundTask end_tasks spawn",
            "pyjms.transport.base": "Channel Transport TransportFilter TransportListener",
            "pyjms.transport.options": "TcpOptions",
            "pyjms.transport.registry": "create_transport known_schemes",
            "pyjms.transport.tcp": "TcpTransport",
            "pyjms.transport.uri": "TransportURI",
        }
    ),
)
