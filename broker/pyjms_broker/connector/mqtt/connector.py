"""MQTT on a TCP port: `mqtt://host:port?options`, and with TLS: `mqtt+ssl://host:port?options`.

(mqtt-connector M1 to M10)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio.abc import ByteStream, SocketStream

from pyjms.runtime.ids import IdGenerator
from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    TcpOptions,
    at_least,
    boolean,
    duration,
    integer,
    milliseconds,
    read_options,
)
from pyjms.transport.tcp import accepted_tcp
from pyjms.transport.uri import TransportURI
from pyjms.wire.limits import UnfinishedFrame
from pyjms.wire.mqtt import MAX_PACKET_SIZE, MqttFormat
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.mqtt.session import MqttSession
from pyjms_broker.connector.mqtt.topics import STRATEGIES
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.tcp import ProtocolConnector, read_protocol_options

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

_SILENCE = "keep-alives end silent connections"


@dataclass(frozen=True)
class MqttOptions:
    """Options of MQTT clients; times are in seconds, None: no limit."""

    tcp: TcpOptions = field(default_factory=TcpOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    connect_attempt_timeout: float | None = 30.0
    """The maximum wait for a client's CONNECT."""
    default_keep_alive: float = 0.0
    """The keep-alive of clients that have none; 0: none."""
    max_frame_size: int = MAX_PACKET_SIZE
    prefetch: int = -1
    """Of all subscriptions; 0 or less: by their kind."""
    publish_dollar_topics: bool = False
    """Whether messages to topics that begin with `$` are published."""
    subscription_strategy: str = "mqtt-default-subscriptions"
    use_inactivity_monitor: bool = True
    allow_link_stealing: bool = True
    """Whether a client takes over the session of another connection with its id."""


def _strategy(text: str) -> str:
    if text not in STRATEGIES:
        raise ValueError(f"write {' or '.join(STRATEGIES)}")
    return text


_SIZES: Options = {
    "maxFrameSize": ("max_frame_size", at_least(1, "write a number of bytes from 1"))
}
MQTT_TRANSPORT: Options = {
    "activeMQSubscriptionPrefetch": ("prefetch", integer),
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "defaultKeepAlive": ("default_keep_alive", duration),
    "publishDollarTopics": ("publish_dollar_topics", boolean),
    "subscriptionStrategy": ("subscription_strategy", _strategy),
    "useInactivityMonitor": ("use_inactivity_monitor", boolean),
    **_SIZES,
}
MQTT_WIRE_FORMAT: Options = _SIZES
_IGNORED_BY_SERVERS = {**IGNORED_BY_SERVERS, "soTimeout": _SILENCE, "socket.soTimeout": _SILENCE}
_IGNORED_OF_ACCEPTED = {**IGNORED_OF_ACCEPTED, "soTimeout": _SILENCE, "socket.soTimeout": _SILENCE}
LINK_STEALING = "allowLinkStealing"


def read_mqtt_options(uri: TransportURI) -> MqttOptions:
    """Return the options of `uri`; `transport.x` is option x of each accepted connection.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be used.
    """
    accepted, server_options, own = read_protocol_options(
        uri, MQTT_TRANSPORT, MQTT_WIRE_FORMAT, _IGNORED_BY_SERVERS, _IGNORED_OF_ACCEPTED
    )
    server = read_options({LINK_STEALING: "true", **server_options}, SERVER)
    return MqttOptions(
        tcp=accepted,
        server=ServerOptions(**server),
        allow_link_stealing=server["allow_link_stealing"],
        **own,
    )


def accepted_mqtt(
    stream: ByteStream,
    options: MqttOptions,
    host: BrokerHost,
    connection_id: str,
    *,
    scheme: str,
    tls: TlsContext | None = None,
    layered: UnfinishedFrame | None = None,
) -> MqttSession:
    """Return the transport of a client, over TCP, TLS or WebSocket, not started.

    `connection_id` is the id of its JMS connection. `layered` counts the frames of a layer of
    `stream`, such as WebSocket.
    """
    unfinished = UnfinishedFrame(host.frame_budget)
    wire_format = MqttFormat(options.max_frame_size, unfinished)
    tcp = accepted_tcp(
        stream,
        wire_format,
        options.tcp,
        scheme=scheme,
        timeout=options.connect_attempt_timeout,
        unfinished=unfinished,
        tls=tls,
        layered=layered,
        discard=wire_format.discard,
        unsent_budget=host.unsent_budget,
    )
    return MqttSession(tcp, wire_format, options, host, connection_id)


class MqttConnector(ProtocolConnector):
    """Listens for MQTT clients."""

    serves_openwire = False

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of `uri`, including those of TLS if its scheme ends in `+ssl`.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        super().__init__(host, uri, name)
        self._options = read_mqtt_options(self.uri)
        self._apply(self._options.server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        """`mqtt` or `mqtt+ssl`, even if the connector was configured with `nio`."""
        return "mqtt" if self._tls is None else "mqtt+ssl"

    def serve(self, stream: SocketStream) -> None:
        """Wait for a client's CONNECT in the background."""
        transport = accepted_mqtt(
            stream,
            self._options,
            self.host,
            self._ids.generate(),
            scheme=self.client_scheme,
            tls=self._tls,
        )
        serve(self, transport)
