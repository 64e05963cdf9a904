"""Conversations of raw frames, whose answers are compared between brokers.

A case is a function of an `Opener`; what it returns is compared. Each has its own prefix for queues,
topics and container-ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from uuid import UUID

import anyio

from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.format import Frame, ProtocolHeader
from pyjms.wire.amqp.message import DATA, NO_BODY, SEQUENCE, VALUE, Message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    SENDER,
    Attach,
    Close,
    Declare,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Properties,
    Rejected,
    Source,
    State,
    Target,
    TransactionalState,
)
from pyjms.wire.amqp.values import Described, Symbol, Timestamp, UByte, UInt, ULong, UShort
from tests.kit.amqp.client import SETTLED, AmqpClient, Receiver, text

Answer: TypeAlias = list[object]
SELECTOR: Final = Symbol("apache.org:selector-filter:string")
NO_LOCAL: Final = Symbol("apache.org:no-local-filter:list")


class Opener:
    """Opens clients for one case, and names its nodes and container-ids."""

    def __init__(self, port: int, prefix: str) -> None:
        self.port = port
        self.prefix = prefix
        self.clients: list[AmqpClient] = []

    async def connect(self) -> AmqpClient:
        client = AmqpClient(await anyio.connect_tcp("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def client(self, name: str = "c") -> AmqpClient:
        client = await self.connect()
        assert await client.log_in() == 0
        await client.open(f"{self.prefix}{name}")
        await client.begin()
        return client

    def queue(self, name: str = "q") -> str:
        return f"queue://{self.prefix}.{name}"

    def topic(self, name: str = "t") -> str:
        return f"topic://{self.prefix}.{name}"

    def shown(self, value: Any) -> Any:
        """A text without the case's prefix."""
        return value.replace(self.prefix, "") if isinstance(value, str) else value

    async def left(self, address: str) -> list[tuple[object, int]]:
        """The messages of a queue, with their counts."""
        client = await self.client("looks")
        receiver = await client.receiver(address)
        found = [(each.body, each.count) for each in await receiver.drained()]
        await client.close()
        return found

    async def close(self) -> None:
        for client in self.clients:
            await anyio.aclose_forcefully(client.stream)


Case: TypeAlias = Callable[[Opener], Awaitable[Answer]]


def error_of(error: Error | None, on: Opener) -> object:
    return None if error is None else (error.condition, on.shown(error.description))


async def first_bytes(on: Opener) -> Answer:
    found: Answer = []
    for data in (b"AMQP\0\1\0\0", b"AMQP\2\1\0\0", b"AMQP\3\1\1\0", b"GET / HT"):
        client = await on.connect()
        await client.stream.send(data)
        for item in await client.closed():
            if isinstance(item, ProtocolHeader):
                found.append(item.id)
            elif isinstance(item, Frame):
                body = item.body
                found.append(
                    error_of(body.error, on) if isinstance(body, Close) else type(body).__name__
                )
    return found


async def logins(on: Opener) -> Answer:
    found: Answer = []
    for mechanism, response in (
        ("PLAIN", b"\0a\0b"), ("plain", b"a\0b"), ("PLAIN", b""),
        ("ANONYMOUS", None), ("anonymous", b"x"), ("SCRAM-SHA-1", None),
    ):  # fmt: skip
        found.append(await (await on.connect()).log_in(mechanism, response))
    return found


async def opened(on: Opener) -> Answer:
    client = await on.connect()
    await client.log_in()
    answer = await client.open(f"{on.prefix}c")
    begin = await client.begin()
    properties = answer.properties or {}
    return [
        answer.max_frame_size, answer.channel_max, answer.idle_time_out, answer.hostname,
        answer.offered_capabilities, properties["product"], properties["queue-prefix"],
        properties["topic-prefix"], begin.remote_channel, begin.next_outgoing_id,
        begin.incoming_window, begin.outgoing_window, begin.handle_max,
    ]  # fmt: skip


async def refused_opens(on: Opener) -> Answer:
    await on.client("c")
    found: Answer = []
    for name in ("", f"{on.prefix}c"):
        client = await on.connect()
        await client.log_in()
        answer = await client.open(name)
        found += [answer.container_id, answer.properties]
        close = await client.receive(Close)
        assert close.error is not None
        found += [close.error.condition, close.error.info]
        found.append((close.error.description or "").partition(" from ")[0].replace(on.prefix, ""))
    return found


