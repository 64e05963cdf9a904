"""Slow consumers are aborted if the policy of their destination enables it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    MessagePull,
)
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.settings.policies import PolicySettings
from tests.kit.brokers.region import ManualClock, clock
from tests.kit.clients.raw import BrokerWith, RawClient

__all__ = ["clock"]

Q, T = Queue("q"), Topic("t")
DURABLE = {"client_id": "me", "subscription_name": "s"}
KINDS = pytest.mark.parametrize(
    ("destination", "fields"), [(Q, {}), (T, {}), (T, DURABLE)], ids=["queue", "topic", "durable"]
)
ABORT_SLOW = {"type": "abort_slow"}
ABORT_SLOW_ACK = {"type": "abort_slow_ack"}


class Peer(RawClient):
    """A client with a slow consumer, which never acknowledges automatically."""

    async def slow(self, destination: Destination, **fields: Any) -> ConsumerId:
        return await self.consumer(destination, **{"prefetch_size": 2, **fields})

    async def closings(self) -> list[ConsumerId | None]:
        """Return the consumers that the broker has closed so far."""
        await self.nothing_but_commands()
        return [c.consumer_id for c in self.commands if isinstance(c, ConsumerControl) and c.close]

    async def nothing_but_commands(self) -> None:
        """Make a round trip."""
        await self.producer()

    async def texts(self, count: int) -> list[str | None]:
        found = []
        for _ in range(count):
            content = (await self.message()).content
            assert content is not None
            found.append(decode_text(content))
        return found


class World:
    """A broker in memory under one strategy, on a clock of the test's own."""

    def __init__(self, broker: Any, clock: ManualClock, stack: AsyncExitStack) -> None:
        self.broker = broker
        self.clock = clock
        self._stack = stack

    async def client(self) -> Peer:
        peer = Peer(create_transport(self.broker.url))
        await peer.open()
        self._stack.push_async_callback(peer.close)
        return peer

    def consumers(self, destination: Destination) -> int:
        return int(self.broker.queue_statistics(str(destination)).consumers)


@pytest.fixture
async def world(broker_with: BrokerWith, clock: ManualClock) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def make(strategy: dict[str, object]) -> World:
            policy = PolicySettings.model_validate({"slow_consumer_strategy": strategy})
            made = broker_with(policies=PolicyMap([policy.build()]))
            broker, _ = await stack.enter_async_context(made)
            return World(broker, clock, stack)

        yield make


