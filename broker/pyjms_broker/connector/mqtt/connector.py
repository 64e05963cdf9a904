"""MQTT on a TCP port: `mqtt://host:port?options`, and with TLS: `mqtt+ssl://host:port?options`.

(mqtt-connector M1 to M10)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    at_least,
    boolean,
    duration,
    integer,
    milliseconds,
    read_options,
)
from pyjms.transport.uri import TransportURI
from pyjms.wire.mqtt import MAX_PACKET_SIZE
from pyjms_broker.connector.client_session import ClientConnector, ClientOptions, ClientProtocol
from pyjms_broker.connector.mqtt.session import MqttSession
from pyjms_broker.connector.mqtt.topics import STRATEGIES
from pyjms_broker.connector.tcp import read_protocol_options

_SILENCE = "keep-alives end silent connections"


@dataclass(frozen=True)
class MqttOptions(ClientOptions):
    """Options of MQTT clients."""

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
_TRANSPORT: Options = {
    "activeMQSubscriptionPrefetch": ("prefetch", integer),
    "connectAttemptTimeout": ("connect_attempt_timeout", milliseconds),
    "defaultKeepAlive": ("default_keep_alive", duration),
    "publishDollarTopics": ("publish_dollar_topics", boolean),
    "subscriptionStrategy": ("subscription_strategy", _strategy),
    "useInactivityMonitor": ("use_inactivity_monitor", boolean),
    **_SIZES,
}
_WIRE_FORMAT: Options = _SIZES
_IGNORED_BY_SERVERS = {**IGNORED_BY_SERVERS, "soTimeout": _SILENCE, "socket.soTimeout": _SILENCE}
_IGNORED_OF_ACCEPTED = {**IGNORED_OF_ACCEPTED, "soTimeout": _SILENCE, "socket.soTimeout": _SILENCE}
LINK_STEALING = "allowLinkStealing"


def read_mqtt_options(uri: TransportURI) -> MqttOptions:
    """Return the options of `uri`; `transport.x` is option x of each accepted connection.

    Raises:
        ConfigurationException: an option is unknown or a value cannot be used.
    """
    accepted, server_options, own = read_protocol_options(
        uri, _TRANSPORT, _WIRE_FORMAT, _IGNORED_BY_SERVERS, _IGNORED_OF_ACCEPTED
    )
    server = read_options({LINK_STEALING: "true", **server_options}, SERVER)
    return MqttOptions(
        tcp=accepted,
        server=ServerOptions(**server),
        allow_link_stealing=server["allow_link_stealing"],
        **own,
    )


MQTT_PROTOCOL: Final = ClientProtocol(
    "mqtt", _TRANSPORT, _WIRE_FORMAT, read_mqtt_options, MqttSession
)


class MqttConnector(ClientConnector):
    """Listens for MQTT clients."""

    PROTOCOL = MQTT_PROTOCOL
