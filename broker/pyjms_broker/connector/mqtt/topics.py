"""The names of MQTT topics in the broker, and the destinations that subscriptions become.

The characters are exchanged in pairs, so that every name comes back: `/` and `.`, `+` and `*`, `#`
and `>`. There are two strategies, by the option `transport.subscriptionStrategy`:

    strategy                            a kept subscription of QoS 1 or 2       any other
    mqtt-default-subscriptions          durable, named `<QoS>:<filter>`         topic
    mqtt-virtual-topic-subscriptions    queue of a virtual topic                virtual topic

(mqtt-connector M50 to M55, M90 to M93, M100 to M106)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.runtime.logging import get_logger
from pyjms.wire.mqtt import check_filter
from pyjms.wire.openwire.commands import RemoveSubscriptionInfo

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost

logger = get_logger(__name__)

_EXCHANGED: Final = str.maketrans("/.+*#>", "./*+>#")
_UNUSABLE: Final = (",", "?")
"""They would make a composite destination, or options."""
_ESCAPED: Final = str.maketrans({each: f"%{ord(each):02X}" for each in "%.,?"})
"""In client ids within the names of queues, which have to be one path element."""
QOS_NAMES: Final = {1: "AT_LEAST_ONCE", 2: "EXACTLY_ONCE"}
_QOS: Final = {name: qos for qos, name in QOS_NAMES.items()}
_VIRTUAL: Final = "VirtualTopic."
_LONGEST_CACHED: Final = 1000
_PREFETCH: Final = {"topic": 32767, "durable": 100, "queue": 1000}
"""ActiveMQ's defaults for MQTT. (mqtt-connector M91)"""


def exchange(name: str) -> str:
    """Return the broker's name for an MQTT topic or filter, or the other way round."""
    return name.translate(_EXCHANGED)


def unusable(text: str) -> str | None:
    """Return why a topic or filter cannot be a destination, or None."""
    if any(character in text for character in _UNUSABLE):
        return f"the topic {text[:200]!r} contains a comma or a question mark"
    if not text.strip():
        return "a topic has only spaces"
    return None


class Place(NamedTuple):
    """The consumer that a subscription becomes."""

    destination: Destination
    subscription_name: str | None
    prefetch: int


class KeptFilter(NamedTuple):
    """A subscription of an absent client that the broker has kept."""

    text: str
    qos: int
    no_local: bool = False


class DefaultSubscriptions:
    """Topics, and durable subscriptions to them."""

    prefix = ""
    shares = False
    """Whether there are shared subscriptions."""

    def topic(self, text: str) -> Topic:
        """Return the destination of messages to a topic."""
        if len(text) > _LONGEST_CACHED:
            return Topic(self._name(text))
        return _cached_topic(self, text)

    def _name(self, text: str) -> str:
        name = exchange(text)
        return name if name.startswith(self.prefix) else self.prefix + name

    def text(self, destination: Destination) -> str:
        """Return the MQTT topic of a message from a destination."""
        return exchange(destination.physical_name.removeprefix(self.prefix))

    def place(self, client_id: str, text: str, qos: int, *, kept: bool) -> Place:
        """Return the consumer for a filter."""
        if kept and qos:
            return self._kept_place(client_id, text, QOS_NAMES[qos])
        return Place(Topic(self._name(text)), None, _PREFETCH["topic"])

    def _kept_place(self, client_id: str, text: str, qos: str) -> Place:
        return Place(Topic(self._name(text)), f"{qos}:{text}", _PREFETCH["durable"])

    def kept_filters(self, host: BrokerHost, client_id: str) -> Iterator[KeptFilter]:
        """Yield the subscriptions that the broker has kept for a client."""
        for subscription in host.region_broker.subscriptions.of_client(client_id):
            qos, _, text = subscription.key.subscription_name.partition(":")
            if (
                qos in _QOS
                and check_filter(text) is None
                and self._kept_place(client_id, text, qos).destination == subscription.requested
            ):
                yield KeptFilter(text, _QOS[qos], subscription.info.no_local)


