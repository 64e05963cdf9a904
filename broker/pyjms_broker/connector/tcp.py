"""The base class of connectors that accept clients on a TCP port.

It binds 127.0.0.1 unless a host is specified; port 0 means any free port. One task per listening
socket accepts connections. Each connection negotiates in its own task, so a slow client delays no
other. A connector for a protocol implements `serve`. Clients beyond `maximumConnections`, or that
would use file handles reserved for the stores, are refused: their connection is closed. Connections
that are reset before they are accepted are skipped without delay. (activemq-edges U8, U9, I4)
"""

from __future__ import annotations

import errno
import socket
from abc import abstractmethod
from typing import TYPE_CHECKING

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from pyjms.errors import ConfigurationException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.fork import inherits, let_go_of_socket
from pyjms.runtime.logging import get_logger
from pyjms.transport.options import ServerOptions
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.listening import FileHandles, check_exposure, listen

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

logger = get_logger(__name__)

_ACCEPT_RETRY_DELAY = 0.5
"""Seconds to wait after a failed accept; most likely the process is out of file handles."""
_LOG_PERIOD = 10.0
"""Seconds between two log lines about refused clients."""
_ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - only where the configuration asks for it
_BACKLOG = 5000
_RESET = frozenset(
    (
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.ENOTCONN,
        errno.EPIPE,
        errno.EPROTO,
        errno.EINVAL,  # on macOS, for options of a socket whose peer has disconnected
        errno.EBADF,  # the event loop has already closed it
    )
)
"""Errors of an accepted connection that the client has reset."""


