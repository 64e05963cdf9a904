"""udpTraceBrokerPlugin and multicastTraceBrokerPlugin: copies of commands as datagrams.

Each datagram is one OpenWire frame: loose encoding, no cache, with a size prefix. Messages are sent
with bodies and properties; passwords are removed. A datagram that the system does not accept at
once is lost, so that tracing never makes a client wait.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import anyio

from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.message import copy_command
from pyjms_broker.attribute import attribute, count, flag

logger = get_logger(__name__)

_REPORTED: Final = 60.0
"""Seconds between two log lines about datagrams that could not be sent."""


@dataclass(frozen=True, kw_only=True)
class UDPTraceBrokerPlugin:
    """Commands are sent to an address as datagrams, for debugging: messages in the clear.

    Source: ActiveMQ UDPTraceBrokerPlugin.

    Raises:
        ConfigurationException: the address is invalid.
    """

    is_read_at_start: ClassVar[bool] = True
    scheme: ClassVar[str] = "udp"

    destination: str = attribute(
        "udp://127.0.0.1:61616", "Address that datagrams are sent to: udp://host:port."
    )
    broadcast: bool = flag("Whether the address may be a broadcast address.", default=True)
    max_trace_datagram_size: int = attribute(
        4096,
        "Maximum size of a datagram in bytes; larger ones are not sent.",
        minimum=64,
        maximum=65_507,
    )

    def __post_init__(self) -> None:
        self.address()

    def address(self) -> tuple[str, int]:
        """Return the host and port of `destination`."""
        try:
            url = urlsplit(self.destination)
            host, port = url.hostname, url.port
        except ValueError:
            host = port = None
        if host is None or port is None or url.scheme != self.scheme:
            raise ConfigurationException(
                f"destination: {self.destination} is no address for datagrams",
                hint=f"write {self.scheme}://host:port",
            )
        return host, port

    def prepare(self, opened: socket.socket) -> None:
        """Set the socket's options."""
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, int(self.broadcast))

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        calls = {call: _tracing_call(call, command_of) for call, command_of in _CALLS.items()}
        installed: Broker = type("TracingBroker", (DatagramTraceBroker,), calls)(broker, self)
        return installed


@dataclass(frozen=True, kw_only=True)
class MulticastTraceBrokerPlugin(UDPTraceBrokerPlugin):
    """Commands are sent to a multicast group as datagrams, for debugging: messages in the clear.

    Source: ActiveMQ MulticastTraceBrokerPlugin.

    Raises:
        ConfigurationException: the address is invalid, or is not a multicast address.
    """

    scheme: ClassVar[str] = "multicast"

    destination: str = attribute(
        "multicast://224.1.2.3:61616", "The group: multicast://address:port."
    )
    time_to_live: int = count(
        1, "Maximum number of networks that a datagram traverses.", maximum=255
    )

    def __post_init__(self) -> None:
        host, _ = self.address()
        try:
            is_group = ipaddress.IPv4Address(host).is_multicast
        except ValueError:
            is_group = False
        if not is_group:
            raise ConfigurationException(
                f"destination: {host} is no multicast address",
                hint="write an address from 224.0.0.0 to 239.255.255.255",
            )

    def prepare(self, opened: socket.socket) -> None:
        """Set the socket's options."""
        super().prepare(opened)
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self.time_to_live)


class DatagramTraceBroker(BrokerFilter):
    """The base class of the filters; `install_plugin` derives one that sends commands."""

    def __init__(self, next_broker: Broker, plugin: UDPTraceBrokerPlugin) -> None:
        super().__init__(next_broker)
        self._plugin = plugin
        self._socket: socket.socket | None = None
        settings = WireFormatSettings()
        self._format = OpenWireFormat(settings)
        self._format.negotiate(settings.info())
        self._lost = 0
        self._report_at = 0.0

    async def start(self) -> None:
        """Open the socket."""
        await super().start()
        host, port = self._plugin.address()
        try:
            found = await anyio.getaddrinfo(
                host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM
            )
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        except OSError as error:
            raise ConfigurationException(
                f"destination: {self._plugin.destination} cannot be used: {error}"
            ) from error
        opened.setblocking(False)
        self._plugin.prepare(opened)
        self._address = found[0][4]
        self._socket = opened

    async def stop(self) -> None:
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()
        await super().stop()

    def trace(self, command: commands.Command) -> None:
        """Send a command, if the system accepts it at once."""
        if self._socket is None:
            return
        try:
            frame = self._format.encode(command)
            if len(frame) > self._plugin.max_trace_datagram_size:
                raise OSError(f"it has {len(frame)} bytes, see max_trace_datagram_size")
            self._socket.sendto(frame, self._address)
        except (OSError, JMSException) as error:
            self._lost += 1
            if _clock.now() >= self._report_at:
                self._report_at = _clock.now() + _REPORTED
                logger.warning(
                    "%d datagrams were not sent to %s; the last one, %s: %s",
                    self._lost,
                    self._plugin.destination,
                    type(command).__name__,
                    error,
                )
                self._lost = 0


_Traced = Callable[..., commands.Command | None]


def _tracing_call(call: str, command_of: _Traced) -> Callable[..., Any]:
    """Return a method that sends a command and passes the call on."""

    def trace_and_pass_on(self: DatagramTraceBroker, *arguments: Any, **named: Any) -> Any:
        command = command_of(*arguments, *named.values())
        if command is not None:
            self.trace(command)
        return getattr(self.next, call)(*arguments, **named)

    trace_and_pass_on.__name__ = call
    return trace_and_pass_on


def _second(_: object, command: commands.Command, *_others: object) -> commands.Command:
    return command


def _connection(_: object, info: commands.ConnectionInfo) -> commands.Command:
    copy = copy_command(info)
    copy.password = None
    return copy


def _removal(id_name: str) -> _Traced:
    return lambda _, info, *__: commands.RemoveInfo(getattr(info, id_name))


def _transaction(kind: commands.TransactionType) -> _Traced:
    return lambda context, xid, *_: commands.TransactionInfo(context.connection_id, xid, kind)


def _commit(context: Any, xid: Any, one_phase: bool) -> commands.Command:
    kind = (
        commands.TransactionType.COMMIT_ONE_PHASE
        if one_phase
        else commands.TransactionType.COMMIT_TWO_PHASE
    )
    return commands.TransactionInfo(context.connection_id, xid, kind)


_CALLS: Final[dict[str, _Traced]] = {
    **dict.fromkeys(
        (
            *("send", "acknowledge", "message_pull", "process_consumer_control"),
            *("add_session", "add_producer", "add_consumer", "remove_subscription"),
            *("add_destination_info", "remove_destination_info"),
        ),
        _second,
    ),
    "add_connection": _connection,
    "remove_connection": _removal("connection_id"),
    "remove_session": _removal("session_id"),
    "remove_producer": _removal("producer_id"),
    "remove_consumer": _removal("consumer_id"),
    "begin_transaction": _transaction(commands.TransactionType.BEGIN),
    "prepare_transaction": _transaction(commands.TransactionType.PREPARE),
    "commit_transaction": _commit,
    "rollback_transaction": _transaction(commands.TransactionType.ROLLBACK),
    "forget_transaction": _transaction(commands.TransactionType.FORGET),
}
