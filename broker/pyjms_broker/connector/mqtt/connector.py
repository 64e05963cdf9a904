"""MQTT on a TCP port: `mqtt://host:port?options`, and with TLS: `mqtt+ssl://host:port?options`.

(mqtt-connector M1 to M10)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.transport.options import Options, at_least, boolean, duration, integer, milliseconds
from pyjms.wire.mqtt import MAX_PACKET_SIZE
from pyjms_broker.connector.client_connector import ClientConnector, ClientOptions, ClientProtocol
from pyjms_broker.connector.mqtt.session import MqttSession
from pyjms_broker.connector.mqtt.topics import STRATEGIES


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
MQTT_PROTOCOL: Final = ClientProtocol(
    "mqtt",
    MqttOptions,
    _TRANSPORT,
    _SIZES,
    MqttSession,
    silence="keep-alives end silent connections",
    steals_links=True,
)


class MqttConnector(ClientConnector):
    """Listens for MQTT clients."""

    PROTOCOL = MQTT_PROTOCOL
