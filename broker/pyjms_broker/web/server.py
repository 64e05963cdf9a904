"""The web server of one broker: its port and its site."""

from __future__ import annotations

import socket
from typing import Final

import sniffio
from anyio.abc import SocketAttribute, SocketListener
from starlette.applications import Starlette
from starlette.types import ASGIApp

from pyjms._fork import inherits, let_go_of_socket
from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException
from pyjms.observability.embedded_server import EmbeddedServer
from pyjms.transport.tls import shared_context
from pyjms_broker.connector.file_handles import FileHandles
from pyjms_broker.connector.listening import check_exposure, listen
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import exception_handlers
from pyjms_broker.web.gate import Gate
from pyjms_broker.web.host import WebHost
from pyjms_broker.web.parts import routes_of
from pyjms_broker.web.protocol import limited_protocol

__all__ = ["WebServer"]

logger = get_logger(__name__)

_HEAD_SIZE: Final = 64 * 1024
"""The maximum size of a request's line and headers."""


class WebServer:
    """Serves a broker's site. Use it on the broker's event loop.

    Args:
        host: the broker service.
        configuration: the settings.
    """

    def __init__(self, host: WebHost, configuration: WebConfiguration) -> None:
        self._host = host
        self._configuration = configuration
        self._listeners: list[SocketListener] = []
        self._server: EmbeddedServer | None = None
        self.app: ASGIApp | None = None
        """The site as an ASGI application; None before the start."""
        self.context = WebContext(host, configuration)
        """The state shared by the site's parts."""

    @property
    def url(self) -> str:
        """The URL of the site, with the actual port if the configured one is 0."""
        host, port = self._configuration.host, self._configuration.port
        if self._listeners:
            port = int(self._listeners[0].extra(SocketAttribute.local_port))
        if host in ("0.0.0.0", "::"):  # noqa: S104 - only where the configuration asks for it
            host = socket.gethostname()
        scheme = "http" if self._configuration.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        """Listen, and serve requests for `Access.ANYBODY`; all others need the started broker.

        Raises:
            ResourceAllocationException: the address cannot be bound.
            ConfigurationException: a part of the site or the certificate is unusable, or the
                broker runs on trio.
        """
        if sniffio.current_async_library() != "asyncio":
            raise ConfigurationException(
                "web: the web server needs asyncio, and the broker runs on trio",
                hint="run the broker with asyncio, or leave web out",
            )
        configuration = self._configuration
        site = Starlette(routes=routes_of(self.context), exception_handlers=exception_handlers)
        self.app = Gate(site, self.context)
        server = EmbeddedServer(
            self.app,
            "web server",
            http=limited_protocol(
                configuration.maximum_connections,
                configuration.request_timeout,
                FileHandles(self._host.reserved_file_handles),
            ),
            h11_max_incomplete_event_size=_HEAD_SIZE,
        )
        tls = configuration.tls
        context = None if tls is None else await shared_context(tls, server_side=True).current()
        self._listeners = await listen(
            configuration.host,
            configuration.port,
            backlog=min(configuration.maximum_connections, 2048),
            address=self.url,
            listener="connector 'web'",
            change="web: port, or web: host",
        )
        inherits(self)
        self._server = server
        await server.start(self._listeners, context)

    def check_exposure(self) -> None:
        """Check that only this machine can connect if the broker has no users.

        Raises:
            ConfigurationException: other machines can, and the configuration does not allow that.
        """
        tls = self._configuration.tls
        if tls is None or not tls.need_client_auth:
            check_exposure(self._host, "Connector 'web'", self._listeners)

    async def stop(self) -> None:
        """End all requests and release the port. Idempotent."""
        self.context.stopping.set()
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop()
        await self.context.close()

    def forked(self) -> None:
        """Release the port in a child process, because only the parent accepts connections."""
        for listener in self._listeners:
            let_go_of_socket(listener.extra(SocketAttribute.raw_socket).fileno())
