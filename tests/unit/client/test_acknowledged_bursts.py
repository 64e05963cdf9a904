"""What a burst of listener calls has handled is acknowledged as one range, in its write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.factory import ConnectionFactory
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQTextMessage,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
)
from tests.kit.brokers.fake import FakeBrokers, brokers
from tests.kit.clients.scripted_broker import clock

__all__ = ["brokers", "clock"]

PRODUCER = ProducerId("p", 1, 1)
A, B = Queue("a"), Queue("b")


@asynccontextmanager
async def consumer(listener: Any, query: str = "") -> AsyncIterator[Any]:
    url = f"fake://a?jms.watchTopicAdvisories=false&{query}"
    async with await ConnectionFactory(url).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        made = await session.create_consumer(Queue("a,b"))
        await made.set_message_listener(listener)
        yield made


def dispatch(
    brokers: FakeBrokers, consumer: ActiveMQMessageConsumer, number: int, queue: Queue = A
) -> None:
    message = ActiveMQTextMessage(
        producer_id=PRODUCER,
        message_id=MessageId(None, PRODUCER, number),
        destination=queue,
        expiration=1 if number == 0 else 0,
    )
    brokers.connections[-1].deliver(MessageDispatch(consumer.consumer_id, queue, message))


def acks(brokers: FakeBrokers) -> list[tuple[object, ...]]:
    """Return the type, the numbers of first and last message, and the count of each."""
    return [
        (
            AckType(ack.ack_type),
            ack.first_message_id and ack.first_message_id.producer_sequence_id,
            ack.last_message_id and ack.last_message_id.producer_sequence_id,
            ack.message_count,
        )
        for ack in brokers.connections[-1].sent
        if isinstance(ack, MessageAck)
    ]


@pytest.mark.usefixtures("clock")
async def test_a_burst_is_one_range(brokers: FakeBrokers) -> None:
    async with consumer(lambda _: None) as made:
        for number in range(1, 6):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        assert acks(brokers) == [(AckType.STANDARD, 1, 5, 5)]
        dispatch(brokers, made, 6)
        await _clock.sleep(0.001)
        assert acks(brokers)[1:] == [(AckType.STANDARD, 6, 6, 1)]


@pytest.mark.usefixtures("clock")
async def test_quick_calls_make_a_long_burst_with_an_end(brokers: FakeBrokers) -> None:
    async with consumer(lambda _: None) as made:
        for number in range(1, 701):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        counts = [int(str(count)) for *_, count in acks(brokers)]
        assert sum(counts) == 700
        assert 200 < max(counts) <= 512


class SlowClock(VirtualClock):
    """A clock that advances by 0.4 ms each time it is read."""

    def now(self) -> float:
        self._now += 0.0004
        return super().now()


async def test_a_burst_ends_after_a_millisecond(brokers: FakeBrokers) -> None:
    async with SlowClock(autojump=True), consumer(lambda _: None) as made:
        for number in range(1, 201):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        counts = [int(str(count)) for *_, count in acks(brokers)]
        assert sum(counts) == 200
        assert set(counts[:-1]) <= {32, 64, 96}
        assert len(counts) > 2


@pytest.mark.usefixtures("clock")
async def test_nothing_handled_waits_for_a_listener_that_waits(brokers: FakeBrokers) -> None:
    go_on = anyio.Event()
    handled: list[object] = []

    async def listener(message: Any) -> None:
        handled.append(message)
        if len(handled) in {3, 5}:
            await go_on.wait()

    async with consumer(listener) as made:
        for number in range(1, 7):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        assert acks(brokers) == [(AckType.STANDARD, 1, 2, 2)]
        waiting, go_on = go_on, anyio.Event()
        waiting.set()
        await _clock.sleep(0.001)
        assert acks(brokers)[1:] == [(AckType.STANDARD, 3, 4, 2)]
        go_on.set()
        await _clock.sleep(0.001)
        assert acks(brokers)[2:] == [(AckType.STANDARD, 5, 6, 2)]


@pytest.mark.usefixtures("clock")
async def test_another_destination_or_another_kind_of_ack_ends_a_range(
    brokers: FakeBrokers,
) -> None:
    async with consumer(lambda _: None) as made:
        for number, queue in ((1, A), (2, A), (0, A), (3, A), (4, B), (5, B)):
            dispatch(brokers, made, number, queue)
        await _clock.sleep(0.001)
    assert acks(brokers) == [
        (AckType.STANDARD, 1, 2, 2),
        (AckType.EXPIRED, 0, 0, 1),
        (AckType.STANDARD, 3, 3, 1),
        (AckType.STANDARD, 4, 5, 2),
    ]


@pytest.mark.usefixtures("clock")
async def test_a_listener_that_closes_its_consumer_has_acknowledged_what_came_before(
    brokers: FakeBrokers,
) -> None:
    handled: list[object] = []

    async def listener(message: Any) -> None:
        handled.append(message)
        if len(handled) == 3:
            await made.close()

    async with consumer(listener) as made:
        for number in range(1, 6):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        assert acks(brokers) == [(AckType.STANDARD, 1, 3, 3)]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("option", ["sendAcksAsync=false", "messagePrioritySupported=true"])
async def test_each_message_separately(brokers: FakeBrokers, option: str) -> None:
    async with consumer(lambda _: None, f"jms.{option}") as made:
        for number in range(1, 4):
            dispatch(brokers, made, number)
        await _clock.sleep(0.001)
        assert [(first, count) for _, first, _, count in acks(brokers)] == [(1, 1), (2, 1), (3, 1)]
