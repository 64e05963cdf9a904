"""The web server of one broker: its port, and its site of built-in and installed parts.

A part is a function that returns routes. A built-in part is imported only if it is configured.
(docs/extending-broker.md, "A part of the web site")
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import sniffio
from anyio.abc import SocketAttribute, SocketListener
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from pyjms.errors import ConfigurationException
from pyjms.observability.server import EmbeddedServer
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.fork import Inheritance, inherits, let_go_of_socket
from pyjms.runtime.logging import get_logger
from pyjms.transport.tls import TlsOptions, shared_context
from pyjms.transport.uri import did_you_mean
from pyjms_broker import entry_points
from pyjms_broker.connector.listening import FileHandles, check_exposure, listen
from pyjms_broker.management.history import History
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.security.failed_logins import address_key
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError, exception_handlers, response_to
from pyjms_broker.web.gate import Gate
from pyjms_broker.web.proxies import TrustedProxies

logger = get_logger(f"{__name__}.requests")
logger.setLevel(logging.ERROR)


_FOR_HEALTH: Final = 10
"""Connections beyond the maximum, for health checks only."""


def _only_health(app: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path", "").startswith("/health/"):
            await app(scope, receive, send)
        else:
            error = WebError(503, "There are too many connections", "see web: maximum_connections")
            await response_to(HTTPConnection(scope), error)(scope, receive, send)

    return serve


_MAY_RESPOND: Final = frozenset({"IDLE", "SEND_RESPONSE"})
"""The states of h11's connections in which a response may begin."""


