"""The composition of OpenWire transports over a byte stream, and their keep-alive.

`InactivityMonitor` sends KeepAliveInfo when nothing else is sent, and detects a dead peer; the
algorithm is in `pyjms.transport.tcp.wait_for_silence`. The first checks come after the negotiated
initial delay; then reading is checked every T, the negotiated inactivity duration, and writing
every T/3. (activemq-edges U4, I2, I3; openwire-encoding 16)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Unpack

from anyio.abc import ByteStream

from pyjms.errors import ConnectionFailedException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.options import OpenWireOptions, read_client_options
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import (
    Checks,
    StreamDetails,
    TcpTransport,
    accepted_tcp,
    open_socket,
    wait_for_silence,
)
from pyjms.transport.uri import DEFAULT_PORT, TransportURI, could_not_create
from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms.wire.openwire.commands import Command, KeepAliveInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import NegotiatedSettings

_SHORTEST_DIVIDED = 0.003  # a T of 3 ms or less is not divided for the write check


class InactivityMonitor(TransportFilter[Command]):
    """Keeps the connection alive, and fails it if the peer is silent for too long."""

    def __init__(
        self,
        next_transport: Transport[Command],
        monitored: TcpTransport[Command],
        options: OpenWireOptions,
    ) -> None:
        super().__init__(next_transport)
        self._monitored = monitored
        self._options = options
        self._task: BackgroundTask | None = None

    @property
    def outbound(self) -> Transport[Command]:
        return self.next.outbound

    def monitor(self, settings: NegotiatedSettings) -> None:
        """Start monitoring as negotiated; a duration of 0 means none. Call it on the loop."""
        duration = settings.max_inactivity_duration
        if duration > 0 and self._task is None:
            self._task = spawn(
                self._watch,
                duration,
                settings.max_inactivity_duration_inital_delay,
                name=f"pyjms {self.remote_address} inactivity monitor",
                on_error=self._monitored.fail,
            )

    @property
    def notices_silence(self) -> bool:
        return self._task is not None or self.next.notices_silence

    async def stop(self) -> None:
        await end_tasks(self._task)
        await self.next.stop()

    def on_command(self, command: Command) -> None:
        if isinstance(command, KeepAliveInfo):
            self.on_keep_alive(command)
        else:
            self.listener.on_command(command)

    def on_keep_alive(self, command: KeepAliveInfo) -> None:
        """Answer the peer if it asks for that, unless it does not read.

        In that case enough bytes are waiting to show it that this side is alive.
        """
        if command.response_required and not self.next.congested:
            self.next.oneway(KeepAliveInfo(command.command_id, response_required=False))

    def on_exception(self, error: Exception) -> None:
        if self._task is not None:
            self._task.cancel()
        self.listener.on_exception(error)

    async def _watch(self, duration: float, initial_delay: float) -> None:
        write_period = duration / 3 if duration > _SHORTEST_DIVIDED else duration
        await wait_for_silence(
            self._monitored,
            self._send_keep_alive,
            writes=Checks(initial_delay, write_period),
            reads=Checks(initial_delay, duration),
        )
        self._monitored.fail(
            ConnectionFailedException(
                f"Channel was inactive for too (>{duration * 1000:.0f}) long: "
                f"{self.remote_address}",
                hint="wireFormat.maxInactivityDuration (ms) sets the limit, 0: none",
            )
        )

    def _send_keep_alive(self) -> None:
        if self._options.use_keep_alive:
            required = self._options.keep_alive_response_required
            self.next.oneway(KeepAliveInfo(0, response_required=required))


_REFUSED = (
    "the broker may require a client certificate (ssl.keyStore) or refuse this one; see the "
    "broker's log"
)


def tcp_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `tcp://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    return _transport(uri, "tcp")


def ssl_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `ssl://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    return _transport(uri, "ssl", uses_tls=True, refusal_hint=_REFUSED)


def ws_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport over WebSocket for `ws://host:port/path?options`, not started.

    OpenWire in binary messages of the subprotocol `openwire`, for networks that allow only HTTP.
    The other end is a `ws` or `wss` connector of the bundled broker: those of ActiveMQ carry STOMP,
    MQTT and AMQP.

    Raises:
        ConfigurationException: the host or port is missing, an option is wrong, or the extra
            `websocket` is not installed.
    """
    return _transport(uri, "ws", uses_websocket=True)


