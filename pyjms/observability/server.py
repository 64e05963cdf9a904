"""The port of an application's health checks and metrics: uvicorn, in the application's loop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import anyio
import sniffio
import uvicorn
from anyio.abc import SocketAttribute

from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.errors import ConfigurationException, ResourceAllocationException

__all__ = ["HealthServer"]

logger = get_logger(__name__)

_CONNECTIONS: Final = 100
"""Connections at once; further ones are answered 503."""
_KEEP_ALIVE: Final = 15
"""Seconds that a connection may be idle between two requests."""
_GRACE: Final = 3
"""Seconds that requests have to end when the server stops."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the application."""
        yield


class HealthServer:
    """Serves an ASGI application. Belongs to the application's event loop.

    Args:
        app: the ASGI application.
        host: the address to listen on.
        port: the port; 0: a free one.
        reuse_port: whether another process may listen on the same port, too.
    """

    def __init__(self, app: Any, host: str, port: int, *, reuse_port: bool = False) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._reuse_port = reuse_port
        self._listeners: list[Any] = []
        self._server: uvicorn.Server | None = None
        self._task: BackgroundTask | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        if not self._listeners:
            return self._port
        return int(self._listeners[0].extra(SocketAttribute.local_port))

    async def start(self) -> None:
        """Listen, and answer requests.

        Raises:
            ConfigurationException: the loop is trio's.
            ResourceAllocationException: the port cannot be bound.
        """
        if sniffio.current_async_library() != "asyncio":
            raise ConfigurationException(
                "health.port: the server needs asyncio, and the application runs on trio",
                hint="serve application.health_app() with a server for trio, such as hypercorn",
            )
        config = uvicorn.Config(
            self._app,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
        )
        config.load()
        try:
            listener = await anyio.create_tcp_listener(
                local_host=self._host, local_port=self._port, reuse_port=self._reuse_port
            )
        except OSError as error:
            raise ResourceAllocationException(
                f"health.port: cannot listen on {self._host}:{self._port}: {error}",
                hint="change health.port or health.host, or end the other program",
            ) from error
        self._listeners = list(listener.listeners)
        self._server = server = _Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(self._sockets())
        self._task = spawn(server.main_loop, name="pyjms health")
        logger.info("Health checks: http://%s:%d/health/ready", self._host, self.port)

    async def stop(self) -> None:
        """End all requests, and free the port. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.should_exit = True
        await server.shutdown(self._sockets())
        if self._task is not None:
            await self._task.wait()
        self._listeners = []

    def _sockets(self) -> list[Any]:
        return [each.extra(SocketAttribute.raw_socket) for each in self._listeners]
