"""Random input for AMQP: values, messages and frames, damaged and noise, for the codec and the engine.

`python -m tests.kit.amqp.codec_fuzz 1000000 [SEED]` runs a million inputs.
"""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from pyjms.errors import RemoteProtocolError
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.amqp.codec import decode_value, encode_value
from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.engine import EngineSettings
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Fault, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.links import Sender
from pyjms.wire.amqp.message import DATA, VALUE, Message, decode_message, encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Open,
    Performative,
    Properties,
    Rejected,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from pyjms.wire.amqp.values import (
    Array,
    Decimal64,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)
from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from tests.kit.amqp.peer import Peer

LIMIT = 2000
SETTINGS = EngineSettings(max_message_size=LIMIT, max_links=4, max_sessions=3, incoming_window=20)
SIMPLE: list[Value] = [
    None, True, False, 0, -1, 2**31 - 1, Long(-(2**63)), UByte(3), UShort(4), UInt(2**32 - 1),
    ULong(2**64 - 1), Byte(-1), Short(-2), Float(1.5), 2.5, Char("x"), Timestamp(0), b"", b"xyz",
    "", "text", "x" * 300, Symbol("s"), UUID(int=7), Decimal64(bytes(8)),
    Array([Symbol("a")], 0xA3), Array([1, 2], 0x71),
]  # fmt: skip


