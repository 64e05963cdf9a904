"""The names of advisory topics. (activemq-broker 11; openwire-encoding 17)"""

from __future__ import annotations

from pyjms.jms.destination import (
    ADVISORY_PREFIX,
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)

MASTER_BROKER = ADVISORY_PREFIX + "MasterBroker"
CONNECTION = ADVISORY_PREFIX + "Connection"
NETWORK_BRIDGE = ADVISORY_PREFIX + "NetworkBridge"
FORWARD_FAILURE = NETWORK_BRIDGE + ".ForwardFailure"
CONSUMER_PREFIX = ADVISORY_PREFIX + "Consumer."
PRODUCER_PREFIX = ADVISORY_PREFIX + "Producer."
VIRTUAL_CONSUMER_PREFIX = ADVISORY_PREFIX + "VirtualDestination.Consumer."
ANONYMOUS_PRODUCER = PRODUCER_PREFIX + "Anonymous"

_KIND: dict[int, str] = {
    Queue.TYPE: "Queue",
    Topic.TYPE: "Topic",
    TemporaryQueue.TYPE: "TempQueue",
    TemporaryTopic.TYPE: "TempTopic",
}
DESTINATION_KINDS: dict[str, int] = {ADVISORY_PREFIX + word: code for code, word in _KIND.items()}
"""The destination types of destination advisories, by topic name."""

_ABOUT_A_DESTINATION = (
    "Consumer", "Producer", "Expired", "NoConsumer", "SlowConsumer", "FastProducer",
    "MessageDiscarded", "MessageDelivered", "MessageConsumed", "MessageDLQd", "FULL",
)  # fmt: skip
_LASTING = ("Expired", "NoConsumer")


def is_advisory_topic(destination: Destination | None) -> bool:
    """Whether `destination`, or a member of the composite, is an advisory topic."""
    if destination is None or not destination.is_topic:
        return False
    if destination.is_composite:
        return any(is_advisory_topic(member) for member in destination.composite_destinations)
    return destination.physical_name.startswith(ADVISORY_PREFIX)


def _lasting_kind(destination: Destination) -> str:
    return "Queue" if destination.is_queue else "Topic"


def _name(destination: Destination) -> str:
    return destination.physical_name.replace(",", "&sbquo;")


def destination_topic(destination: Destination) -> Topic:
    """Return the topic of advisories about the creation and removal of `destination`."""
    return Topic(ADVISORY_PREFIX + _KIND[destination.TYPE])


def consumer_topic(destination: Destination) -> Topic:
    """Return the topic of consumer advisories; temporary ones also use Queue and Topic."""
    return Topic(f"{CONSUMER_PREFIX}{_lasting_kind(destination)}.{_name(destination)}")


def producer_topic(destination: Destination | None) -> Topic:
    """Return the topic of producer advisories; None: for producers without a destination."""
    if destination is None:
        return Topic(ANONYMOUS_PRODUCER)
    return Topic(f"{PRODUCER_PREFIX}{_lasting_kind(destination)}.{_name(destination)}")


def virtual_consumer_topic(destination: Destination) -> Topic:
    """Return the topic of advisories about consumers fed by a virtual destination."""
    kind = _lasting_kind(destination)
    return Topic(f"{VIRTUAL_CONSUMER_PREFIX}{kind}.{_name(destination)}")


def about(event: str, destination: Destination) -> Topic:
    """Return the topic of `event` on `destination` (activemq-broker V-A1).

    Events are for example "SlowConsumer" and "MessageDLQd". Those of temporary destinations use
    TempQueue and TempTopic, except for the two in `_LASTING`.
    """
    kind = _lasting_kind(destination) if event in _LASTING else _KIND[destination.TYPE]
    return Topic(f"{ADVISORY_PREFIX}{event}.{kind}.{_name(destination)}")


def topics_about(destination: Destination) -> list[Topic]:
    """Return all advisory topics that concern only `destination` (activemq-broker D10)."""
    kinds = dict.fromkeys((_lasting_kind(destination), _KIND[destination.TYPE]))
    name = _name(destination)
    return [
        Topic(f"{ADVISORY_PREFIX}{event}.{kind}.{name}")
        for event in _ABOUT_A_DESTINATION
        for kind in kinds
    ]
