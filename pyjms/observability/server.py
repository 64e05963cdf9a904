"""The port of an application's health checks and metrics: uvicorn, in the application's loop."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import anyio
import sniffio
import uvicorn
from anyio.abc import SocketAttribute, SocketListener

from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

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
        for each in self._sockets:
            # Connections inherit it. asyncio sets it only for sockets made with TCP's number, which
            # anyio's are not: a response's body would wait 40 ms for the client to acknowledge its
            # head, on each connection that is used again.
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


_CONNECTIONS: Final = 100
"""The maximum number of connections; others get the response 503."""


class HealthServer:
    """Serves an ASGI application. Belongs to the application's event loop.

    Args:
        app: the ASGI application.
        host: the address to listen on.
        port: the port; 0: a free one.
        reuse_port: whether other processes may listen on the same port.
    """

    def __init__(self, app: Any, host: str, port: int, *, reuse_port: bool = False) -> None:
        self._host = host
        self._port = port
        self._reuse_port = reuse_port
        self._listeners: list[Any] = []
        self._server = EmbeddedServer(app, "pyjms health", limit_concurrency=_CONNECTIONS)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        if not self._listeners:
            return self._port
        return int(self._listeners[0].extra(SocketAttribute.local_port))

    async def start(self) -> None:
        """Listen on the port, and start to serve requests."""
        if sniffio.current_async_library() != "asyncio":
            raise ConfigurationException(
                "health.port: the server needs asyncio, and the application runs on trio",
                hint="serve application.health_app() with a server for trio, such as hypercorn",
            )
        try:
            listener = await anyio.create_tcp_listener(
                local_host=self._host, local_port=self._port, reuse_port=self._reuse_port
            )
        except OSError as error:
            raise ResourceAllocationException(
                f"health.port: cannot listen on {self._host}:{self._port}: {error}",
                hint="change health.port or health.host, or stop the other program",
            ) from error
        self._listeners = list(listener.listeners)
        await self._server.start(self._listeners)
        logger.info("Health checks: http://%s:%d/health/ready", self._host, self.port)

    async def stop(self) -> None:
        """End all requests, and release the port. Idempotent."""
        await self._server.stop()
        self._listeners = []
