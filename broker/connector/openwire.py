"""OpenWire on a TCP port.

It binds 127.0.0.1 unless a host is named; port 0 takes any free one. One task a listening
socket accepts; each client negotiates by itself, so a slow one holds up nobody.
(ActiveMQ U8, U9, I4)
"""

from __future__ import annotations

import logging
import socket

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from broker.connector.base import BrokerHost, TransportConnector
from broker.connector.connection import BrokerConnection
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms.transport.openwire import accepted_transport
from pyjms.transport.openwire.options import read_server_options
from pyjms.transport.uri import TransportURI

__all__ = ["TcpConnector"]

logger = logging.getLogger(__name__)

_ACCEPT_PAUSE = 0.5  # seconds after a failed accept: out of file handles, most likely
_EVERYWHERE = {"0.0.0.0": "0.0.0.0", "::": "::"}  # noqa: S104 - only when it is asked for


class TcpConnector(TransportConnector):
    """Listens for OpenWire clients."""

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        super().__init__(host, uri, name)
        server, self._tcp_options, self._options = read_server_options(uri)
        if server.maximum_connections is not None:
            self.maximum_connections = server.maximum_connections
        self._backlog = server.backlog
        self._bind_host = uri.host or "127.0.0.1"
        port = uri.port
        if port is None:
            raise ConfigurationException(
                f"Connector '{self.name}' names no port: {uri}",
                hint="write tcp://host:61616, or port 0 for any free one",
            )
        self._bind_port = port
        self._port: int | None = None
        self._listeners: list[SocketListener] = []
        self._accepting: list[BackgroundTask] = []

    @property
    def connect_uri(self) -> str:
        host = socket.gethostname() if self._bind_host in _EVERYWHERE else self._bind_host
        port = self._bind_port if self._port is None else self._port
        return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"

    async def start(self) -> None:
        if self._listeners:
            return
        self.stopping = False
        try:
            multi = await anyio.create_tcp_listener(
                local_host=self._bind_host, local_port=self._bind_port, backlog=self._backlog
            )
        except OSError as error:
            raise ResourceAllocationException(
                f"Failed to bind to server socket: {self.uri} due to: "
                f"{error.strerror or error} (connector '{self.name}', port {self._bind_port})",
                hint="another program has the port, or the host is not this machine's; "
                "change this connector's uri",
            ) from error
        self._listeners = [x for x in multi.listeners if isinstance(x, SocketListener)]
        self._port = int(self._listeners[0].extra(SocketAttribute.local_port))
        self._accepting = [
            spawn(self._accept, listener, name=f"connector {self.name} accept")
            for listener in self._listeners
        ]

    async def stop(self) -> None:
        self.stopping = True
        for task in self._accepting:
            task.cancel()
            await task.wait()
        self._accepting = []
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.aclose()
        await self.stop_connections()

    async def _accept(self, listener: SocketListener) -> None:
        while True:
            try:
                stream = await listener.accept()
            except (OSError, anyio.BrokenResourceError) as error:
                logger.warning("Connector %s: accept failed: %s", self.name, error)
                await _clock.sleep(_ACCEPT_PAUSE)
                continue
            try:
                await self._take(stream)
            except Exception:  # one client's trouble must not close the door for all
                logger.exception("Connector %s: a new connection failed", self.name)
                await anyio.aclose_forcefully(stream)

    async def _take(self, stream: SocketStream) -> None:
        if len(self.connections) >= self.maximum_connections:
            await self._turn_away(stream)
        else:
            transport = accepted_transport(stream, self._tcp_options, self._options)
            BrokerConnection(self.host, self, transport).start_soon()

    async def _turn_away(self, stream: SocketStream) -> None:
        logger.warning(
            "Connector %s: exceeded the maximum number of allowed client connections: %d; see "
            "the option maximumConnections of its URI",
            self.name,
            self.maximum_connections,
        )
        await anyio.aclose_forcefully(stream)
