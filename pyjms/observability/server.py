"""The port of an application's health checks and metrics: uvicorn, in the application's loop."""

from __future__ import annotations

from typing import Any, Final

import anyio
import sniffio
from anyio.abc import SocketAttribute

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms.observability.embedded_server import EmbeddedServer

__all__ = ["HealthServer"]

logger: Final = get_logger(__name__)

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
        """Listen on the port, and start to serve requests.

        Raises:
            ConfigurationException: the loop is trio's.
            ResourceAllocationException: the port cannot be bound.
        """
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
