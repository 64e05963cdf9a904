"""Clients that receive, in every acknowledge mode, and record the messages they handle."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import anyio

from pyjms.aio import AcknowledgeMode, BytesMessage, Message, Topic
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import JMSException, TransactionRolledBackException
from tests.kit.soak.clients.links import Link
from tests.kit.soak.clients.senders import checksum_of, destination_of
from tests.kit.soak.flows import Reader

__all__ = ["read"]


class Noted(NamedTuple):
    """A message that came."""

    producer: str
    number: int
    since: str
    """When the connection was made that it came over."""


Received = list[Noted]


def note(link: Link, kind: str, reader: Reader, message: Message) -> Noted:
    """Write that a message came, and over which connection."""
    assert isinstance(message, BytesMessage)
    link.links.heard()
    properties = message.properties
    producer, number = str(properties["soak_producer"]), int(str(properties["soak_number"]))
    noted = Noted(producer, number, f"{link.since:.6f}")
    whole = checksum_of(message.get_body(bytes) or b"") == properties["soak_crc"]
    link.log.write(
        kind, reader.endpoint.name, producer, number,
        "again" if message.redelivered else "first", "whole" if whole else "damaged",
        noted.since,
    )  # fmt: skip
    return noted


def settle(link: Link, kind: str, reader: Reader, received: Received) -> None:
    """Record the outcome of received messages."""
    for noted in received:
        link.log.write(kind, reader.endpoint.name, *noted)


async def read(link: Link, reader: Reader, chance: random.Random) -> None:
    """Consume until the process ends."""
    if reader.endpoint.lossy:
        link.endpoint = reader.endpoint.name
        link.log.write("cut", link.endpoint)  # a new connection misses what was before
    mode = {
        "auto": AcknowledgeMode.AUTO,
        "client": AcknowledgeMode.CLIENT,
        "transacted": AcknowledgeMode.TRANSACTED,
    }[reader.mode]
    connection = link.connection
    session = await connection.create_session(mode is AcknowledgeMode.TRANSACTED, mode)
    destination = destination_of(reader.destination)
    if reader.durable:
        assert isinstance(destination, Topic)
        consumer: Any = await session.create_durable_subscriber(destination, reader.endpoint.name)
    else:
        consumer = await session.create_consumer(destination)
    await connection.start()
    link.links.reader_open(link.name)
    if mode is AcknowledgeMode.AUTO:
        await _listen(link, reader, consumer)
    else:
        receive = _receive_in_transactions if reader.mode == "transacted" else _receive_and_ack
        while True:
            await receive(link, reader, session, consumer, chance)


async def _listen(link: Link, reader: Reader, consumer: ActiveMQMessageConsumer) -> None:
    failed = anyio.Event()
    failure: list[JMSException] = []

    def on_exception(error: JMSException) -> None:
        failure.append(error)
        failed.set()

    async def listener(message: Message) -> None:
        note(link, "got", reader, message)

    link.connection.exception_listener = on_exception
    await consumer.set_message_listener(listener)
    await failed.wait()
    raise failure[0]


async def _some(
    link: Link, reader: Reader, consumer: ActiveMQMessageConsumer, chance: random.Random
) -> tuple[Received, list[Message]]:
    """Receive a few messages, up to one that is poisonous."""
    received: Received = []
    messages: list[Message] = []
    for _ in range(chance.randint(1, 8)):
        message = await consumer.receive(0.3)
        if message is None:
            break
        messages.append(message)
        received.append(note(link, "open", reader, message))
        if reader.pause:
            await anyio.sleep(reader.pause)
        if message.properties.get("soak_poison"):
            break
    return received, messages


async def _receive_and_ack(
    link: Link,
    reader: Reader,
    session: ActiveMQSession,
    consumer: ActiveMQMessageConsumer,
    chance: random.Random,
) -> None:
    before = link.interruptions
    received, messages = await _some(link, reader, consumer, chance)
    if not messages:
        return
    if chance.random() < 0.05:
        settle(link, "back", reader, received)
        await session.recover()
        return
    settle(link, "end", reader, received)
    await messages[-1].acknowledge()
    if link.interruptions == before and reader.waits:
        settle(link, "done", reader, received)


async def _receive_in_transactions(
    link: Link,
    reader: Reader,
    session: ActiveMQSession,
    consumer: ActiveMQMessageConsumer,
    chance: random.Random,
) -> None:
    received, messages = await _some(link, reader, consumer, chance)
    if not messages:
        return
    poisonous = bool(messages[-1].properties.get("soak_poison"))
    if poisonous or chance.random() < 0.05:
        settle(link, "back", reader, received)
        await session.rollback()
        return
    settle(link, "end", reader, received)
    try:
        await session.commit()
    except TransactionRolledBackException:
        return
    settle(link, "done", reader, received)