class _LimitedProtocol(H11Protocol):
    """Closes connections beyond the limit, and those that do not complete a request's headers."""

    maximum: ClassVar[int]
    head_timeout: ClassVar[float]
    handles: ClassVar[FileHandles]
    proxies: ClassVar[TrustedProxies]
    idle_since = 0.0
    _head_timer: Any = None
    _read_timer: Any = None
    """The event loop's handles of the timers."""

    def connection_made(self, transport: Any) -> None:
        """Accept a connection, unless there are too many."""
        super().connection_made(transport)
        self.logger = logger  # errors of clients must not flood the log
        self.idle_since = self.loop.time()
        connection = transport.get_extra_info("socket")
        if not self._has_room() or not self.handles.may_serve(connection.fileno()):
            logger.debug("A connection to the web server is refused: there are too many")
            transport.abort()
            return
        self._wait_for_head()

    def _has_room(self) -> bool:
        """Make room, if necessary in place of an idle connection, and return whether there is any.

        One address may have three quarters of the connections, unless it is a trusted proxy's. A
        few more than the maximum get health checks only: an orchestrator must not end a broker
        because its clients are many.
        """
        count = 0
        by_address: dict[str | None, list[_LimitedProtocol]] = {}
        for each in self.connections:
            if isinstance(each, _LimitedProtocol) and not each.transport.is_closing():
                by_address.setdefault(each.address, []).append(each)
                count += 1
        mine = by_address[self.address]
        is_proxy = self.client is not None and self.proxies.has(self.client[0])
        is_share_used = not is_proxy and len(mine) > max(1, self.maximum * 3 // 4)
        if count <= self.maximum and not is_share_used:
            return True
        most = mine if is_share_used else max(by_address.values(), key=len)
        idle = [each for each in most if each is not self and each.is_idle]
        if idle:
            min(idle, key=lambda each: each.idle_since).transport.abort()
            return True
        self.app = _only_health(self.app)
        return count <= self.maximum + _FOR_HEALTH

    @property
    def address(self) -> str | None:
        """The client's address, as for failed logins."""
        return address_key(f"tcp://{self.client[0]}:{self.client[1]}" if self.client else None)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Handle input; a request's headers must be complete in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._head_timer is None:
            self._wait_for_head()

    def send_400_response(self, msg: str) -> None:
        """Answer damaged input, unless a response was begun, and close the connection."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # the site would send a second response
            cycle.message_event.set()
        if repr(self.conn.our_state) in _MAY_RESPOND:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn closes an idle connection."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        self._stop_timer()

    def pause_writing(self) -> None:
        """Close the connection unless its client continues to read."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue, because the client has read."""
        self._stop_waiting_for_reader()
        super().resume_writing()

    def _stop_waiting_for_reader(self) -> None:
        timer, self._read_timer = self._read_timer, None
        if timer is not None:
            timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._stop_timer()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        timer, self._head_timer = self._head_timer, None
        if timer is not None:
            timer.cancel()


def limited_protocol(
    maximum: int, head_timeout: float, handles: FileHandles, proxies: TrustedProxies
) -> type[H11Protocol]:
    """Return the protocol class with these limits, for uvicorn's setting `http`."""
    limits: dict[str, Any] = {
        "maximum": maximum,
        "head_timeout": head_timeout,
        "handles": handles,
        "proxies": proxies,
    }
    return type("LimitedProtocol", (_LimitedProtocol,), limits)


PartFactory: TypeAlias = Callable[[WebContext], Sequence[BaseRoute]]
"""`factory(context)` returns the routes of a part, at each start of the web server."""

_BUILT_IN: Final[dict[str, str]] = {
    "console": "pyjms_broker.console:console_routes",
    "events": "pyjms_broker.web.monitoring:events_routes",
    "health": "pyjms_broker.web.monitoring:health_routes",
    "jolokia": "pyjms_broker.web.jolokia:routes",
    "message": "pyjms_broker.web.rest:routes",
    "metrics": "pyjms_broker.web.monitoring:metrics_routes",
}
"""The module and the function of each built-in part, by name."""


def routes_of(context: WebContext) -> list[BaseRoute]:
    """Return the routes of all configured parts."""
    names = context.configuration.parts
    routes: list[BaseRoute] = []
    for name in _BUILT_IN if names is None else names:
        made = _factory(name)(context)
        ok = isinstance(made, list | tuple) and all(isinstance(each, BaseRoute) for each in made)
        entry_points.check_loaded(
            entry_points.WEB_PARTS, name, ok, "a function that returns starlette's routes"
        )
        routes += made
    return routes


def _factory(name: str) -> PartFactory:
    built_in = _BUILT_IN.get(name)
    if built_in is not None:
        module, _, function = built_in.partition(":")
        factory: PartFactory = getattr(import_module(module), function)
        return factory
    group = entry_points.WEB_PARTS
    installed = entry_points.installed_names(group)
    if name not in installed:
        known = [*_BUILT_IN, *installed]
        raise ConfigurationException(
            f"web: part '{name}' is not installed (entry point group {group})",
            hint=did_you_mean(name, known) or f"there are: {', '.join(known)}",
        )
    loaded = entry_points.load(group, name)
    entry_points.check_loaded(
        group, name, callable(loaded), "a function that returns starlette's routes"
    )
    assert callable(loaded)
    return loaded


_CERTIFICATE_PERIOD: Final = 1.0
"""Seconds between two looks at the files of the certificate."""
_HEAD_SIZE: Final = 64 * 1024
"""The maximum size of a request's line and headers."""


class WebServer:
    """Serves a broker's site. Use it on the broker's event loop."""

    def __init__(self, host: ManagedBroker, configuration: WebConfiguration) -> None:
        self._host = host
        self._configuration = configuration
        self._listeners: list[SocketListener] = []
        self._server: EmbeddedServer | None = None
        self._inheritance: Inheritance | None = None
        self._tls: ssl.SSLContext | None = None
        self._renewal: BackgroundTask | None = None
        self.app: ASGIApp | None = None
        """The site as an ASGI application; None before the start."""
        self.context = WebContext(host, configuration)
        """The state shared by the site's parts."""
        self.history: History | None = None
        """What is recorded of the started broker; None: nothing."""

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
        """Listen, and serve requests for `Access.ANYBODY`; all others need the started broker."""
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
                TrustedProxies(configuration.trusted_proxies),
            ),
            h11_max_incomplete_event_size=_HEAD_SIZE,
        )
        context = await self._certificate(configuration.tls)
        self._listeners = await listen(
            configuration.host,
            configuration.port,
            backlog=min(configuration.maximum_connections, 2048),
            address=self.url,
            listener="connector 'web'",
            change="web: port, or web: host",
        )
        self._inheritance = inherits(self)
        self._server = server
        await server.start(self._listeners, context)

    async def _certificate(self, options: TlsOptions | None) -> ssl.SSLContext | None:
        """Return the context of the port; handshakes with it use the current certificate.

        The event loop's servers keep the context that they were started with.
        """
        if options is None:
            return None
        tls = shared_context(options, server_side=True)
        first = self._tls = await tls.current()

        def use_current(handshake: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            if self._tls is not None:
                handshake.context = self._tls

        async def watch() -> None:
            while True:
                await _clock.sleep(_CERTIFICATE_PERIOD)
                self._tls = await tls.current()

        first.sni_callback = use_current  # called whether the client names a server or not
        self._renewal = spawn(watch, name="web server certificate")
        return first

    def check_exposure(self) -> None:
        """Check that only this machine can connect if the broker has no users."""
        tls = self._configuration.tls
        if tls is None or not tls.need_client_auth:
            check_exposure(self._host, "Connector 'web'", self._listeners)

    def record(self, directory: Path | None) -> None:
        """Record the history of the started broker, and save it in a directory; None: nowhere."""
        settings = self._configuration
        if settings.history:
            file = None if directory is None else directory / "history.gz"
            self.history = History(
                self._host, settings.history_destinations, file, settings.history_save_interval
            )
            self.history.start()

    async def stop(self) -> None:
        """Save the history, end all requests and release the port. Idempotent."""
        if self.history is not None:
            await self.history.stop()
        self.context.stopping.set()
        await end_tasks(self._renewal)
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop()
        self._inheritance = None
        await self.context.close()

    def on_fork(self) -> None:
        """Release the port in a child process, because only the parent accepts connections."""
        for listener in self._listeners:
            let_go_of_socket(listener.extra(SocketAttribute.raw_socket).fileno())
