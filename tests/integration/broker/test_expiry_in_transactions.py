"""Messages that expire while a transaction of their consumer is open, by the broker's scan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import AckType, TransactionType
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from tests.kit.brokers.region import ManualClock, clock
from tests.kit.clients.raw import BrokerWith

__all__ = ["clock"]

BRIEF = 5_000
"""Milliseconds that a message lives which expires in the transaction."""
KINDS = pytest.mark.parametrize(
    ("destination", "fields"),
    [(Queue("q"), {}), (Topic("t"), {"client_id": "me", "subscription_name": "s"})],
    ids=["queue", "durable"],
)


@pytest.fixture
async def made(broker_with: BrokerWith, clock: ManualClock) -> AsyncIterator[Any]:
    policies = PolicyMap([PolicyEntry(expire_messages_period=10.0)])
    async with broker_with(policies=policies) as (broker, client):
        yield broker, client


async def send(client: Any, destination: Destination, text: str, lifetime: int = 0) -> None:
    message = client.text(await client.producer(), destination, text)
    message.expiration = message.timestamp + lifetime if lifetime else 0
    await client.request(message)


async def dead_letters(broker: Any) -> list[str | None]:
    return [decode_text(each.content) for each in await broker.dead_letters()]


def text_of(dispatch: Any) -> str | None:
    return decode_text(dispatch.message.content)


@pytest.mark.fact("activemq-broker Q32")
@KINDS
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_what_the_transaction_acknowledged_stays_the_consumers(
    made: Any, clock: ManualClock, destination: Destination, fields: dict[str, str], end: str
) -> None:
    broker, client = made
    consumer = await client.consumer(destination, **fields)
    await send(client, destination, "brief", BRIEF)
    taken = await client.dispatched()
    local = client.local(1)
    await client.transaction(TransactionType.BEGIN, local)
    await client.ack(taken, transaction_id=local)
    await clock.advance(30)
    assert await dead_letters(broker) == []
    if end == "commit":
        await client.transaction(TransactionType.COMMIT_ONE_PHASE, local)
        assert await dead_letters(broker) == []
    else:
        await client.transaction(TransactionType.ROLLBACK, local)
        await client.remove(consumer)
        await client.consumer(destination, **fields)
        assert await dead_letters(broker) == ["brief"]
    await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker Q32")
@KINDS
async def test_what_waits_behind_the_transaction_expires(
    made: Any, clock: ManualClock, destination: Destination, fields: dict[str, str]
) -> None:
    broker, client = made
    await client.consumer(destination, prefetch_size=1, **fields)
    await send(client, destination, "first")
    await send(client, destination, "brief", BRIEF)
    await send(client, destination, "last")
    local = client.local(1)
    await client.transaction(TransactionType.BEGIN, local)
    await client.ack(await client.dispatched(), transaction_id=local)
    await clock.advance(30)
    await client.nothing_dispatched()
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, local)
    assert text_of(await client.dispatched()) == "last"
    assert await dead_letters(broker) == ["brief"]


@pytest.mark.fact("activemq-broker Q32")
@KINDS
@pytest.mark.parametrize("end", [TransactionType.COMMIT_ONE_PHASE, TransactionType.ROLLBACK])
async def test_an_expired_message_between_those_of_the_transaction(
    made: Any, clock: ManualClock, destination: Destination, fields: dict[str, str], end: int
) -> None:
    """The client acknowledges it as expired, outside of the transaction, and the others in one."""
    broker, client = made
    consumer = await client.consumer(destination, **fields)
    await send(client, destination, "first")
    await send(client, destination, "brief", BRIEF)
    await send(client, destination, "second")
    first, brief, second = [await client.dispatched() for _ in range(3)]
    local = client.local(1)
    await client.transaction(TransactionType.BEGIN, local)
    await client.ack(first, AckType.DELIVERED)
    await clock.advance(30)
    await client.ack(brief, AckType.EXPIRED)
    await client.ack(
        second,
        transaction_id=local,
        first_message_id=first.message.message_id,
        message_count=2,
    )
    await client.transaction(end, local)
    assert await dead_letters(broker) == ["brief"]
    await client.remove(consumer)
    await client.consumer(destination, **fields)
    if end == TransactionType.ROLLBACK:
        assert [text_of(await client.dispatched()) for _ in range(2)] == ["first", "second"]
    await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker X10")
@pytest.mark.parametrize("is_durable", [False, True], ids=["topic", "durable"])
async def test_what_expires_before_its_own_commit_reaches_no_subscriber(
    made: Any, clock: ManualClock, *, is_durable: bool
) -> None:
    broker, client = made
    fields = {"client_id": "me", "subscription_name": "s"} if is_durable else {}
    consumer = await client.consumer(Topic("t"), **fields)
    local, producer = client.local(1), await client.producer()
    await client.transaction(TransactionType.BEGIN, local)
    for text, lifetime in (("first", 0), ("brief", BRIEF), ("last", 0)):
        message = client.text(producer, Topic("t"), text, local)
        message.expiration = message.timestamp + lifetime if lifetime else 0
        await client.request(message)
    await clock.advance(BRIEF / 1000 + 1)
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, local)
    assert [text_of(await client.dispatched()) for _ in range(2)] == ["first", "last"]
    assert await dead_letters(broker) == ["brief"]
    await client.remove(consumer)
    await client.consumer(Topic("t"), **fields)
    assert [text_of(await client.dispatched()) for _ in range(2 * is_durable)] == [
        *(["first", "last"] if is_durable else [])
    ]
    await client.nothing_dispatched()
