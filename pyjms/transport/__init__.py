"""Transports: they carry commands between two peers.

`create_transport(url)` returns a client's transport. A package that adds one registers a
factory under the entry point `pyjms.transports`; see docs/extending-client.md. `spawn` and
`end_tasks` start and end background tasks of transports, discovery agents and connectors, on
asyncio and trio.

The module of a name is imported when the name is first used: a broker starts without the client's
transports.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.runtime.event_loop import (
        BackgroundTask as BackgroundTask,
        end_tasks as end_tasks,
        spawn as spawn,
    )
    from pyjms.transport.base import (
        Transport as Transport,
        TransportFilter as TransportFilter,
        TransportListener as TransportListener,
    )
    from pyjms.transport.options import TcpOptions as TcpOptions
    from pyjms.transport.registry import (
        create_transport as create_transport,
        known_schemes as known_schemes,
    )
    from pyjms.transport.tcp import TcpTransport as TcpTransport
    from pyjms.transport.uri import TransportURI as TransportURI
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