class TcpConnector(TransportConnector):
    """Listens on a TCP port and passes each accepted socket to `serve`."""

    backlog = _BACKLOG
    """The number of connections that the operating system queues until they are accepted."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Set the address from `uri`; subclasses read its options.

        Raises:
            ConfigurationException: the URI has no port.
        """
        super().__init__(host, uri, name)
        self._bind_host = uri.host or "127.0.0.1"
        port = uri.port
        if port is None:
            raise ConfigurationException(
                f"Connector '{self.name}' names no port: {uri}",
                hint=f"write {uri.scheme}://host:61616, or port 0 for any free one",
            )
        self._bind_port = port
        self._port: int | None = None
        self._listeners: list[SocketListener] = []
        self._accepting: list[BackgroundTask] = []
        self._handles = FileHandles(host.reserved_file_handles)
        self._refused = 0  # since the last log line
        self._next_log = 0.0

    @abstractmethod
    def serve(self, stream: SocketStream) -> None:
        """Serve a client that has connected, in the background.

        Add its connection to `connections` now, and remove it when it has ended. Must not block;
        an exception closes the socket.
        """

    @property
    def connect_uri(self) -> str:
        host = socket.gethostname() if self._bind_host in _ANY_ADDRESS else self._bind_host
        port = self._bind_port if self._port is None else self._port
        return f"{self.client_scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def started(self) -> bool:
        """Whether it is listening."""
        return bool(self._listeners)

    @property
    def checks_clients(self) -> bool:
        """Whether clients have to authenticate in order to connect."""
        return False

    @property
    def client_scheme(self) -> str:
        """The scheme of `connect_uri`."""
        return self.uri.scheme

    async def start(self) -> None:
        if self._listeners:
            return
        self.stopping = False
        self._listeners = await listen(
            self._bind_host,
            self._bind_port,
            backlog=self.backlog,
            address=str(self.uri),
            listener=f"connector '{self.name}'",
            change="this connector's uri (broker.yaml: connectors; or --openwire HOST:PORT)",
        )
        self._inheritance = inherits(self)
        self._port = int(self._listeners[0].extra(SocketAttribute.local_port))
        try:
            if not self.checks_clients:
                check_exposure(self.host, f"Connector '{self.name}'", self._listeners)
        except ConfigurationException:
            await self._close_listeners()
            raise
        self._compare_handles()
        self._accepting = [
            spawn(self._accept, listener, name=f"connector {self.name} accept")
            for listener in self._listeners
        ]
        await self.announcer.start(self.connect_uri)

    def _compare_handles(self) -> None:
        """Log a warning if the limit of file handles is too low for `maximumConnections`."""
        usable = self._handles.for_clients
        if usable is not None and usable < self.maximum_connections:
            logger.info(
                "Connector %s: fewer than %d clients can connect at once, and not the %d of its "
                "option maximumConnections: the process may open %d files, and some are reserved "
                "for the stores (reserved_file_handles); raise the limit with ulimit -n",
                self.name,
                usable,
                self.maximum_connections,
                self._handles.limit,
            )

    async def stop(self) -> None:
        self.stopping = True
        await self.announcer.stop()
        await end_tasks(*self._accepting)
        self._accepting = []
        await self._close_listeners()
        await self.stop_connections()

    async def _close_listeners(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.aclose()

    def on_fork(self) -> None:
        """Release the port in a child process, because only the parent accepts connections."""
        for listener in self._listeners:
            let_go_of_socket(listener.extra(SocketAttribute.raw_socket).fileno())

    async def _accept(self, listener: SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except Exception as error:  # clients must be able to connect after any error
                if _is_reset(error):
                    logger.debug("Connector %s: a client has left: %s", self.name, error)
                else:
                    self._log_refusal(f"accept failed: {error!r}")
                    await _clock.sleep(_ACCEPT_RETRY_DELAY)
                continue
            if not self._serve_or_refuse(stream):
                await anyio.aclose_forcefully(stream)

    def _serve_or_refuse(self, stream: SocketStream) -> bool:
        """Serve a client; return False if its connection has to be closed."""
        try:
            reason = self._reason_to_refuse(stream)
            if reason is None:
                self.serve(stream)
                return True
            self._log_refusal(reason)
        except Exception as error:  # one client's failure must not stop the connector
            if _is_reset(error):
                logger.debug("Connector %s: a client has left: %s", self.name, error)
            else:
                logger.exception("Connector %s: a new connection failed", self.name)
        return False

    def _reason_to_refuse(self, stream: SocketStream) -> str | None:
        if len(self.connections) >= self.maximum_connections:
            return (
                "exceeded the maximum number of allowed client connections: "
                f"{self.maximum_connections}; see the option maximumConnections of its URI"
            )
        fileno = stream.extra(SocketAttribute.raw_socket).fileno()
        if fileno < 0:
            raise OSError(errno.EBADF, "the connection is closed already")
        if not self._handles.may_serve(fileno):
            return (
                f"a client is refused, since of {self._handles.limit} file handles only those are "
                "left that are reserved for the stores (reserved_file_handles); raise ulimit -n"
            )
        return None

    def _log_refusal(self, reason: str) -> None:
        """Log at most one line per `_LOG_PERIOD`: many refused clients must not flood the log."""
        self._refused += 1
        now = _clock.now()
        if now >= self._next_log:
            logger.warning("Connector %s: %s (%d times)", self.name, reason, self._refused)
            self._next_log = now + _LOG_PERIOD
            self._refused = 0


def _is_reset(error: Exception) -> bool:
    """Return whether the error only means that the client has reset its connection."""
    cause = error.__cause__ if isinstance(error, anyio.BrokenResourceError) else error
    return isinstance(cause, OSError) and cause.errno in _RESET


class ProtocolConnector(TcpConnector):
    """Listens on a TCP port, with TLS if the scheme is `wss` or ends in `ssl`.

    In that case `self.uri` is without the TLS options. A handshake runs in the connection's task,
    within `connectAttemptTimeout`.
    """

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the TLS options; subclasses read the others from `self.uri`.

        Raises:
            ConfigurationException: the URI has no port, an option is invalid, or there is no
                certificate.
        """
        self._tls: TlsContext | None = None
        self._needs_certificates = False
        if uri.scheme == "wss" or uri.scheme.endswith("ssl"):
            # imported here, so that a connector without TLS starts without it
            from pyjms.transport.tls import read_server_tls, shared_context  # noqa: PLC0415

            tls, uri = read_server_tls(uri)
            self._tls = shared_context(tls, server_side=True)
            self._needs_certificates = tls.need_client_auth
        super().__init__(host, uri, name)

    def _apply(self, server: ServerOptions) -> None:
        """Apply the server's options."""
        if server.maximum_connections is not None:
            self.maximum_connections = server.maximum_connections
        self.limit_clients(
            server.maximum_producers_allowed_per_connection,
            server.maximum_consumers_allowed_per_connection,
        )
        self.backlog = server.backlog
        self.allow_link_stealing = server.allow_link_stealing
        self.enable_status_monitor = server.enable_status_monitor

    @property
    def checks_clients(self) -> bool:
        return self._needs_certificates

    async def start(self) -> None:
        """Read certificate and key, if any, then accept connections.

        Raises:
            ConfigurationException: they cannot be used.
            ResourceAllocationException: the address cannot be bound.
        """
        if self._tls is not None:
            await self._tls.current()
        await super().start()
