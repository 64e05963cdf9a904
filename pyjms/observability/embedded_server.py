"""uvicorn in the event loop of an application or a broker, without uvicorn's signal handlers."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import uvicorn
from anyio.abc import SocketAttribute, SocketListener

from pyjms._wakeup import BackgroundTask, spawn

__all__ = ["EmbeddedServer"]

_KEEP_ALIVE: Final = 15
"""Seconds that a connection may be idle between two requests."""
_GRACE: Final = 3
"""Seconds that requests have to end when the server stops."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "ws": "none",
    "lifespan": "off",
    "interface": "asgi3",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": _KEEP_ALIVE,
    "timeout_graceful_shutdown": _GRACE,
}


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: they belong to the application or broker."""
        yield


class EmbeddedServer:
    """Serves an ASGI application on listening sockets. Belongs to one asyncio loop.

    Args:
        app: the ASGI application.
        name: the name of its task.
        options: additional options of `uvicorn.Config`.
    """

    def __init__(self, app: Any, name: str, **options: Any) -> None:
        self._config = uvicorn.Config(
            app,
            **_OPTIONS,
            **options,
        )
        self._config.load()
        self._name = name
        self._server: uvicorn.Server | None = None
        self._sockets: list[Any] = []
        self._task: BackgroundTask | None = None

    async def start(
        self, listeners: Iterable[SocketListener], ssl_context: ssl.SSLContext | None = None
    ) -> None:
        """Start to serve requests on `listeners`, with TLS if there is a context."""
        if ssl_context is not None:
            self._config.ssl = ssl_context
        self._server = server = _Server(self._config)
        server.lifespan = self._config.lifespan_class(self._config)
        self._sockets = [each.extra(SocketAttribute.raw_socket) for each in listeners]
        await server.startup(self._sockets)
        self._task = spawn(server.main_loop, name=self._name)

    async def stop(self) -> None:
        """End all requests within a few seconds, and close the sockets. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.should_exit = True
        await server.shutdown(self._sockets)
        if self._task is not None:
            await self._task.wait()
