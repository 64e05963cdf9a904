"""Advisories: messages of the broker about connections, destinations, clients and messages.

    advisories = session.create_consumer(advisory_topic("MessageDLQd", Queue("orders")))
    match read_advisory(advisories.receive()):
        case MessageAdvisory(destination=destination, message=message):
            print(message.message_id, "of", destination, "is a dead letter")

They are sent on topics `ActiveMQ.Advisory.EVENT`, most of them by destination. The content is an
OpenWire command in the message's data structure, which `read_advisory` turns into an object. What
is there already is told to a new consumer of the topics of connections, destinations, consumers and
producers. (activemq-broker 11)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyjms.client.messages import command_of, from_command
from pyjms.errors import MessageFormatException
from pyjms.jms.destination import ADVISORY_COMMA, ADVISORY_KINDS, ADVISORY_PREFIX, Destination
from pyjms.jms.message import Message
from pyjms.wire.openwire import commands

_NAME: Final = re.compile(
    rf"(?P<event>[A-Za-z.]+?)\.(?P<kind>{'|'.join(ADVISORY_KINDS)})\.(?P<name>.+)", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Advisory:
    """What an advisory tells; the subclasses have more about the common events."""

    event: str
    """The event, as in the name of the topic: `MessageDLQd`, `FULL`, `Connection` ..."""
    destination: Destination | None
    """The destination that it is about; None: there is none."""
    broker_name: str | None
    """The name of the broker that tells it."""
    broker_url: str | None
    """The URL of that broker."""
    properties: Mapping[str, object]
    """All properties of the message, such as `usageName`."""


@dataclass(frozen=True, kw_only=True)
class ConnectionAdvisory(Advisory):
    """A client has connected or disconnected."""

    is_open: bool
    """Whether it has connected."""
    connection_id: str
    client_id: str | None
    """None if it has disconnected, as the following ones."""
    user_name: str | None
    address: str | None
    """The address of the client, as the broker sees it: `tcp://127.0.0.1:4711`."""


@dataclass(frozen=True, kw_only=True)
class DestinationAdvisory(Advisory):
    """A destination has been created or removed."""

    exists: bool
    """Whether it has been created."""


@dataclass(frozen=True, kw_only=True)
class ConsumerAdvisory(Advisory):
    """A consumer has been added or removed, or is slow (event `SlowConsumer`)."""

    exists: bool
    """Whether it is there."""
    consumer_id: str
    count: int | None
    """The number of consumers of the destination now; None: the broker does not tell."""
    selector: str | None = None
    """None if it has no selector or has been removed; the same holds for the following one."""
    subscription_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProducerAdvisory(Advisory):
    """A producer has been added or removed, or is fast (event `FastProducer`)."""

    exists: bool
    """Whether it is there."""
    producer_id: str
    count: int | None
    """The number of producers of the destination now; None: the broker does not tell."""


@dataclass(frozen=True, kw_only=True)
class MessageAdvisory(Advisory):
    """A message has become a dead letter, expired, been discarded, delivered, consumed ..."""

    message: Message
    """The message. Its body is empty unless the broker's policy includes bodies in advisories."""


def read_advisory(message: Message) -> Advisory:
    """Return what an advisory tells. Does not block; of brokers that are not ActiveMQ's kind, too.

    Raises:
        MessageFormatException: the message is not a received advisory.
    """
    command = command_of(message)
    topic = command.destination
    if topic is None or not topic.physical_name.startswith(ADVISORY_PREFIX):
        raise MessageFormatException(
            f"Message {message.message_id} of {topic} is not an advisory",
            hint=f"advisories are messages of topics {ADVISORY_PREFIX}*",
        )
    properties = dict(message.properties)
    name = topic.physical_name.removeprefix(ADVISORY_PREFIX)
    found = _NAME.fullmatch(name)
    destination = None
    if found is not None:
        destination = ADVISORY_KINDS[found["kind"]](found["name"].replace(ADVISORY_COMMA, ","))
    event = name if found is None else found["event"]
    base: dict[str, Any] = {
        "event": event,
        "destination": destination,
        "broker_name": properties.get("originBrokerName"),
        "broker_url": properties.get("originBrokerURL"),
        "properties": properties,
    }
    data = command.data_structure
    if event == "NoConsumer":  # the message itself, sent to the topic
        return MessageAdvisory(**base, message=message)
    read = _READERS.get(type(data))
    if read is not None:
        return read(base, data)
    if isinstance(data, commands.ActiveMQMessage):
        return MessageAdvisory(**base, message=from_command(data))
    return Advisory(**base)


def _of_connection(base: dict[str, Any], info: commands.ConnectionInfo) -> Advisory:
    return ConnectionAdvisory(
        **base,
        is_open=True,
        connection_id=str(info.connection_id),
        client_id=info.client_id,
        user_name=info.user_name,
        address=info.client_ip,
    )


def _of_destination(base: dict[str, Any], info: commands.DestinationInfo) -> Advisory:
    return DestinationAdvisory(
        **{**base, "destination": info.destination}, exists=info.operation_type == 0
    )


def _of_consumer(base: dict[str, Any], info: commands.ConsumerInfo) -> Advisory:
    return ConsumerAdvisory(
        **{**base, "destination": info.destination},
        exists=True,
        consumer_id=str(info.consumer_id),
        count=base["properties"].get("consumerCount"),
        selector=info.selector,
        subscription_name=info.subscription_name,
    )


def _of_producer(base: dict[str, Any], info: commands.ProducerInfo) -> Advisory:
    return ProducerAdvisory(
        **{**base, "destination": info.destination},
        exists=True,
        producer_id=str(info.producer_id),
        count=base["properties"].get("producerCount"),
    )


def _of_removal(base: dict[str, Any], info: commands.RemoveInfo) -> Advisory:
    removed, properties = info.object_id, base["properties"]
    if isinstance(removed, commands.ConnectionId):
        return ConnectionAdvisory(
            **base,
            is_open=False,
            connection_id=str(removed),
            client_id=None,
            user_name=None,
            address=None,
        )
    if isinstance(removed, commands.ConsumerId):
        count = properties.get("consumerCount")
        return ConsumerAdvisory(**base, exists=False, consumer_id=str(removed), count=count)
    if isinstance(removed, commands.ProducerId):
        count = properties.get("producerCount")
        return ProducerAdvisory(**base, exists=False, producer_id=str(removed), count=count)
    return Advisory(**base)


_READERS: Final[dict[type, Callable[[dict[str, Any], Any], Advisory]]] = {
    commands.ConnectionInfo: _of_connection,
    commands.DestinationInfo: _of_destination,
    commands.ConsumerInfo: _of_consumer,
    commands.ProducerInfo: _of_producer,
    commands.RemoveInfo: _of_removal,
}