async def links(on: Opener) -> Answer:
    client = await on.client()
    found: Answer = []
    attaches = [
        Attach("a", 1, SENDER, 0, target=Target(on.queue(), capabilities=["topic"])),
        Attach("b", 2, SENDER, 2, 1, target=Target(None)),
        Attach("c", 3, SENDER, 1, target=Target("temp-queue://x")),
        Attach("d", 4, RECEIVER, 0, 1, source=Source(on.queue(), capabilities=["a"])),
        Attach("e", 5, RECEIVER, 0, source=Source(None)),
        Attach("f", 6, RECEIVER, 0, source=Source("temp-topic://x")),
        Attach("g", 7, RECEIVER, 1, source=Source(on.topic(), dynamic=False)),
    ]
    for attach in attaches:
        if attach.role is SENDER:
            attach.source, attach.initial_delivery_count = Source(), 0
            attach.desired_capabilities = ["DELAYED_DELIVERY", "x"]
        else:
            attach.target = Target()
        answer = await client.attach(attach)
        found.append((answer.name, answer.snd_settle_mode, answer.rcv_settle_mode))
        found.append(answer.offered_capabilities)
        found.append(answer.source is None if attach.role else answer.target is None)
        if (answer.source if attach.role else answer.target) is None:
            found.append(error_of((await client.receive(Detach)).error, on))
        elif attach.role is SENDER:
            found.append((await client.receive(Flow)).link_credit)
    return found


async def outcomes(on: Opener) -> Answer:
    found: Answer = []
    states: tuple[State, ...] = (ACCEPTED, Rejected(), Modified(undeliverable_here=True))
    for number, state in enumerate(states):
        client = await on.client(str(number))
        queue = on.queue(str(number))
        await (await client.sender(queue)).texts("1", "2", header=Header(durable=True))
        receiver = await client.receiver(queue, credit=1)
        await client.settle(await receiver.next(), state=state)
        await receiver.detach()
        found += await on.left(queue)
    return found


async def returned(on: Opener) -> Answer:
    found: Answer = []
    states: tuple[State, ...] = (RELEASED, Modified(delivery_failed=True), Modified())
    for number, state in enumerate(states):
        client = await on.client(str(number))
        queue = on.queue(str(number))
        await (await client.sender(queue)).texts("1")
        receiver = await client.receiver(queue, credit=1)
        for _ in range(3):
            message = await receiver.next()
            found.append((message.body, message.count))
            await client.settle(message, state=state)
            await receiver.flow(1)
        message = await receiver.next()
        found.append((message.body, message.count))
    return found


