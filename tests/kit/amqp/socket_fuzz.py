"""Random frames for an AMQP port; see `tests.kit.socket_fuzz`."""

from __future__ import annotations

import random
from collections.abc import Iterator

from anyio.abc import ByteStream

from pyjms.jms.types import Byte
from pyjms.wire.amqp.codec import encode_value
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.message import DATA, SEQUENCE, VALUE, Message, encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    SENDER,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Header,
    Modified,
    Open,
    Outcome,
    Performative,
    Properties,
    Received,
    Rejected,
    SaslInit,
    Source,
    State,
    Target,
    TransactionalState,
    Transfer,
)
from pyjms.wire.amqp.values import Described, Symbol, Timestamp, ULong
from tests.kit import socket_fuzz
from tests.kit.amqp.client import AmqpClient, text
from tests.kit.amqp.codec_fuzz import damaged, value

DAMAGED = 0.005
ADDRESSES = ["a", "queue://a", "topic://t", "temp-queue://x", "a,b", "a.>", "topic://t.*", "", None,
             "queue://a?consumer.exclusive=true", "a?consumer.no=1", "x" * 300, "\0", "topic://",
             "$a", "ActiveMQ.Advisory.>"]  # fmt: skip
SELECTORS = ["a = 1", "a =", "", "a LIKE '%x%'", "\u00fc"]
TRANSACTIONS = [b"", b"1", *(number.to_bytes(8, "big") for number in range(4))]


def address(chance: random.Random) -> str | None:
    """Return an address that occurs often, or another one."""
    return "a" if chance.random() < 0.5 else chance.choice(ADDRESSES)


def _state(chance: random.Random) -> State | None:
    outcomes: list[Outcome] = [
        ACCEPTED, RELEASED, Rejected(), Modified(True), Modified(False, True),
    ]  # fmt: skip
    outcome = chance.choice(outcomes)
    if chance.random() < 0.3:
        return TransactionalState(chance.choice(TRANSACTIONS), chance.choice([None, outcome]))
    states: list[State | None] = [None, outcome, outcome, Received(1, 2)]
    return chance.choice(states)


def _source(chance: random.Random) -> Source | None:
    source = Source(address(chance), durable=chance.randrange(3))
    source.dynamic = chance.random() < 0.1
    source.distribution_mode = chance.choice([None, None, None, "copy"])
    if chance.random() < 0.2:
        selector: object = chance.choice([*SELECTORS, 5])
        source.filter = {Symbol("s"): Described(ULong(0x468C00000004), selector)}
    if chance.random() < 0.1:
        source.filter = {Symbol("n"): Described(Symbol("apache.org:no-local-filter:list"), [])}
    source.capabilities = chance.choice([None, ["topic"], ["temporary-topic"]])
    return None if chance.random() < 0.1 else source


