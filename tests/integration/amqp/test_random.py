"""Senders and receivers that do as chance has it: nothing is lost, and nothing is taken twice."""

from __future__ import annotations

import random
from collections import Counter

import anyio
import anyio.lowlevel
import pytest

from pyjms.wire.amqp.format import Frame
from pyjms.wire.amqp.message import DATA, VALUE, Message, encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    Disposition,
    Flow,
    Header,
    Modified,
    Outcome,
    Properties,
    Rejected,
    Transfer,
)
from tests.kit.amqp.client import SETTLED, UNSETTLED, AmqpBroker, AmqpClient, Received

MESSAGES = 600
QUEUE = "queue://a"
DEAD: list[Outcome] = [Rejected(), Modified(undeliverable_here=True)]
BACK: list[Outcome] = [RELEASED, Modified(delivery_failed=True)]
TAKEN: list[Outcome] = [ACCEPTED] * 6
OUTCOMES = [*TAKEN, *BACK, *DEAD]


def message(number: int, chance: random.Random) -> bytes:
    text, header = str(number), Header(durable=True)
    if chance.random() < 0.5:
        return encode_message(Message(VALUE, text, header=header))
    properties = Properties(text, subject=chance.choice([None, "s"]))
    return encode_message(Message(DATA, [text.encode()], header=header, properties=properties))


def number_of(received: Received) -> int:
    body = received.body
    return int(body if isinstance(body, str) else body[0])


class Sending:
    """A client that sends chunks of messages, as its credit allows, some of them settled."""

    def __init__(self) -> None:
        self.sent = self.credit = self.unanswered = 0

    async def run(self, client: AmqpClient, chance: random.Random) -> None:
        sender = await client.sender(QUEUE)
        self.credit = sender.credit
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, client)
            while self.sent < MESSAGES or self.unanswered:
                count = min(chance.choice([1, 5, 40]), self.credit, MESSAGES - self.sent)
                frames = []
                for number in range(self.sent, self.sent + count):
                    transfer = Transfer(sender.handle, number, b"%d" % number, 0)
                    transfer.settled = chance.random() < 0.3
                    self.unanswered += not transfer.settled
                    frames.append(Frame(0, transfer, message(number, chance)))
                self.sent += count
                self.credit -= count
                if frames:
                    await client.send_items(*frames)
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    async def _read(self, client: AmqpClient) -> None:
        while True:
            body = (await client.next()).body
            if isinstance(body, Disposition):
                assert body.state == ACCEPTED
                self.unanswered -= (body.last or body.first) - body.first + 1
            elif isinstance(body, Flow) and body.link_credit is not None:
                self.credit = (body.delivery_count or 0) + body.link_credit - self.sent


class Receiving:
    """A client that takes messages, gives some of them back, and comes again."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.rejected: list[int] = []

    async def run(self, amqp: AmqpBroker, name: str, chance: random.Random, rounds: int) -> None:
        client = await amqp.client(name)
        for _ in range(rounds):
            mode = chance.choice([SETTLED, UNSETTLED])
            receiver = await client.receiver(QUEUE, mode=mode)
            for _ in range(chance.randrange(1, 5)):
                found = await receiver.drained(chance.choice([1, 7, 60]))
                if mode == SETTLED:
                    self.taken += map(number_of, found)
                while found and mode == UNSETTLED and chance.random() < 0.8:
                    found = await self._settle_some(client, found, chance)
            if chance.random() < 0.2:
                await client.lose()
                client = await amqp.client(name)
            else:
                await receiver.detach(closed=chance.random() < 0.5)

    async def _settle_some(
        self, client: AmqpClient, found: list[Received], chance: random.Random
    ) -> list[Received]:
        """Settle a range of messages; return the others."""
        first = chance.randrange(len(found))
        some = found[first : first + chance.choice([1, 3, 50])]
        outcome = chance.choice(OUTCOMES)
        await client.send(Disposition(RECEIVER, some[0].id, some[-1].id, True, outcome))
        if outcome is ACCEPTED:
            self.taken += map(number_of, some)
        elif outcome in DEAD:
            self.rejected += map(number_of, some)
        return [each for each in found if each not in some]


async def rest(client: AmqpClient, address: str) -> list[int]:
    """The numbers of all messages that are left."""
    receiver = await client.receiver(address)
    return list(map(number_of, await receiver.drained(2 * MESSAGES)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(3))
async def test_each_message_is_taken_once_or_left(amqp: AmqpBroker, seed: int) -> None:
    chance = random.Random(seed)
    sending, receiving = Sending(), [Receiving() for _ in range(3)]
    async with anyio.create_task_group() as group:
        group.start_soon(sending.run, await amqp.client("sends"), chance)
        for number, each in enumerate(receiving):
            own = random.Random(chance.random())
            group.start_soon(each.run, amqp, f"receives {number}", own, 6)
    client = await amqp.client("looks")
    dead, waiting = await rest(client, "queue://ActiveMQ.DLQ"), await rest(client, QUEUE)
    assert sorted(dead) == sorted(number for each in receiving for number in each.rejected)
    taken = [number for each in receiving for number in each.taken]
    assert Counter(taken + dead + waiting) == Counter(range(MESSAGES))
