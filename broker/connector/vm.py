"""`vm://name`: clients in the broker's own process, on the broker's own loop.

Commands cross as objects, in order, through an inbox on each side: what is sent while a
command is being handled waits its turn, so nothing nests. With `marshal=true` they cross
as bytes. A broker that nobody started is made, and stops with its last client. (ActiveMQ B14, B15)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import anyio

from broker.connector import vm_registry
from broker.connector.base import BrokerHost, TransportConnector
from broker.connector.connection import BrokerConnection
from broker.connector.vm_registry import Registration
from pyjms.errors import (
    ConnectionFailedException,
    RemoteProtocolError,
    ResourceAllocationException,
)
from pyjms.transport.base import Transport
from pyjms.transport.inbox import Inbox
from pyjms.transport.openwire import RequestTransport, ResponseCorrelator, WireFormatNegotiator
from pyjms.transport.openwire.options import wire_format_settings as read_wire_format
from pyjms.transport.options import Options, boolean, check_known, integer, read_options
from pyjms.transport.uri import TransportURI, could_not_create
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import OpenWireFormat, WireFormatSettings

__all__ = ["VmClientTransport", "VmConnector", "VmTransport", "vm_transport"]

OPTIONS: Options = {
    "create": ("create", boolean),
    "waitForStart": ("wait_for_start", integer),
    "brokerConfig": ("broker_config", str),
    "marshal": ("marshal", boolean),
}
_NO_MEANING = {"async"}  # commands never run on the sender's stack
_numbers = itertools.count()


@dataclass(frozen=True)
class VmOptions:
    """What a `vm://` URL can say."""

    create: bool = True
    wait_for_start: int = -1
    broker_config: str | None = None
    marshal: bool = False


class VmTransport(Transport[Command]):
    """One end of a connection inside the process."""

    def __init__(self, remote_address: str, wire_format: OpenWireFormat | None = None) -> None:
        self.wire_format = wire_format
        self.peer: VmTransport | None = None
        self._remote = remote_address
        self._error: Exception | None = None
        self._stopped = False
        name = f"pyjms {remote_address}"
        self._objects: Inbox[Command] = Inbox(self._bring, self._ended, name)
        self._bytes: Inbox[bytes] = Inbox(self._decode, self._ended, name)

    @property
    def inbox(self) -> Inbox[Command] | Inbox[bytes]:
        """Where the peer puts what it sends."""
        return self._objects if self.wire_format is None else self._bytes

    async def start(self) -> None:
        if self._stopped:
            raise ConnectionFailedException(f"The transport to {self._remote} was stopped")
        self.inbox.start()

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self.peer is not None:
            self.peer.inbox.end(ConnectionFailedException(f"peer ({self.peer._remote}) stopped."))
        await self.inbox.stop()

    def oneway(self, command: Command) -> None:
        peer = self.peer
        if peer is None or self._stopped or self._error is not None:
            why = self._error or ("it was stopped" if self._stopped else "it is not started")
            raise ConnectionFailedException(f"Cannot send to {self._remote}: {why}")
        if self.wire_format is None:
            peer._objects.put(command)
        else:
            peer._bytes.put(self.wire_format.encode(command))

    @property
    def congested(self) -> bool:
        return self.peer is not None and self.peer.inbox.congested

    async def drained(self) -> None:
        if self.peer is not None:
            await self.peer.inbox.drained()

    def pause_reading(self) -> None:
        self.inbox.pause()

    def resume_reading(self) -> None:
        self.inbox.resume()

    @property
    def remote_address(self) -> str:
        return self._remote

    def _bring(self, command: Command) -> None:
        self.listener.on_command(command)

    def _decode(self, data: bytes) -> None:
        assert self.wire_format is not None
        try:
            commands = self.wire_format.receive_data(data)
        except RemoteProtocolError as error:
            for command in error.completed:
                self.listener.on_command(command)
            raise
        for command in commands:
            self.listener.on_command(command)

    def _ended(self, error: Exception) -> None:
        self._error = error
        if not self._stopped:
            self.listener.on_exception(error)


class VmConnector(TransportConnector):
    """The door of one broker for clients of its own process; open while the broker runs."""

    @property
    def connect_uri(self) -> str:
        return f"vm://{self.host.broker_name}"

    async def start(self) -> None:
        self.stopping = False

    async def stop(self) -> None:
        self.stopping = True
        await self.stop_connections()

    def accept(self, client: VmTransport, settings: WireFormatSettings | None) -> BrokerConnection:
        """Connect `client` to the broker.

        Raises:
            ConnectionFailedException: the broker is stopping.
            ResourceAllocationException: it has as many connections as it may have.
        """
        if self.stopping:
            raise ConnectionFailedException(f"The broker of {self.connect_uri} is stopping")
        if len(self.connections) >= self.maximum_connections:
            raise ResourceAllocationException(
                f"{self.connect_uri} has its maximum of {self.maximum_connections} connections"
            )
        wire_format = None if settings is None else OpenWireFormat(settings)
        end = VmTransport(f"{self.connect_uri}#{next(_numbers)}", wire_format)
        end.peer, client.peer = client, end
        connection = BrokerConnection(self.host, self, _negotiated(end))
        connection.start_soon()
        return connection


class VmClientTransport(VmTransport):
    """The client's end: `start()` finds or makes the broker, `stop()` may end it."""

    def __init__(
        self,
        name: str,
        options: VmOptions,
        broker_options: Mapping[str, str],
        settings: WireFormatSettings | None,
    ) -> None:
        super().__init__(
            f"vm://{name}#{next(_numbers)}", None if settings is None else OpenWireFormat(settings)
        )
        self._name = name
        self._options = options
        self._broker_options = broker_options
        self._settings = settings
        self._registration: Registration | None = None
        self._connection: BrokerConnection | None = None

    async def start(self) -> None:
        registration = self._registration = await self._find_broker()
        try:
            connector = _connector(registration)
            self._connection = connector.accept(self, self._settings)
        except Exception:
            await self._leave(registration)
            raise
        await super().start()

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            registration, self._registration = self._registration, None
            if registration is not None:
                with anyio.CancelScope(shield=True):
                    await self._leave(registration)

    async def _find_broker(self) -> Registration:
        registration = vm_registry.find(self._name)
        if registration is None and self._options.wait_for_start > 0:
            seconds = self._options.wait_for_start / 1000
            registration = await vm_registry.wait_for(self._name, seconds)
        if registration is not None:
            return registration
        if not self._options.create:
            raise ConnectionFailedException(
                f"Could not connect to broker URL: vm://{self._name}. "
                f"Reason: Broker named '{self._name}' does not exist."
            )
        return await vm_registry.create(
            self._name, self._broker_options, self._options.broker_config
        )

    async def _leave(self, registration: Registration) -> None:
        """Wait for the broker's side to end; stop a broker made here when it was the last."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.wait_stopped()
        connector = registration.connector
        if registration.auto_created and (connector is None or not connector.connections):
            registration.auto_created = False  # one stops it, should several come here
            await registration.host.stop()


def vm_transport(uri: TransportURI) -> RequestTransport:
    """A client's transport for `vm://name?options`.

    Raises:
        ConfigurationException: an option is unknown or has a bad value.
    """
    broker_options, rest = uri.split_options("broker.")
    if broker_options:
        vm_registry.check_options(broker_options)
    wire, rest = rest.split_options("wireFormat.")
    known = TransportURI(
        rest.scheme, options={k: v for k, v in rest.options.items() if k not in _NO_MEANING}
    )
    check_known(known, {*OPTIONS, "broker.", "wireFormat."})
    options = VmOptions(**read_options(rest.options, OPTIONS))
    settings = read_wire_format(wire, None)
    name = rest.location.strip("/")
    config = options.broker_config
    if rest.components:  # vm:(broker:(...)/name?...)
        config = str(rest.components[0])
        name = rest.components[0].path.strip("/")
    if not name and config is None:
        raise could_not_create(f"{uri} names no broker", hint="write vm://localhost")
    end = VmClientTransport(
        name or "localhost",
        VmOptions(options.create, options.wait_for_start, config, options.marshal),
        broker_options,
        settings if options.marshal else None,
    )
    return ResponseCorrelator(_negotiated(end))


def _negotiated(end: VmTransport) -> Transport[Command]:
    if end.wire_format is None:
        return end
    return WireFormatNegotiator(end, end.wire_format, timeout=None)


def _connector(registration: Registration) -> VmConnector:
    connector = registration.connector
    if connector is None:
        host: BrokerHost = registration.host
        uri = TransportURI("vm", host.broker_name)
        connector = registration.connector = VmConnector(host, uri, uri.location and str(uri))
    assert isinstance(connector, VmConnector)
    return connector