def payload(chance: random.Random) -> bytes:
    """Return a message of any kind, or what is none."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(30))
    body: tuple[int, object] = chance.choice([
        (VALUE, "text"), (VALUE, value(chance)), (VALUE, {"k": value(chance)}),
        (DATA, [b"x" * chance.choice([0, 10, 3000])]), (SEQUENCE, [[value(chance)]]),
    ])  # fmt: skip
    message = Message(*body)
    if chance.random() < 0.5:
        message.header = Header(
            chance.random() < 0.5, chance.randrange(12), ttl=chance.choice([None, 1])
        )
    if chance.random() < 0.5:
        message.properties = Properties(
            chance.choice([None, "m", ULong(3), b"\1", "AMQP_ULONG:xx"]), b"\xff\0",
            address(chance), "s", address(chance), content_type=chance.choice([None, "text/plain"]),
            creation_time=Timestamp(1), group_sequence=chance.choice([None, 2**32 - 1]),
        )  # fmt: skip
    if chance.random() < 0.5:
        message.application_properties = {chance.choice(["a", "", "JMSX", "a b"]): value(chance)}
    if chance.random() < 0.2:
        name = chance.choice(["x-opt-delivery-delay", "x-opt-delivery-cron", "x-opt-jms-dest"])
        message.message_annotations = {Symbol(name): chance.choice([1, "* * * * *", -1, Byte(9)])}
    content = encode_message(message)
    return damaged(content, chance) if chance.random() < 0.05 else content


def _control(chance: random.Random) -> bytes:
    """Return a message to a coordinator."""
    discharge = Discharge(chance.choice(TRANSACTIONS), chance.random() < 0.5)
    return encode_message(Message(VALUE, chance.choice([Declare(), discharge])))


def start(chance: random.Random) -> bytes:
    """Return the bytes that open a connection and a session."""
    items: list[Item] = [
        ProtocolHeader(SASL),
        Frame(0, SaslInit(chance.choice(["ANONYMOUS", "PLAIN"]), b"\0u\0p")),
        ProtocolHeader(AMQP),
        Frame(0, Open(f"c{chance.randrange(40)}", max_frame_size=chance.choice([0, 4096, 2**20]))),
        Frame(0, Begin(None, 0, chance.choice([0, 10, 1000]), 1000)),
    ]
    data = bytearray()
    for item in items:
        AmqpFormat(2**31).encode_into(data, item)
    return bytes(data)


class Talk:
    """What one client sends: frames that as a rule fit to those before."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.roles: dict[int, bool] = {}
        """Of the attached links, by handle."""
        self.coordinators: set[int] = set()
        self.number = 0

    def handle(self, role: bool | None = None) -> int:
        """Return the handle of an attached link, as a rule of this role."""
        known = [each for each, its in self.roles.items() if role is None or its is role]
        return self.chance.choice(known) if known and self.chance.random() < 0.998 else 9

    def attach(self) -> Performative:
        chance = self.chance
        free = next((each for each in range(6) if each not in self.roles), 5)
        name = chance.choice("abcdefgh")
        self.roles[free] = role = chance.random() < 0.5
        if role is RECEIVER:
            return Attach(name, free, role, chance.randrange(3), chance.randrange(2),
                          _source(chance), Target())  # fmt: skip
        target = chance.choice([Coordinator(), Target(), Target(address(chance)),
                                Target(address(chance)), None])  # fmt: skip
        if isinstance(target, Target):
            target.dynamic = chance.random() < 0.1
        if isinstance(target, Coordinator):
            self.coordinators.add(free)
        else:
            self.coordinators.discard(free)
        return Attach(name, free, role, chance.randrange(3), 0, Source(), target, None, False, 0)

    def flow(self) -> Performative:
        chance = self.chance
        window = chance.choice([0, 2, 1000, 1000, 2**32 - 1])
        handle = None if chance.random() < 0.1 else self.handle()
        count = chance.choice([None, 0, 1, 5, 2**32 - 1])
        credit = chance.choice([None, 0, 1, 10, 1000, 2**32 - 1])
        flow = Flow(chance.choice([None, 1, 2, 10]), window, 0, 1000, handle, count, credit)
        flow.drain, flow.echo = chance.random() < 0.2, chance.random() < 0.2
        return flow

    def disposition(self) -> Performative:
        chance = self.chance
        first = chance.randrange(20)
        last = chance.choice([None, first, first + 3, 2**31 - 1, 2**32 - 1])
        settled = chance.random() < 0.7
        return Disposition(chance.random() < 0.9, first, last, settled, _state(chance))

    def detach(self) -> Performative:
        handle = self.handle()
        self.roles.pop(handle, None)
        return Detach(handle, self.chance.random() < 0.7)

    def transfer(self) -> Performative:
        chance = self.chance
        self.number += 1
        tag = b"%d" % self.number
        transfer = Transfer(self.handle(SENDER), self.number, tag, chance.choice([0, 0, 5]))
        transfer.settled = chance.random() < 0.3
        transfer.aborted = chance.random() < 0.02
        transfer.state = _state(chance) if chance.random() < 0.2 else None
        return transfer

    def bodies(self) -> list[Performative]:
        """Return the next performatives."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.01:
            self.roles = {}
            return [End(), Begin(None, 0, chance.choice([0, 10, 1000]), 1000)]
        if kind < 0.012:
            return [Close()]
        if SENDER not in self.roles.values() or len(self.roles) < 2 or kind < 0.1:
            return [self.attach() if len(self.roles) < 6 else self.detach()]
        made = [self.transfer, self.transfer, self.transfer, self.flow, self.flow]
        return [chance.choice([*made, self.disposition, self.disposition, self.detach])()]

    def frames(self) -> bytes:
        """Return the bytes of the next frames."""
        chance = self.chance
        channel = 0 if chance.random() < 0.99 else chance.choice([1, 300])
        data = bytearray()
        for body in self.bodies():
            content = b""
            if isinstance(body, Transfer):
                controls = body.handle in self.coordinators and chance.random() < 0.99
                content = _control(chance) if controls else payload(chance)
            AmqpFormat(2**31).encode_into(data, Frame(channel, body, content))
        if chance.random() >= DAMAGED:
            return bytes(data)
        noise = bytearray()
        encode_value(noise, value(chance))
        return damaged(bytes(data), chance) if chance.random() < 0.5 else bytes(noise)


def talk(chance: random.Random) -> Iterator[bytes]:
    """Yield what a client sends."""
    yield start(chance)
    client = Talk(chance)
    while True:
        yield client.frames()


async def use(stream: ByteStream) -> None:
    """Check that a client is served."""
    client = AmqpClient(stream)
    assert await client.log_in() == 0
    await client.open("well")
    await client.begin()
    sender = await client.sender("well")
    for number in range(10):
        assert await sender.send(text(str(number))) == ACCEPTED
    receiver = await client.receiver("well", credit=10)
    assert await receiver.bodies(10) == [str(number) for number in range(10)]


OPTIONS = ("", "?transport.transformer=jms")


async def run(frames: int, seed: int = 1) -> int:
    """Send about so many frames; return the bytes that were added."""
    return await socket_fuzz.run("amqp", talk, use, frames, seed, OPTIONS)


if __name__ == "__main__":
    socket_fuzz.main("amqp", talk, use, OPTIONS)
