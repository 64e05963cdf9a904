"""Conversations of raw packets, whose answers are compared between brokers.

A case is a function of an `Opener`; what it returns is compared. It may use any topic, as each case
has its own prefix, and its own client ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio

from pyjms.wire.mqtt import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    ConnAck,
    Connect,
    Filter,
    Packet,
    Publish,
    Subscribe,
    Unsubscribe,
    Will,
)
from tests.kit.mqtt.client import MqttClient

Answer: TypeAlias = list[object]


class Opener:
    """Opens clients for one case, and names its topics and client ids."""

    def __init__(self, port: int, prefix: str) -> None:
        self.port = port
        self.prefix = prefix
        self.clients: list[MqttClient] = []

    async def open(self, level: int = 4) -> MqttClient:
        client = MqttClient(await anyio.connect_tcp("127.0.0.1", self.port), level)
        self.clients.append(client)
        return client

    async def client(
        self, client_id: str = "", *, clean: bool = True, will: Will | None = None, level: int = 4
    ) -> MqttClient:
        client = await self.open(level)
        name = f"{self.prefix}{client_id}" if client_id else ""
        assert (await client.connect(name, clean=clean, will=will)).code == 0
        return client

    def topic(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def shown(self, packet: Packet) -> object:
        """A packet without the case's prefix, and without packet ids, which count differently."""
        if isinstance(packet, Publish):
            topic = packet.topic.removeprefix(f"{self.prefix}/")
            flags = "".join(
                name for name, on in (("r", packet.retain), ("d", packet.duplicate)) if on
            )
            return f"{topic}={packet.payload.decode()} {packet.qos}{flags}"
        return packet

    async def close(self) -> None:
        for client in self.clients:
            await anyio.aclose_forcefully(client.stream)


Case: TypeAlias = Callable[[Opener], Awaitable[Answer]]


async def received(on: Opener, client: MqttClient, count: int) -> Answer:
    """Return the next messages, acknowledged."""
    found: Answer = []
    for _ in range(count):
        message = await client.receive(Publish)
        found.append(on.shown(message))
        await client.acknowledge(message)
    return found


async def ends(client: MqttClient, *packets: Packet | bytes) -> bool:
    """Whether the broker closes the connection after these packets, without an answer."""
    for packet in packets:
        await (client.stream.send(packet) if isinstance(packet, bytes) else client.send(packet))
    with anyio.move_on_after(2):
        return await client.closed()
    return False


async def qos_matrix(on: Opener) -> Answer:
    found: Answer = []
    for granted in range(3):
        subscriber = await on.client()
        found.append(await subscriber.subscribe(on.topic(f"a{granted}"), qos=granted))
        for sent in range(3):
            await subscriber.publish(on.topic(f"a{granted}"), str(sent), sent)
        found += await received(on, subscriber, 3)
    return found


async def filters(on: Opener) -> Answer:
    client = await on.client()
    for text in ("a/#", "+/z", "w/+/x"):
        await client.subscribe(on.topic(text))
    topics = ("a", "a/", "a/x/y", "b", "/z", "q/z", "z", "w//x", "w/y/x", "w/x", "a.b/c")
    for topic in topics:
        await client.publish(on.topic(topic), "x")
    await client.publish(on.topic("a/end"), "x")
    return await received(on, client, 8)


async def wrong_filters(on: Opener) -> Answer:
    texts = ("", "a#", "a/#/b", "#/a", "a+", "+a", "a/+#")
    return [await ends(await on.client(), Subscribe(1, [Filter(text)])) for text in texts]


async def wrong_packets(on: Opener) -> Answer:
    wrong: tuple[Packet | bytes, ...] = (
        b"\xf0\0", b"\x20\2\0\0", b"\x36\5\0\1a\0\1", b"\x30\xff\xff\xff\xff\1",
        b"\x30\4\0\2a+", b"\x30\2\0\0", b"\x80\6\0\1\0\1a\0", b"\xa0\5\0\1\0\1a",
        b"\x82\6\0\1\0\1a\3", Connect("again"),
    )  # fmt: skip
    return [await ends(await on.client(), packet) for packet in wrong]


async def wrong_connects(on: Opener) -> Answer:
    wrong = (b"\xc0\0", b"\x10\x0c\0\4HTTP\4\2\0\0\0\0", b"\x10\x0f\0\4MQTT\4\x42\0\0\0\0\0\1p")
    return [await ends(await on.open(), packet) for packet in wrong]


async def client_ids(on: Opener) -> Answer:
    kept = await on.open()
    return [
        (await (await on.open()).connect("")).code,
        (await kept.connect("", clean=False)).code,
        await kept.closed(),
    ]


async def empty_lists(on: Opener) -> Answer:
    client = await on.client()
    await client.send(Subscribe(3, []), Unsubscribe(4, []), Publish(on.topic("a"), b"", 1))
    return [await client.next() for _ in range(3)]


async def unknown_ids(on: Opener) -> Answer:
    client = await on.client()
    await client.send(Ack(PUBACK, 9), Ack(PUBCOMP, 9), Ack(PUBREC, 9), Ack(PUBREL, 8))
    return [await client.next() for _ in range(2)]


async def retained(on: Opener) -> Answer:
    client = await on.client()
    for number in range(3):
        await client.publish(on.topic(f"r/{number}"), str(number), number, retain=True)
    await client.publish(on.topic("r/1"), "", retain=True)
    found: Answer = []
    for text in ("r/0", "r/2"):
        await client.subscribe(on.topic(text), qos=2)
        found += await received(on, client, 1)
    await client.publish(on.topic("r/0"), "live", 1, retain=True)
    return found + await received(on, client, 1)