def wss_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport over WebSocket and TLS, for `wss://host:port/path?options`.

    Raises:
        ConfigurationException: as for `ws_transport`.
    """
    return _transport(uri, "wss", uses_tls=True, uses_websocket=True)


def _transport(
    uri: TransportURI,
    scheme: str,
    *,
    uses_tls: bool = False,
    uses_websocket: bool = False,
    refusal_hint: str = "",
) -> RequestTransport:
    # TLS and WebSocket are imported when a URL first needs them: most clients use neither
    if uses_websocket:
        from pyjms.transport.websocket import (  # noqa: PLC0415
            OPENWIRE_SUBPROTOCOL,
            connect_websocket,
            require_websockets,
        )

        require_websockets(str(uri))
    if uses_tls:
        from pyjms.transport.tls import (  # noqa: PLC0415
            CLIENT_TLS,
            IGNORED_OF_TLS_CLIENTS,
            connect_tls,
            read_client_tls,
            shared_context,
        )

        tcp_options, options = read_client_options(uri, CLIENT_TLS, IGNORED_OF_TLS_CLIENTS)
    else:
        tcp_options, options = read_client_options(uri)
    host, port = host_and_port(uri)
    context = shared_context(read_client_tls(uri)) if uses_tls else None
    remote = f"{scheme}://{uri.location if uses_websocket else f'{host}:{port}'}"

    async def connect() -> ByteStream:
        stream = await open_socket(host, port, tcp_options, str(uri))
        timeout = tcp_options.connection_timeout
        if context is not None:
            stream = await connect_tls(stream, context, remote, timeout)
        if uses_websocket:
            stream = await connect_websocket(stream, remote, OPENWIRE_SUBPROTOCOL, timeout)
        return stream

    return client_transport(connect, remote, tcp_options, options, refusal_hint=refusal_hint)


def host_and_port(uri: TransportURI) -> tuple[str, int]:
    """Return a broker's address.

    Raises:
        ConfigurationException: the host or the port is missing.
    """
    if not uri.host or not uri.port:
        raise could_not_create(
            f"{uri} names no {'port' if uri.host else 'host'}",
            hint=f"write {uri.scheme}://{uri.host or 'localhost'}:{DEFAULT_PORT}",
        )
    return uri.host, uri.port


def client_transport(
    connect: Callable[[], Awaitable[ByteStream]],
    remote_address: str,
    tcp_options: TcpOptions,
    options: OpenWireOptions,
    *,
    refusal_hint: str = "",
) -> RequestTransport:
    """Return a client's transport over the byte stream that `connect()` opens, not started.

    For transports over other byte streams: TLS, Unix sockets, tunnels. `connect` raises
    ConnectionFailedException if it fails; `remote_address` is a URL, for messages and logs, and
    `refusal_hint` the hint of the error if the broker ends the connection before it has sent
    anything.
    """
    carried_by = partial(
        TcpTransport[Command],
        options=tcp_options,
        connect=connect,
        remote_address=remote_address,
        refusal_hint=refusal_hint,
    )
    if options.other_format is not None:
        return ResponseCorrelator(carried_by(options.other_format()))
    wire_format = OpenWireFormat(options.wire_format, keeps_raw=False)
    tcp = carried_by(wire_format)
    timeout = options.wire_format.max_inactivity_duration_inital_delay
    return ResponseCorrelator(negotiated_transport(tcp, wire_format, options, timeout))


def negotiated_transport(
    tcp: TcpTransport[Command],
    wire_format: OpenWireFormat,
    options: OpenWireOptions,
    timeout: float | None,
) -> WireFormatNegotiator:
    """Return OpenWire's filters over a transport: the inactivity monitor and the negotiator.

    `timeout` limits the negotiation, in seconds; None for no limit.
    """
    monitor: InactivityMonitor | None = None
    if options.use_inactivity_monitor:
        monitor = InactivityMonitor(tcp, tcp, options)

    def on_negotiation(settings: NegotiatedSettings) -> None:
        tcp.set_tcp_no_delay(settings.tcp_no_delay_enabled)
        if wire_format.encodes_runs:
            tcp.encode_run = wire_format.encode_run
        if monitor is not None:
            monitor.monitor(settings)
            # from now on no other command passes through the monitor
            wire_format.on_keep_alive = monitor.on_keep_alive
            tcp.receiver = monitor.listener.on_command
            tcp.list_receiver = getattr(monitor.listener, "on_commands", None)

    return WireFormatNegotiator(
        monitor or tcp,
        wire_format,
        timeout=timeout,
        minimum_version=options.minimum_wire_format_version,
        on_negotiated=on_negotiation,
    )


def accepted_transport(
    stream: ByteStream,
    tcp_options: TcpOptions,
    options: OpenWireOptions,
    frame_budget: FrameBudget | None = None,
    *,
    scheme: str | None = None,
    **stream_details: Unpack[StreamDetails],
) -> Transport[Command]:
    """Return a broker's transport for a connection that it accepted, not started.

    It has no ResponseCorrelator: a broker sends responses, not requests. `frame_budget` limits the
    incomplete frames of all the broker's connections. With `tls`, `start` begins with a handshake;
    `connectAttemptTimeout` limits it, and also the negotiation after it. `scheme` is the scheme of
    the client's address; `layered` counts the frames of a layer of `stream`, such as WebSocket, and
    `unsent_budget` the bytes that all clients have not read yet.
    """
    accept = partial(
        accepted_tcp,
        stream,
        tcp_options=tcp_options,
        scheme=scheme or ("ssl" if stream_details.get("tls") else "tcp"),
        timeout=options.connect_attempt_timeout,
        **stream_details,
    )
    if options.other_format is not None:
        return _StartedFirst(accept(options.other_format()))
    unfinished = None if frame_budget is None else UnfinishedFrame(frame_budget)
    wire_format = OpenWireFormat(options.wire_format, unfinished)
    tcp = accept(wire_format, unfinished=unfinished, discard=wire_format.discard)
    return negotiated_transport(tcp, wire_format, options, options.connect_attempt_timeout)


class _StartedFirst(TransportFilter[Command]):
    """Queues commands until it is started, in place of a negotiator."""

    def __init__(self, next_transport: Transport[Command]) -> None:
        super().__init__(next_transport)
        self._waiting: list[Command] | None = []

    async def start(self) -> None:
        await self.next.start()
        waiting, self._waiting = self._waiting, None
        for command in waiting or ():
            self.next.oneway(command)

    @property
    def outbound(self) -> Transport[Command]:
        return self if self._waiting is not None else self.next.outbound

    def oneway(self, command: Command) -> None:
        if self._waiting is not None:
            self._waiting.append(command)
        else:
            self.next.oneway(command)