def value(chance: random.Random, depth: int = 0) -> Value:
    """Return a random value."""
    kind = chance.randrange(10)
    if depth > 3 or kind < 6:
        return chance.choice(SIMPLE)
    items = [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return Described(Symbol("d"), items)
    if kind == 7:
        return {str(index): item for index, item in enumerate(items)}
    return items


def message(chance: random.Random) -> bytes:
    """Return a random message, perhaps a large one."""
    body = chance.choice([(DATA, [chance.randbytes(chance.choice([0, 10, 3000]))]),
                          (VALUE, value(chance))])  # fmt: skip
    whole = Message(*body, application_properties={"p": value(chance)}, header=Header())
    whole.properties = Properties("m", to="queue://Q") if chance.random() < 0.5 else None
    return encode_message(whole)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the data with some bytes changed, removed or added."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(3)
        if kind == 0 and at < len(changed):
            changed[at] = chance.choice(
                [0, 0x40, 0x53, 0xC0, 0xD0, 0xF0, 0xFF, chance.randrange(256)]
            )
        elif kind == 1:
            del changed[at : at + chance.randrange(1, 5)]
        else:
            changed[at:at] = chance.randbytes(chance.randrange(1, 5))
    return bytes(changed)


def _attach(chance: random.Random) -> Performative:
    name, handle = chance.choice("abc"), chance.randrange(5)
    target = chance.choice([None, Target("q"), Coordinator()])
    source = chance.choice([None, Source("q")])
    return Attach(name, handle, chance.random() < 0.5, chance.randrange(3), 0, source, target)


def _transfer(chance: random.Random) -> Performative:
    number = chance.choice([None, chance.randrange(10)])
    state = chance.choice([None, None, TransactionalState(b"1"), ACCEPTED])
    flags = [chance.random() < 0.3 for _ in range(4)]
    return Transfer(chance.randrange(5), number, chance.choice([b"", b"t", None]), 0, flags[0],
                    flags[1], None, state, flags[2] and flags[3], flags[3])  # fmt: skip


def _flow(chance: random.Random) -> Performative:
    numbers = [chance.choice([0, 1, 5, 100, 2**32 - 1]) for _ in range(4)]
    handle = chance.choice([None, 0, 1, 2, 3])
    return Flow(numbers[0], numbers[1], numbers[2], 1, handle, chance.choice([None, numbers[2]]),
                numbers[3], None, chance.random() < 0.3, chance.random() < 0.3)  # fmt: skip


def _disposition(chance: random.Random) -> Performative:
    first = chance.randrange(10)
    last = chance.choice([None, first, first + 3, 2**32 - 1, 2**31 - 1])
    state = chance.choice([None, ACCEPTED, Rejected(), Modified(True), TransactionalState(b"1")])
    return Disposition(chance.random() < 0.8, first, last, chance.random() < 0.7, state)


PERFORMATIVES: list[Callable[[random.Random], Performative]] = [
    _attach, _attach, _transfer, _transfer, _flow, _flow, _disposition,
    lambda chance: Begin(None, 0, chance.choice([0, 1, 1000]), 1000),
    lambda chance: Detach(chance.randrange(5), chance.random() < 0.7),
    lambda chance: Open("c"),
]  # fmt: skip
LAST: list[Performative] = [End(), Close(), Close(Error("x")), End(Error("x"))]


def performative(chance: random.Random) -> Performative:
    """Return a performative that may make sense."""
    if chance.random() < 0.03:
        return chance.choice(LAST)
    return chance.choice(PERFORMATIVES)(chance)


def start(chance: random.Random) -> list[Item]:
    """Return the items that open a connection, as a rule."""
    login: list[Item] = [
        ProtocolHeader(SASL),
        Frame(0, SaslInit("ANONYMOUS")),
        ProtocolHeader(AMQP),
    ]
    items: list[Item] = [
        *login,
        Frame(0, Open("c", max_frame_size=chance.choice([0, 1000, 10**6]))),
    ]
    if chance.random() < 0.1:
        del items[chance.randrange(len(items))]
    return items


def frames(chance: random.Random, count: int) -> bytes:
    """Return the bytes of a conversation, which may be damaged."""
    items = start(chance)
    items.append(Frame(0, Begin(None, 0, chance.choice([0, 3, 1000]), 1000)))
    for _ in range(count):
        body = performative(chance)
        payload = message(chance)[:1500] if isinstance(body, Transfer) else b""
        items.append(Frame(chance.choice([0, 0, 0, 0, 1, 2, 40000]), body, payload))
    data = bytearray()
    for item in items:
        AmqpFormat(LIMIT).encode_into(data, item)
    return damaged(bytes(data), chance) if chance.random() < 0.4 else bytes(data)


class Broker(Peer):
    """Answers a client at random."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(SETTINGS)
        self.chance = chance

    def accept(self, link: Any) -> None:
        if self.chance.random() < 0.1:
            link.refuse(Error("amqp:not-found"))
            return
        super().accept(link)
        if link.role:
            link.grant(self.chance.choice([1, 5]))

    def on_delivery(self, delivery: Delivery) -> None:
        assert len(delivery.payload) <= LIMIT
        super().on_delivery(delivery)
        if self.chance.random() < 0.8:
            delivery.settle(self.chance.choice([ACCEPTED, Rejected(), None]))

    def on_credit(self, link: Sender) -> None:
        if link.run_room > 2 and self.chance.random() < 0.5:
            contexts = [] if link.is_settled_mode else ["a", "b"]
            link.send_run([b"x"] * 2, contexts)
        while link.credit and self.chance.random() < 0.6:
            link.send(bytes(self.chance.choice([0, 100, 3000])), settled=link.is_settled_mode)
        if link.drain:
            link.finish_drain()

    def on_disposition(self, delivery: Delivery) -> None:
        super().on_disposition(delivery)
        if not delivery.settled and self.chance.random() < 0.5:
            delivery.settle(ACCEPTED)


def feed_codec(chance: random.Random) -> None:
    """Decode a damaged value and a damaged message."""
    data = bytearray()
    encode_value(data, value(chance))
    for decode, content in ((decode_value, bytes(data)), (decode_message, message(chance)[:600])):
        with suppress(RemoteProtocolError):
            decode(damaged(content, chance))


def feed_engine(chance: random.Random) -> int:
    """Feed a conversation; return the number of items. Fails if a limit is exceeded."""
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    codec, broker = AmqpFormat(LIMIT, UnfinishedFrame(budget)), Broker(chance)
    engine = broker.engine
    engine.unfinished = UnfinishedFrame(budget)
    data = frames(chance, chance.randrange(30))
    found = 0
    while data:
        size = chance.randrange(1, 400)
        portion, data = data[:size], data[size:]
        items = deque(codec.receive_data(portion))
        while items:
            taken = engine.receive_run(items)
            if not taken:
                item = items.popleft()
                engine.receive(item)
                taken = not isinstance(item, Fault)
            found += taken
            assert engine.partial <= LIMIT
            assert engine.links <= 2 * SETTINGS.max_links
            assert len(engine.sessions) <= 2 * SETTINGS.max_sessions
            assert engine.links == sum(each.link_count for each in engine.sessions.values())
            assert engine.queued >= 0
            assert engine.names == sum(each.names for each in engine.sessions.values())
    assert broker.events.count(("finish",)) == engine.is_finished
    codec.discard()
    engine.discard()
    assert (budget.used, engine.partial, engine.links, engine.queued) == (0, 0, 0, 0)
    broker.items()
    return found


def run(inputs: int, seed: int = 1) -> int:
    """Feed random inputs; return the number of items that were received."""
    chance = random.Random(seed)
    found = 0
    for number in range(inputs):
        if number % 4:
            feed_codec(chance)
        else:
            found += feed_engine(chance)
    return found


if __name__ == "__main__":
    print(f"{run(int(sys.argv[1]), *map(int, sys.argv[2:3]))} items, no failure")