class VirtualTopicSubscriptions(DefaultSubscriptions):
    """Virtual topics, and queues of consumers of them."""

    prefix = _VIRTUAL
    shares = True

    def place(self, client_id: str, text: str, qos: int, *, kept: bool) -> Place:
        shared = shared_filter(text)
        if shared is None:
            return super().place(client_id, text, qos, kept=kept)
        group = exchange(shared.group).translate(_ESCAPED).replace(":", "%3A")
        name = f"Consumer.{group}.{self._name(shared.text)}"
        return Place(Queue(name), None, _PREFETCH["queue"])

    def _kept_place(self, client_id: str, text: str, qos: str) -> Place:
        name = self._name(text)
        if name == exchange(text):  # it names the virtual topic itself (mqtt-connector M102)
            return super()._kept_place(client_id, text, qos)
        return Place(Queue(f"{_queue_prefix(client_id)}{qos}.{name}"), None, _PREFETCH["queue"])

    def text(self, destination: Destination) -> str:
        _, mark, name = destination.physical_name.partition(_VIRTUAL)
        return exchange(name if mark else destination.physical_name)

    def kept_filters(self, host: BrokerHost, client_id: str) -> Iterator[KeptFilter]:
        yield from super().kept_filters(host, client_id)
        prefix = _queue_prefix(client_id)
        for qos in _QOS:
            start = f"{prefix}{qos}.{_VIRTUAL}"
            for queue in host.region_broker.queues_of_consumer(start.split(".")[1]):
                if queue.physical_name.startswith(start) and queue.physical_name != start:
                    yield KeptFilter(exchange(queue.physical_name[len(start) :]), _QOS[qos])


def _queue_prefix(client_id: str) -> str:
    """Return the beginning of the names of a client's queues, whose id is one path element."""
    return f"Consumer.{exchange(client_id).translate(_ESCAPED)}:"


def delete_kept(host: BrokerHost, client_id: str) -> None:
    """Delete the subscriptions of an absent client whose session has expired."""
    region = host.region_broker
    for strategy in STRATEGIES.values():
        for kept in list(strategy.kept_filters(host, client_id)):
            place = strategy.place(client_id, kept.text, kept.qos, kept=True)
            try:
                if place.subscription_name is None:
                    region.root.remove_destination(region.context, place.destination, 0.0)
                else:
                    info = RemoveSubscriptionInfo(None, place.subscription_name, client_id)
                    region.subscriptions.unsubscribe(region.context, info)
            except JMSException as error:  # such as a queue that another client uses
                name = f"{client_id[:100]} to {kept.text[:200]}"
                logger.warning("The expired subscription of %s is kept: %s", name, error)


STRATEGIES: Final = {
    "mqtt-default-subscriptions": DefaultSubscriptions(),
    "mqtt-virtual-topic-subscriptions": VirtualTopicSubscriptions(),
}


@lru_cache(maxsize=1024)
def _cached_topic(strategy: DefaultSubscriptions, text: str) -> Topic:
    return Topic(strategy._name(text))  # noqa: SLF001 - the rest of `topic`


class SharedFilter(NamedTuple):
    """The filter `$share/group/text`, whose subscribers get each message once among them."""

    group: str
    text: str


def shared_filter(text: str) -> SharedFilter | None:
    """Return the parts of the filter of a shared subscription, or None. (mqtt-connector M144)"""
    share, _, rest = text.partition("/")
    group, slash, name = rest.partition("/")
    return SharedFilter(group, name) if share == "$share" and group and slash else None


def begins_wild(text: str) -> bool:
    """Return whether the first level of a filter is a wildcard."""
    return text.startswith(("+", "#"))


def is_hidden(destination: Destination) -> bool:
    """Return whether a wildcard of the first level does not stand for a topic's name."""
    return destination.physical_name.startswith((ADVISORY_PREFIX, "$"))
