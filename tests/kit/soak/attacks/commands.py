"""Well-formed commands that keep no rule, and selectors and names that cost more than they should."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import anyio

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LastPartialCommand,
    LocalTransactionId,
    MessageAck,
    MessageId,
    MessagePull,
    PartialCommand,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.primitives import encode_map
from tests.kit.brokers.openwire_attacker import Peer
from tests.kit.soak.attacks.floods import junk, listening
from tests.kit.soak.attacks.types import Attacker

__all__ = ["COMMANDS"]

INTERNAL: Final = (
    "PyJMS.Ranges.Marks", "PyJMS.Scheduled", "PyJMS.Ranges.>", "PyJMS.>", "hostile.x,PyJMS.Ranges.Marks",
    "PyJMS.Ranges.Marks,PyJMS.Scheduled",
)  # fmt: skip
MARK: Final = b'{"queue":"soak.auto","held":Infinity,"changes":0}'
SELECTORS: Final = (
    "REPLACE(s, 'a.*b|a', 'x') = 'y'",
    "REGEX('(a+)+b', s) " + "OR REGEX('(a*)*c', s) " * 39,
    "s LIKE '%" + "a_" * 250 + "%'",
    " OR ".join(f"INLIST('{','.join(map(str, range(2000)))}', '{n}')" for n in range(6)),
    "-" * 30_000 + "1 = n",
    "(" * 20_000 + "a",
    "n = " + "9" * 5000,
    "CONCAT(" + ",".join(["s"] * 96) + ") = 'x'",
)


async def _tell_all(peer: Peer, commands: list[Command]) -> None:
    """Ask each, whatever the answer."""
    async with listening(peer):
        for number, command in enumerate(commands, 100):
            command.command_id, command.response_required = number, number % 3 > 0
            await peer.tell(command)
        await anyio.sleep(0.5)


async def internal_destinations(attacker: Attacker) -> None:
    peer = await attacker.connected()
    connection = ConnectionId(peer.name)
    commands: list[Command] = []
    for name in INTERNAL:
        for destination in (Queue(name), Topic(name)):
            message = peer.message(destination, MARK)
            message.persistent = True
            commands += [message, DestinationInfo(connection, destination, 1)]
            commands.append(
                ConsumerInfo(ConsumerId(peer.name, 1, len(commands)), destination=destination)
            )
    await _tell_all(peer, commands)


async def wrong_commands(attacker: Attacker) -> None:
    peer = await attacker.connected()
    connection, xid = ConnectionId(peer.name), LocalTransactionId(1, ConnectionId(peer.name))
    commands: list[Command] = [
        ProducerInfo(None),
        ConsumerInfo(None, destination=Queue("hostile.q")),
        ConsumerInfo(ConsumerId("nobody", 1, 1), destination=Queue("hostile.q")),
        ConsumerInfo(ConsumerId(peer.name, 1, 2), destination=None),
        ConsumerInfo(ConsumerId(peer.name, 1, 4), destination=TemporaryQueue("ID:nowhere:1")),
        ConnectionInfo(None, "x"),
        DestinationInfo(connection, None, 0),
        DestinationInfo(connection, Queue("hostile.q"), 77),
        MessagePull(ConsumerId(peer.name, 1, 9), Queue("hostile.q"), -1),
        ConsumerControl(consumer_id=ConsumerId(peer.name, 1, 9), prefetch=-5),
        RemoveSubscriptionInfo(connection, "nobody", "nothing"),
        RemoveInfo(None),
        RemoveInfo(SessionId("nobody", 1)),
        peer.message(None),
        *(TransactionInfo(connection, xid, step) for step in (1, 2, 3, 4, 8, 127)),
        TransactionInfo(connection, None, 0),
        PartialCommand(1, b"x" * 1000),
        LastPartialCommand(1, b"x"),
    ]
    attacker.chance.shuffle(commands)
    await _tell_all(peer, commands)


async def foreign_acknowledgements(attacker: Attacker) -> None:
    """Acknowledge and remove what belongs to other connections."""
    peer = await attacker.connected()
    commands: list[Command] = []
    for name in ("soak-reader/auto-steady-0", "ID:test-1:1", peer.name):
        consumer = ConsumerId(name, 1, 1)
        for kind in (0, 1, 2, 3, 4, 6, 99):
            ack = MessageAck(Queue("soak.auto"), None, consumer, kind)
            ack.first_message_id = ack.last_message_id = MessageId(None, ProducerId(name, 1, 1), 1)
            ack.message_count = attacker.chance.choice((1, 0, -(2**31), 2**31 - 1))
            commands.append(ack)
        commands += [RemoveInfo(consumer), RemoveInfo(ConnectionId(name))]
    await _tell_all(peer, commands)


async def thief(attacker: Attacker) -> None:
    """Take messages of others, and never acknowledge them."""
    peer = await attacker.connected()
    await peer.consume(Queue("soak.auto"), prefetch=attacker.chance.randint(1, 200))
    await peer.consume(Queue("soak.transacted"), 2, prefetch=attacker.chance.randint(1, 50))
    await anyio.sleep_forever()


async def selector_bombs(attacker: Attacker) -> None:
    topic = Topic(f"hostile.{attacker.name}")
    consumer, sender = await attacker.connected(), await attacker.connected()
    async with listening(consumer), listening(sender):
        for number, selector in enumerate(SELECTORS):
            info = ConsumerInfo(ConsumerId(consumer.name, 1, number), destination=topic)
            info.selector, info.prefetch_size = selector, 10
            await consumer.tell(info)
        for _ in range(30):
            bomb = junk(sender, topic, 10)
            bomb.marshalled_properties = encode_map({"s": "a" * 5000, "n": 1})
            await sender.tell(bomb)
            await anyio.sleep(0.05)


async def costly_consumers(attacker: Attacker) -> None:
    """Select each message by many consumers, whose selectors take just less than each may."""
    topic = Topic(f"hostile.{attacker.name}")
    consumer, sender = await attacker.connected(), await attacker.connected()
    async with listening(consumer), listening(sender):
        for number in range(300):
            info = ConsumerInfo(ConsumerId(consumer.name, 1, number), destination=topic)
            info.selector, info.prefetch_size = "REGEX('(a|aa|aaa)*b', s)", 10
            await consumer.tell(info)
        for _ in range(20):
            message = junk(sender, topic, 10)
            message.marshalled_properties = encode_map({"s": "a" * 500})
            await sender.tell(message)
            await anyio.sleep(0.05)


async def giant_properties(attacker: Attacker) -> None:
    queue = Queue(f"hostile.{attacker.name}")
    peer = await attacker.connected()
    await peer.consume(queue, selector="a = 1")
    giant: ActiveMQMessage = junk(peer, queue, 10)
    giant.marshalled_properties = encode_map({"x": [None] * (MAX_PROPERTY_VALUES + 1)})
    nested: ActiveMQMessage = junk(peer, queue, 10)
    nested.marshalled_properties = bytes(4 << 20)
    await _tell_all(peer, [giant, nested])


async def odd_headers(attacker: Attacker) -> None:
    queue = Queue(f"hostile.{attacker.name}")
    peer = await attacker.connected()
    messages: list[Command] = []
    for group in ("\ud800", "", "g" * 60_000, "\n\x1b[2J"):
        odd = junk(peer, queue, 10)
        odd.priority, odd.redelivery_counter, odd.group_sequence = 127, 2**31 - 1, -(2**31)
        odd.group_id = group
        messages.append(odd)
    await _tell_all(peer, messages)


async def composites(attacker: Attacker) -> None:
    peer = await attacker.connected()
    for part in range(2):
        names = ",".join(f"hostile.{peer.name[-12:]}.{part}.{n}" for n in range(1000))
        await peer.ask(junk(peer, Queue(names), 10))
    await peer.ask(peer.message(Queue(",".join(f"h{n}" for n in range(5000)))))


async def odd_names(attacker: Attacker) -> None:
    peer = await attacker.connected()
    names = (
        "hostile.\n.x",
        "hostile.\x1b[2J",
        "hostile." + "x" * 30_000,
        "hostile.>",
        "*.hostile.>",
    )
    destinations: list[Destination] = [kind(name) for name in names for kind in (Queue, Topic)]
    await _tell_all(peer, [junk(peer, each, 10) for each in destinations])


async def churn(attacker: Attacker) -> None:
    for _ in range(60):
        peer = await attacker.connected()
        await peer.consume(Queue("hostile.churn"))
        await peer.tell(junk(peer, Queue("hostile.churn"), 100))
        await peer.leave()


async def crowd_on_one_socket(attacker: Attacker) -> None:
    peer = await attacker.connected()
    async with listening(peer):
        for number in range(1500):
            name = f"{peer.name}-{number}"
            await peer.tell(ConnectionInfo(ConnectionId(name), name))
        await anyio.sleep(1)


async def transactions_left_open(attacker: Attacker) -> None:
    """Begin transactions and leave in the middle."""
    for number in range(20):
        peer = await attacker.connected()
        xid = LocalTransactionId(number, ConnectionId(peer.name))
        begin = TransactionInfo(ConnectionId(peer.name), xid, TransactionType.BEGIN)
        message = junk(peer, Queue("hostile.left"), 1000, persistent=True)
        message.transaction_id = xid
        await peer.tell(begin, message)
        await peer.leave()


COMMANDS: Final[Mapping[str, Callable[[Attacker], Awaitable[None]]]] = {
    "internal destinations": internal_destinations,
    "wrong commands": wrong_commands,
    "foreign acknowledgements": foreign_acknowledgements,
    "thief": thief,
    "selector bombs": selector_bombs,
    "costly consumers": costly_consumers,
    "giant properties": giant_properties,
    "odd headers": odd_headers,
    "composites": composites,
    "odd names": odd_names,
    "churn": churn,
    "crowd on one socket": crowd_on_one_socket,
    "transactions left open": transactions_left_open,
}