@pytest.mark.fact("activemq-broker T12", "activemq-broker T13")
@KINDS
async def test_a_consumer_that_stays_full_is_aborted(
    world: Callable[..., Any],
    destination: Destination,
    fields: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    there = await world(ABORT_SLOW)
    slow, sender = await there.client(), await there.client()
    consumer = await slow.slow(destination, **fields)
    await sender.send(destination, *"0123456")
    await there.clock.advance(29)
    assert await slow.closings() == []
    with caplog.at_level(logging.WARNING):
        await there.clock.advance(1)
    assert await slow.closings() == [consumer]
    (line,) = [r.getMessage() for r in caplog.records if "aborted" in r.getMessage()]
    assert str(consumer) in line
    assert str(destination) in line
    assert "slow for 30 s (max_slow_duration 30 s)" in line
    assert slow.errors == []


@pytest.mark.fact("activemq-broker T13")
@KINDS
async def test_a_consumer_whose_client_does_not_close_it_is_removed_after_a_second(
    world: Callable[..., Any], destination: Destination, fields: dict[str, str]
) -> None:
    there = await world(ABORT_SLOW)
    slow, sender = await there.client(), await there.client()
    consumer = await slow.slow(destination, **fields)
    await sender.send(destination, *"0123456")
    await there.clock.advance(30)
    assert there.consumers(destination) == 1
    await there.clock.advance(1)
    durable = bool(fields)
    assert there.consumers(destination) == durable  # the subscription stays
    with pytest.raises(Exception, match="had not been registered"):
        await slow.remove(consumer)
    if destination.is_topic and not durable:
        return
    await sender.consumer(destination, **fields)
    assert await sender.texts(7) == list("0123456")


@pytest.mark.fact("activemq-broker T13")
async def test_a_consumer_that_its_client_closes_is_not_removed_again(
    world: Callable[..., Any],
) -> None:
    there = await world(ABORT_SLOW)
    slow = await there.client()
    consumer = await slow.slow(Q)
    await slow.send(Q, *"012345")
    await there.clock.advance(30)
    assert await slow.closings() == [consumer]
    await slow.remove(consumer)
    await slow.slow(Q)
    await there.clock.advance(1)
    assert there.consumers(Q) == 1
    assert slow.errors == []


@pytest.mark.fact("activemq-broker T13")
@KINDS
async def test_consumers_that_recover_or_close_are_not_aborted(
    world: Callable[..., Any], destination: Destination, fields: dict[str, str]
) -> None:
    there = await world(ABORT_SLOW)
    client = await there.client()
    recovering = await client.slow(destination, **fields)
    closing = await client.slow(
        destination, **({**fields, "subscription_name": "c"} if fields else {})
    )
    await client.send(destination, *"0123456789")
    await client.remove(closing)
    acknowledged = 0
    while acknowledged < 10:
        dispatch = await client.dispatched()
        if dispatch.consumer_id == recovering:
            await client.ack(dispatch)
            acknowledged += 1
    await there.clock.advance(31)
    assert await client.closings() == []


@pytest.mark.fact("activemq-broker T13")
async def test_the_number_of_times_a_consumer_becomes_slow_is_limited(
    world: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    there = await world({**ABORT_SLOW, "max_slow_count": 2, "max_slow_duration": "0s"})
    client = await there.client()
    consumer = await client.slow(Q, prefetch_size=1)
    await client.send(Q, *"01")
    await there.clock.advance(30)
    assert await client.closings() == []
    await client.ack(await client.dispatched())
    await client.send(Q, "2")
    await there.clock.advance(30)
    assert await client.closings() == [consumer]
    assert "slow 2 times (max_slow_count 2)" in caplog.text


@pytest.mark.fact("activemq-broker T13")
async def test_the_check_period_is_that_of_the_strategy(world: Callable[..., Any]) -> None:
    there = await world({**ABORT_SLOW, "check_period": "2s", "max_slow_duration": "5s"})
    client = await there.client()
    consumer = await client.slow(Q)
    await client.send(Q, *"01234")
    for _ in range(2):
        await there.clock.advance(2)
        assert await client.closings() == []
    await there.clock.advance(2)
    assert await client.closings() == [consumer]


@pytest.mark.fact("activemq-broker T13")
@pytest.mark.parametrize("strategy", [ABORT_SLOW, ABORT_SLOW_ACK])
async def test_the_connection_is_aborted_instead(
    world: Callable[..., Any], strategy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    there = await world({**strategy, "abort_connection": True, "max_slow_duration": "30s"})
    slow, sender = await there.client(), await there.client()
    await slow.slow(Q)
    await sender.send(Q, *"01234")
    for _ in range(2):
        await there.clock.advance(30)
    assert slow.errors
    slow.closed = True
    assert there.consumers(Q) == 0
    assert "is aborted with its connection" in caplog.text
    await sender.consumer(Q)
    assert await sender.texts(5) == list("01234")


@pytest.mark.fact("activemq-broker T13", "activemq-broker T14")
@pytest.mark.parametrize("strategy", [ABORT_SLOW, ABORT_SLOW_ACK])
@pytest.mark.parametrize("ignored", [True, False])
async def test_consumers_of_a_network_are_ignored(
    world: Callable[..., Any], strategy: dict[str, object], ignored: bool
) -> None:
    there = await world({**strategy, "ignore_network_consumers": ignored})
    client = await there.client()
    consumer = await client.slow(Q, network_subscription=True)
    await client.send(Q, *"01234")
    for _ in range(2):
        await there.clock.advance(30)
    assert await client.closings() == ([] if ignored else [consumer])


@pytest.mark.fact("activemq-broker T14")
@KINDS
async def test_a_consumer_that_does_not_acknowledge_is_aborted(
    world: Callable[..., Any],
    destination: Destination,
    fields: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    there = await world(ABORT_SLOW_ACK)
    client = await there.client()
    consumer = await client.slow(destination, prefetch_size=100, **fields)
    await client.send(destination, "0", "1")
    await there.clock.advance(30)
    assert await client.closings() == []
    await there.clock.advance(30)
    assert await client.closings() == [consumer]
    assert "no acknowledgement for 60 s" in caplog.text


@pytest.mark.fact("activemq-broker T14")
@KINDS
@pytest.mark.parametrize("kind", [AckType.STANDARD, AckType.DELIVERED])
async def test_every_acknowledgement_counts(
    world: Callable[..., Any], destination: Destination, fields: dict[str, str], kind: AckType
) -> None:
    there = await world({**ABORT_SLOW_ACK, "check_period": "10s", "max_slow_duration": "10s"})
    client = await there.client()
    await client.slow(destination, prefetch_size=100, **fields)
    await client.send(destination, *"012345")
    for _ in range(5):
        await there.clock.advance(20)
        await client.ack(await client.dispatched(), kind)
    assert await client.closings() == []
    await there.clock.advance(20)
    await there.clock.advance(20)
    assert len(await client.closings()) == 1


@pytest.mark.fact("activemq-broker T14")
@KINDS
async def test_idle_consumers_are_aborted_where_they_are_not_ignored(
    world: Callable[..., Any], destination: Destination, fields: dict[str, str]
) -> None:
    for ignored in (True, False):
        there = await world({**ABORT_SLOW_ACK, "ignore_idle_consumers": ignored})
        client = await there.client()
        consumer = await client.slow(destination, **fields)
        await client.send(destination, "x")
        await client.ack(await client.dispatched())
        for _ in range(3):
            await there.clock.advance(30)
        assert await client.closings() == ([] if ignored else [consumer])


@pytest.mark.fact("activemq-broker T14")
async def test_a_message_after_a_long_pause_has_the_whole_time(world: Callable[..., Any]) -> None:
    there = await world(ABORT_SLOW_ACK)
    client = await there.client()
    consumer = await client.slow(Q)
    for _ in range(3):
        await there.clock.advance(30)
    await client.send(Q, "x")
    await there.clock.advance(30)
    assert await client.closings() == []
    await there.clock.advance(30)
    assert await client.closings() == [consumer]


@pytest.mark.fact("activemq-broker T13", "activemq-broker T14")
@pytest.mark.parametrize("strategy", [ABORT_SLOW, ABORT_SLOW_ACK])
async def test_a_consumer_without_prefetch_is_slow_only_if_it_does_not_acknowledge(
    world: Callable[..., Any], strategy: dict[str, object]
) -> None:
    there = await world(strategy)
    client = await there.client()
    consumer = await client.slow(Q, prefetch_size=0)
    await client.send(Q, *"01234")
    for _ in range(2):
        await there.clock.advance(30)
    assert await client.closings() == []
    await client.request(MessagePull(consumer, Q, 0))
    await client.message()
    for _ in range(2):
        await there.clock.advance(30)
    expected = [consumer] if strategy is ABORT_SLOW_ACK else []
    assert await client.closings() == expected


async def test_what_messages_another_consumer_takes_does_not_hide_a_full_one(
    world: Callable[..., Any],
) -> None:
    """It is noticed even when it was full before messages waited for it again."""
    there = await world(ABORT_SLOW)
    stuck, quick = await there.client(), await there.client()
    consumer = await stuck.slow(Q, prefetch_size=1)
    await stuck.send(Q, "0", "1")
    taker = await quick.slow(Q)
    await quick.ack(await quick.dispatched())
    await quick.remove(taker)
    await there.clock.advance(30)
    assert await stuck.closings() == []
    await quick.send(Q, "2")
    for _ in range(2):
        await there.clock.advance(30)
    assert await stuck.closings() == [consumer]


@pytest.mark.fact("activemq-broker 2.1/slowConsumerStrategy")
async def test_a_strategy_of_ones_own(broker_with: Any, clock: ManualClock) -> None:
    from pyjms_broker.policy.entry import PolicyEntry

    class Everyone:
        check_period = 5.0
        abort_connection = False

        def watch(self) -> Everyone:
            return self

        def became_slow(self, subscription: Any) -> None:
            raise AssertionError(subscription)

        def check(self, consumers: Any, report_slow: Any) -> dict[Any, str]:
            return dict.fromkeys(consumers, "nobody may stay")

    policies = PolicyMap([PolicyEntry(slow_consumer_strategy=Everyone())])
    async with broker_with(policies=policies) as (_, client):
        consumer = await client.consumer(Q)
        await clock.advance(5)
        control = await client.heard(ConsumerControl)
        assert control.consumer_id == consumer


def test_a_check_period_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="check_period must be more than 0"):
        PolicySettings.model_validate(
            {"slow_consumer_strategy": {**ABORT_SLOW, "check_period": "0s"}}
        )


@pytest.mark.fact("activemq-broker T14")
@pytest.mark.parametrize(
    ("silence", "duration", "is_closed"),
    [("10s", "30s", True), ("100s", "30s", False), ("10s", "100s", False)],
)
async def test_the_times_without_an_acknowledgement(
    world: Callable[..., Any], silence: str, duration: str, is_closed: bool
) -> None:
    there = await world(
        {
            **ABORT_SLOW_ACK,
            "max_time_since_last_ack": silence,
            "max_slow_duration": duration,
            "check_period": "5s",
        }
    )
    client = await there.client()
    consumer = await client.slow(Q)
    await client.send(Q, "x")
    for _ in range(13):
        await there.clock.advance(5)
    assert await client.closings() == ([consumer] if is_closed else [])


@pytest.mark.fact("activemq-broker T14")
@pytest.mark.parametrize("count", [2, 4])
async def test_the_number_of_checks_without_an_acknowledgement(
    world: Callable[..., Any], count: int
) -> None:
    there = await world(
        {**ABORT_SLOW_ACK, "max_slow_count": count, "max_slow_duration": "0s", "check_period": "5s"}
    )
    client = await there.client()
    consumer = await client.slow(Q)
    await client.send(Q, "x")
    for _ in range(6):  # 30 s without an acknowledgement are allowed
        await there.clock.advance(5)
    for number in range(count):
        assert await client.closings() == [], number
        await there.clock.advance(5)
    assert await client.closings() == [consumer]


async def test_a_consumer_that_cannot_be_removed_keeps_no_other_from_it(
    broker_with: BrokerWith, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[ConsumerId | None] = []

    class Refuses(BrokerFilter):
        def remove_consumer(
            self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
        ) -> None:
            if not refused:
                refused.append(info.consumer_id)
                raise JMSException("simulated")
            self.next.remove_consumer(context, info, last_delivered_sequence_id)

    policy = PolicySettings.model_validate({"slow_consumer_strategy": ABORT_SLOW})
    policies = PolicyMap([policy.build()])
    async with broker_with(policies=policies, plugins=[Refuses]) as (broker, _):
        slow = Peer(create_transport(broker.url))
        await slow.open()
        first, second = await slow.slow(T), await slow.slow(T)
        sender = Peer(create_transport(broker.url))
        await sender.open()
        await sender.send(T, *"0123456")
        await clock.advance(30)
        assert await slow.closings() == [first, second]
        with caplog.at_level(logging.ERROR):
            await clock.advance(1)
        assert refused == [first]
        assert f"{first}" in caplog.text
        with pytest.raises(Exception, match="had not been registered"):
            await slow.remove(second)
        await slow.close()
        await sender.close()