async def unsettled_accepts(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1")
    receiver = await client.receiver(on.queue(), credit=1)
    await client.settle(await receiver.next(), settled=False)
    answer = await client.receive(Disposition)
    return [answer.role, answer.settled, answer.state]


async def settled_modes(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    await sender.transfer(text("0"), settled=True)
    await sender.texts("1")
    receiver = await client.receiver(on.queue(), credit=5, mode=SETTLED)
    found: Answer = [
        (each.body, each.transfer.settled, each.transfer.delivery_tag)
        for each in await receiver.messages(2)
    ]
    await receiver.detach()
    return [*found, *await on.left(on.queue())]


async def credit_and_drain(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    await sender.texts(*"12345")
    receiver = await client.receiver(on.queue(), credit=2)
    found: Answer = [each.body for each in await receiver.messages(2)]
    found.append([each.body for each in await receiver.drained(10)])
    found.append(receiver.count)
    await receiver.flow(0)
    found.append([each.body for each in await receiver.drained(3)])
    return found


async def closed_links(on: Opener) -> Answer:
    found: Answer = []
    for closed in (True, False):
        client = await on.client(str(closed))
        queue = on.queue(str(closed))
        await (await client.sender(queue)).texts("1", "2")
        receiver = await client.receiver(queue, credit=1)
        await receiver.next()
        found.append((await receiver.detach(closed=closed)).closed)
        found += await on.left(queue)
    return found


async def selectors(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    found: Answer = []
    for descriptor in (SELECTOR, ULong(0x0000468C00000004)):
        given = {
            Symbol("mine"): Described(descriptor, "color = 'red'"),
            Symbol("other"): Described(Symbol("x"), "y"),
        }
        receiver = await client.receiver(on.queue(), filter=given)
        found.append(receiver.answer.source and receiver.answer.source.filter)
        await sender.texts("1", application_properties={"color": "blue"})
        await sender.texts("2", application_properties={"color": "red"})
        found.append([each.body for each in await receiver.drained()])
        await receiver.detach()
    bad = await client.receiver(on.queue(), filter={SELECTOR: Described(SELECTOR, "not a one")})
    found.append(bad.answer.source)
    return [*found, error_of((await client.receive(Detach)).error, on)]


async def browsing(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1", "2")
    browser = await client.receiver(on.queue(), distribution_mode="copy")
    found: Answer = [each.body for each in await browser.drained()]
    await browser.detach()
    return [*found, *await on.left(on.queue())]


async def anonymous(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(None)
    found: Answer = []
    for to in (on.queue(), f"{on.prefix}.q", on.topic()):
        found.append(await sender.send(text(to, properties=Properties(to=to))))
    return [*found, *(on.shown(body) for body, _ in await on.left(on.queue()))]


async def dynamic(on: Opener) -> Answer:
    client = await on.client()
    found: Answer = []
    for capability in (None, "topic", "temporary-topic"):
        capabilities = None if capability is None else [capability]
        receiver = await client.receiver(None, dynamic=True, capabilities=capabilities, credit=1)
        source = receiver.answer.source
        assert source is not None
        found += [(source.address or "").split(":")[0], source.capabilities, source.dynamic]
        found.append(source.dynamic_node_properties)
        sender = await client.sender(source.address)
        found.append(await sender.send(text("1")))
        found.append((await receiver.next()).body)
        await receiver.detach()
        state = await sender.send(text("2"))
        assert isinstance(state, Rejected)
        found.append(state.error and state.error.condition)
    return found


async def durables(on: Opener) -> Answer:
    client = await on.client()
    receiver = await client.receiver(on.topic(), name="sub", durable=2)
    found: Answer = [(await receiver.detach(closed=False)).closed]
    sender = await client.sender(on.topic())
    await sender.texts("1")
    receiver = await client.receiver(on.topic(), name="sub", durable=1, credit=5)
    found += await receiver.bodies(1)
    found.append((await receiver.detach(closed=True)).closed)
    await sender.texts("2")
    receiver = await client.receiver(on.topic(), name="sub", durable=1)
    found.append(len(await receiver.drained()))
    await receiver.detach(closed=False)
    await sender.texts("3")
    answer = await client.attach(Attach("sub", 40, RECEIVER, target=Target()))
    source = answer.source
    assert source is not None
    found += [on.shown(source.address), source.durable, source.expiry_policy]
    found += [source.distribution_mode, source.filter]
    resumed = Receiver(client, 40, answer)
    await resumed.flow(5)
    found += await resumed.bodies(1)
    found.append((await resumed.detach()).closed)
    answer = await client.attach(Attach("sub", 41, RECEIVER, target=Target()))
    return [*found, answer.source, error_of((await client.receive(Detach)).error, on)]


async def transactions(on: Opener) -> Answer:
    client = await on.client()
    coordinator = await client.coordinator()
    sender = await client.sender(on.queue())
    found: Answer = [coordinator.link.credit]
    for fail in (False, True):
        txn_id = await coordinator.declare()
        found.append(txn_id)
        found.append(await sender.send(text("1"), state=TransactionalState(txn_id)))
        found.append(await coordinator.discharge(txn_id, fail=fail))
        found += await on.left(on.queue())
    await sender.texts("2", "3")
    receiver = await client.receiver(on.queue(), credit=2)
    messages = await receiver.messages(2)
    txn_id = await coordinator.declare()
    await client.settle(messages[0], state=TransactionalState(txn_id, ACCEPTED), settled=False)
    answer = await client.receive(Disposition)
    found += [answer.settled, answer.state]
    await client.settle(messages[1], state=TransactionalState(txn_id, ACCEPTED))
    found.append(await coordinator.discharge(txn_id, fail=True))
    await receiver.flow(1)
    again = await receiver.next()
    found.append((again.body, again.count))
    state = await coordinator.discharge(bytes(7) + b"\x63")
    assert isinstance(state, Rejected)
    assert state.error is not None
    return [*found, state.error.condition]


async def wrong_requests(on: Opener) -> Answer:
    found: Answer = []
    for number, body in enumerate((Declare(b"x"), "text")):
        client = await on.client(str(number))
        coordinator = await client.coordinator()
        await coordinator.link.transfer(text(body))
        found.append(error_of((await client.receive(Close)).error, on))
    return found


UUID_VALUE: Final = UUID("12345678-1234-5678-1234-567812345678")
BODIES: Final[tuple[Message, ...]] = (
    Message(VALUE, "x"),
    Message(VALUE, None),
    Message(VALUE, b"x"),
    Message(VALUE, {"a": 1, "b": [True], "c": {"d": 1}, "e": b"x"}),
    Message(VALUE, [1, "x", True, Long(5)]),
    Message(VALUE, 5),
    Message(VALUE, UUID_VALUE),
    Message(SEQUENCE, [[1, "x"]]),
    Message(DATA, [b"x"]),
    *(
        Message(kind, body, properties=Properties(content_type=content_type))
        for kind, body in ((DATA, [b"x"]), (NO_BODY, None), (DATA, [b"\xff"]))
        for content_type in (
            *("text/plain", "text/plain;charset=utf-8", "text/plain;charset=latin-1"),
            *("application/json", "application/a+xml", "application/octet-stream"),
            *("application/x-java-serialized-object", "image/png", "nonsense"),
        )
    ),
)


def sections(message: Message) -> object:
    """All of a message but what differs from time to time."""
    properties = message.properties
    header = message.header
    if header is not None:
        header.ttl = header.ttl and 1
    return [
        header, message.message_annotations, message.delivery_annotations,
        message.application_properties, message.footer, message.body_kind, message.body,
        properties and (
            properties.correlation_id, properties.subject, properties.user_id, properties.group_id,
            properties.group_sequence, properties.content_type, properties.content_encoding,
            properties.reply_to_group_id, bool(properties.creation_time),
        ),
    ]  # fmt: skip


async def echo(on: Opener, *messages: Message) -> Answer:
    """What a consumer gets of these messages."""
    client = await on.client()
    sender = await client.sender(on.queue())
    receiver = await client.receiver(on.queue())
    found: Answer = []
    for message in messages:
        assert await sender.send(message) == ACCEPTED
        await receiver.flow(1)
        with anyio.move_on_after(3) as waiting:
            found.append(sections((await receiver.next()).message))
        if waiting.cancelled_caught:
            found.append("nothing")
            await receiver.flow(0)
    return found


async def bodies(on: Opener) -> Answer:
    return await echo(on, *BODIES)


async def headers(on: Opener) -> Answer:
    return await echo(
        on,
        Message(VALUE, "x", header=Header()),
        Message(VALUE, "x", header=Header(True, 7, 100_000, first_acquirer=True)),
        Message(VALUE, "x", header=Header(delivery_count=3)),
        Message(
            VALUE, "x", delivery_annotations={Symbol("d"): 1}, footer={Symbol("f"): 2},
            message_annotations={Symbol("m"): 3, Symbol("x-opt-jms-msg-type"): Byte(5)},
        ),
        Message(
            VALUE, "x",
            properties=Properties(
                user_id=b"ann", subject="kind", correlation_id=UUID_VALUE, content_type="text/plain",
                content_encoding="gzip", group_id="g", group_sequence=UInt(5), reply_to_group_id="h",
                creation_time=Timestamp(123),
            ),
        ),
    )  # fmt: skip


async def ids(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    given = ("x", "ID:x", "AMQP_UUID:x", "AMQP_ULONG:x", UUID_VALUE, ULong(7), b"\xab\1")
    for value in given:
        properties = Properties(message_id=value, correlation_id=value)
        assert await sender.send(text("x", properties=properties)) == ACCEPTED
    receiver = await client.receiver(on.queue(), credit=20)
    found: Answer = []
    for each in await receiver.messages(len(given)):
        properties_of = each.message.properties
        assert properties_of is not None
        found.append((properties_of.message_id, properties_of.correlation_id))
    return found


async def properties(on: Opener) -> Answer:
    values = {
        "text": "x", "true": True, "byte": Byte(1), "short": Short(1), "int": 1, "long": Long(1),
        "float": Float(0.5), "double": 0.1, "char": Char("c"), "null": None,
        "ubyte": UByte(200), "ushort": UShort(40000), "uint": UInt(3_000_000_000),
        "ulong": ULong(2**63 + 5), "symbol": Symbol("s"), "binary": b"\1\2ab",
    }  # fmt: skip
    client = await on.client()
    sender = await client.sender(on.queue())
    assert await sender.send(text("x", application_properties=values)) == ACCEPTED
    receiver = await client.receiver(on.queue(), credit=1)
    found = (await receiver.next()).message.application_properties or {}
    return [(name, type(value).__name__, value) for name, value in sorted(found.items())]


async def damaged_frames(on: Opener) -> Answer:
    found: Answer = []
    for number, data in enumerate((b"\0\0\0\0\2\0\0\0", b"\0\0\0\x0c\2\0\0\0\0\x53\x10\xff")):
        client = await on.client(str(number))
        await client.stream.send(data)
        close = await client.receive(Close)
        found.append(close.error and close.error.condition)
    return found


async def ended_sessions(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1")
    receiver = await client.receiver(on.queue(), credit=1)
    await receiver.next()
    await client.send(End())
    await client.receive(End)
    return [*await on.left(on.queue())]


# where they differ
async def sender_detach(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    await client.send(Detach(sender.handle, closed=False))
    with anyio.move_on_after(1):
        return [(await client.receive(Detach)).closed]
    return ["no answer"]


async def resumed_selector(on: Opener) -> Answer:
    client = await on.client()
    given = {SELECTOR: Described(SELECTOR, "color = 'red'")}
    receiver = await client.receiver(on.topic(), name="sub", durable=2, filter=given)
    await receiver.detach(closed=False)
    sender = await client.sender(on.topic())
    await sender.texts("1", application_properties={"color": "red"})
    answer = await client.attach(Attach("sub", 40, RECEIVER, target=Target()))
    return [each.body for each in await Receiver(client, 40, answer).drained()]


async def two_transactions(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1", "2")
    coordinator = await client.coordinator()
    receiver = await client.receiver(on.queue(), credit=2)
    messages = await receiver.messages(2)
    one, two = await coordinator.declare(), await coordinator.declare()
    for message, txn_id in zip(messages, (one, two), strict=True):
        await client.settle(message, state=TransactionalState(txn_id, ACCEPTED))
    await coordinator.discharge(one)
    await coordinator.discharge(two, fail=True)
    await receiver.detach()
    return [body for body, _ in await on.left(on.queue())]


async def settled_without_outcome(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1")
    receiver = await client.receiver(on.queue(), credit=1)
    await client.settle(await receiver.next(), state=None)
    await receiver.flow(1)
    with anyio.move_on_after(1):
        return [(await receiver.next()).body]
    return ["nothing"]


async def released_to_others(on: Opener) -> Answer:
    client = await on.client()
    await (await client.sender(on.queue())).texts("1")
    receiver = await client.receiver(on.queue(), credit=1)
    message = await receiver.next()
    other = await (await on.client("other")).receiver(on.queue(), credit=1)
    await client.settle(message, state=RELEASED)
    with anyio.move_on_after(1):
        return [(await other.next()).body]
    return ["nothing"]


async def uuid_properties(on: Opener) -> Answer:
    given = {"a": UUID_VALUE, "b": Timestamp(5)}
    return await echo(on, Message(VALUE, "x", application_properties=given))


async def several_data_sections(on: Opener) -> Answer:
    return await echo(on, Message(DATA, [b"a", b"b"]))


async def streams_with_bytes(on: Opener) -> Answer:
    client = await on.client()
    sender = await client.sender(on.queue())
    await sender.send(Message(VALUE, [b"x", None], application_properties={"a": 1}))
    receiver = await client.receiver(on.queue(), credit=1)
    properties = (await receiver.next()).message.properties
    return [properties is not None and properties.to is not None]


async def failed_login(on: Opener) -> Answer:
    client = await on.connect()
    assert await client.log_in("X") == 3
    with anyio.move_on_after(1):
        await client.closed()
        return ["closed"]
    return ["open"]


SAME: Final[dict[str, Case]] = {
    case.__name__: case
    for case in (
        first_bytes, logins, opened, refused_opens, links, outcomes, returned, unsettled_accepts,
        settled_modes, credit_and_drain, closed_links, selectors, browsing, anonymous, dynamic,
        durables, transactions, wrong_requests, bodies, headers, ids, properties, damaged_frames,
        ended_sessions,
    )
}  # fmt: skip
"""Both brokers answer alike."""
DIFFERENT: Final[dict[str, tuple[Case, str]]] = {
    "sender_detach": (sender_detach, "A64"),
    "resumed_selector": (resumed_selector, "A104"),
    "two_transactions": (two_transactions, "A118"),
    "settled_without_outcome": (settled_without_outcome, "A95"),
    "released_to_others": (released_to_others, "A93"),
    "uuid_properties": (uuid_properties, "A133"),
    "several_data_sections": (several_data_sections, "A141"),
    "streams_with_bytes": (streams_with_bytes, "11.1"),
    "failed_login": (failed_login, "A26"),
}
"""They differ, and the fact that says why."""