async def wills(on: Opener) -> Answer:
    watcher = await on.client()
    await watcher.subscribe(on.topic("w/#"), qos=2)
    for qos in range(3):
        client = await on.client(f"w{qos}", will=Will(on.topic(f"w/{qos}"), b"gone", qos))
        await client.lose()
    clean = await on.client("w3", will=Will(on.topic("w/3"), b"gone"))
    await clean.disconnect()
    found = await received(on, watcher, 3)
    await watcher.nothing_comes()
    return sorted(found, key=str)


async def kept_session(on: Opener) -> Answer:
    client = await on.client("k", clean=False)
    await client.subscribe(on.topic("k/+"), qos=1)
    await client.disconnect()
    sender = await on.client()
    await sender.publish(on.topic("k/1"), "1", 1)
    await sender.publish(on.topic("k/2"), "2", 2)
    client = await on.client("k", clean=False)
    found = await received(on, client, 2)
    await client.unsubscribe(on.topic("k/+"))
    await client.disconnect()
    await sender.publish(on.topic("k/1"), "3", 1)
    client = await on.client("k", clean=False)
    await client.nothing_comes()
    return found


async def again(on: Opener) -> Answer:
    client = await on.client("g", clean=False)
    await client.subscribe(on.topic("g"), qos=1)
    await client.publish(on.topic("g"), "x", 1)
    first = await client.receive(Publish)
    await client.lose()
    client = await on.client("g", clean=False)
    second = await client.receive(Publish)
    await client.acknowledge(second)
    return [on.shown(first), on.shown(second), first.packet_id == second.packet_id]


async def clean_session(on: Opener) -> Answer:
    client = await on.client("c", clean=False)
    await client.subscribe(on.topic("c"), qos=2)
    await client.disconnect()
    await (await on.client("c")).disconnect()
    sender = await on.client()
    await sender.publish(on.topic("c"), "x", 2)
    client = await on.client("c", clean=False)
    await client.nothing_comes()
    return []


async def taken_over(on: Opener) -> Answer:
    first = await on.client("t", clean=False)
    await first.subscribe(on.topic("t"), qos=1)
    second = await on.client("t", clean=False)
    closed = await first.closed()
    await second.publish(on.topic("t"), "x", 1)
    return [closed, *await received(on, second, 1)]


async def another_qos(on: Opener) -> Answer:
    client = await on.client()
    found: Answer = []
    for qos in (0, 2, 1):
        await client.subscribe(on.topic("q"), qos=qos)
        await client.publish(on.topic("q"), "x", 2)
        found += await received(on, client, 1)
    return found


async def overlapping(on: Opener) -> Answer:
    client = await on.client()
    codes = await client.subscribe(on.topic("o/#"), on.topic("o/+"), on.topic("o/a"), qos=1)
    await client.publish(on.topic("o/a"), "x", 1)
    return [codes, *await received(on, client, 3)]


# where this broker departs on purpose
async def session_present(on: Opener) -> Answer:
    client = await on.client("p", clean=False)
    await client.subscribe(on.topic("p"), qos=1)
    await client.disconnect()
    client = await on.open()
    await client.send(Connect(f"{on.prefix}p", clean=False))
    return [await client.receive(ConnAck)]


async def duplicates(on: Opener) -> Answer:
    client = await on.client()
    await client.subscribe(on.topic("d"))
    for _ in range(2):
        await client.send(Publish(on.topic("d"), b"x", 2, packet_id=7))
        assert await client._answer(Ack) == Ack(PUBREC, 7)
    await client.publish(on.topic("d"), "end")
    found: Answer = []
    while not found or found[-1] != "d=end 0":
        found += await received(on, client, 1)
    return found


async def released(on: Opener) -> Answer:
    client = await on.client("e", clean=False)
    await client.subscribe(on.topic("e"), qos=2)
    await client.publish(on.topic("e"), "x", 2)
    message = await client.receive(Publish)
    await client.send(Ack(PUBREC, message.packet_id))
    await client.receive(Ack)
    await client.lose()
    client = await on.client("e", clean=False)
    return [on.shown(await client.next())]


async def will_of_a_taken_over_client(on: Opener) -> Answer:
    watcher = await on.client()
    await watcher.subscribe(on.topic("v"))
    await on.client("v", will=Will(on.topic("v"), b"gone"))
    await on.client("v")
    await watcher.publish(on.topic("v"), "end")
    found: Answer = []
    while not found or found[-1] != "v=end 0":
        found += await received(on, watcher, 1)
    return found


async def flags_of_connect(on: Opener) -> Answer:
    client = await on.open()
    return [await ends(client, b"\x10\x0d\0\4MQTT\4\3\0\0\0\1f")]


async def composites(on: Opener) -> Answer:
    client = await on.client()
    return [await ends(client, Publish(f"{on.topic('x')},{on.topic('y')}", b"x", 1, packet_id=1))]


SAME: Final[dict[str, Case]] = {
    case.__name__: case
    for case in (
        qos_matrix, filters, wrong_filters, wrong_packets, wrong_connects, client_ids, empty_lists,
        unknown_ids, retained, wills, kept_session, again, clean_session, taken_over, another_qos,
        overlapping,
    )
}  # fmt: skip
"""Both brokers answer alike."""
DIFFERENT: Final[dict[str, tuple[Case, str]]] = {
    "session_present": (session_present, "M23"),
    "duplicates": (duplicates, "M62"),
    "released": (released, "M85"),
    "will_of_a_taken_over_client": (will_of_a_taken_over_client, "M41"),
    "flags_of_connect": (flags_of_connect, "M26"),
    "composites": (composites, "M52"),
}
"""They differ, and the fact that says why."""
