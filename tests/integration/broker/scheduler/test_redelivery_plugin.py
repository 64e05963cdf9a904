"""The redelivery plug-in: the scheduler redelivers failed messages. (activemq-broker R10)"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms_broker.plugins.message_headers import TimeStampingBrokerPlugin, TraceBrokerPathPlugin
from pyjms_broker.plugins.redelivery import RedeliveryPlugin, RedeliveryPolicy
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.store.api import PersistenceAdapter
from tests.kit.brokers.scheduled import Make, Scheduling
from tests.kit.stores.factories import FACTORIES, StoreFactory

DLQ = "ActiveMQ.DLQ"
Q, T = Queue("Q"), Topic("T")


def plugin(*policies: RedeliveryPolicy, **options: Any) -> list[RedeliveryPlugin]:
    return [RedeliveryPlugin(redelivery_policy_map=policies, **options)]


class Failing:
    """A consumer that fails: each message is refused at its first delivery to the client."""

    def __init__(self, broker: Scheduling) -> None:
        self.broker = broker

    async def open(self, where: Destination = Q, client_id: str = "subscriber") -> Failing:
        uri = f"{self.broker.service.vm_uri}?create=false"
        factory = ConnectionFactory(f"{uri}&jms.redeliveryPolicy.maximumRedeliveries=0")
        self.connection = await factory.create_connection()
        if where == T:
            await self.connection.set_client_id(client_id)
        await self.connection.start()
        self.session = await self.connection.create_session(transacted=True)
        if where == T:
            self.consumer = await self.session.create_durable_subscriber(T, "sub")
        else:
            self.consumer = await self.session.create_consumer(where)
        return self

    async def next(self, seconds: float = 1000) -> Message | None:
        return await self.consumer.receive(seconds)

    async def fail_all(self, seconds: float = 1000) -> list[tuple[float, int]]:
        """Refuse all messages until none arrives for this time; return times and counts."""
        began, seen = _clock.time_ms(), []
        while (message := await self.next(seconds)) is not None:
            after = round((_clock.time_ms() - began) / 1000, 1)
            seen.append((after, message.delivery_count))
            await self.session.rollback()
        return seen

    async def close(self) -> None:
        await self.connection.close()


async def fail(broker: Scheduling, where: Destination = Q) -> list[tuple[float, int]]:
    failing = await Failing(broker).open(where)
    seen = await failing.fail_all()
    await failing.close()
    return seen


def policy(**values: Any) -> RedeliveryPolicy:
    return RedeliveryPolicy(**{"maximum_redeliveries": 3, **values})


@pytest.mark.fact("activemq-broker R10", "activemq-broker 1.1/redeliveryPlugin")
@pytest.mark.parametrize(
    ("values", "times"),
    [
        ({}, [0, 1, 2, 3]),
        ({"maximum_redeliveries": 0}, [0]),
        ({"initial_redelivery_delay": 5.0, "redelivery_delay": 10.0}, [0, 5, 15, 25]),
        ({"use_exponential_back_off": True}, [0, 1, 6, 31]),
        ({"use_exponential_back_off": True, "back_off_multiplier": 1.0}, [0, 1, 2, 3]),
        ({"use_exponential_back_off": True, "maximum_redelivery_delay": 7.0}, [0, 1, 6, 13]),
    ],
)
async def test_a_failed_message_is_redelivered_after_its_delay(
    clock: VirtualClock, make_broker: Any, values: dict[str, Any], times: list[float]
) -> None:
    broker = await make_broker(plugins=plugin(policy(**values)))
    sent = await broker.send(text="x", colour="red")
    seen = await fail(broker)
    assert [count for _, count in seen] == list(range(1, len(times) + 1))
    assert [round(after) for after, _ in seen] == times
    (dead,) = await broker.receive(1, DLQ)
    assert (dead.text, dead.message_id) == ("x", sent.message_id)
    assert dead.properties["colour"] == "red"
    assert broker.jobs == []


@pytest.mark.fact("activemq-broker R10")
async def test_a_redelivery_has_its_delay_and_is_the_same_message(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(plugins=plugin(policy(redelivery_delay=4.0)))
    sent = await broker.send(text="x", colour="red", _AMQ_DUPL_ID="d")
    failing = await Failing(broker).open()
    delays = []
    for redelivered in (False, True, True):
        message = await failing.next()
        assert message is not None
        assert message.redelivered is redelivered
        assert message.message_id == sent.message_id
        assert message.properties["colour"] == "red"
        delays.append(message.properties.get("redeliveryDelay"))
        await failing.session.rollback()
    await failing.close()
    assert delays == [None, 1000, 4000]


@pytest.mark.fact("activemq-broker R10")
async def test_collisions_are_avoided_by_chance(clock: VirtualClock, make_broker: Make) -> None:
    varied = policy(
        redelivery_delay=100.0, use_collision_avoidance=True, collision_avoidance_percent=50
    )
    broker = await make_broker(plugins=plugin(varied))
    await broker.send(text="x")
    times = [after for after, _ in await fail(broker)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times[1:])]
    assert all(49 <= gap <= 151 for gap in gaps)
    assert gaps[0] != gaps[1]


@pytest.mark.fact("activemq-broker R10")
async def test_redeliveries_may_be_endless(clock: VirtualClock, make_broker: Make) -> None:
    broker = await make_broker(plugins=plugin(policy(maximum_redeliveries=-1)))
    await broker.send(text="x")
    failing = await Failing(broker).open()
    for count in range(1, 30):
        message = await failing.next()
        assert message is not None
        assert message.delivery_count == count
        await failing.session.rollback()
    assert broker.count(DLQ) == 0
    await failing.close()


@pytest.mark.fact("activemq-broker R10")
@pytest.mark.parametrize(
    ("options", "policies", "dead"),
    [
        ({}, [policy(maximum_redeliveries=1)], 1),
        ({"send_to_dlq_if_max_retries_exceeded": False}, [policy(maximum_redeliveries=1)], 0),
        ({}, [policy(destination=Queue("other"))], 1),
        ({"fallback_to_dead_letter": False}, [policy(destination=Queue("other"))], 0),
        ({"fallback_to_dead_letter": False}, [policy(destination=Topic("Q"))], 0),
        ({"fallback_to_dead_letter": False}, [policy(maximum_redeliveries=1)], 1),
    ],
)
async def test_what_is_not_delivered_again_is_dead_lettered_or_discarded(
    clock: VirtualClock,
    make_broker: Make,
    options: dict[str, Any],
    policies: list[RedeliveryPolicy],
    dead: int,
) -> None:
    broker = await make_broker(plugins=plugin(*policies, **options))
    await broker.send(text="x")
    seen = await fail(broker)
    assert len(seen) == (2 if policies[0].destination is None else 1)
    assert (broker.count(DLQ), broker.count("Q")) == (dead, 0)


@pytest.mark.fact("activemq-broker R10")
@pytest.mark.parametrize(("name", "deliveries"), [("a.b.c", 4), ("a.b", 3), ("a.x.c", 5), ("z", 2)])
async def test_the_most_specific_policy_applies(
    clock: VirtualClock, make_broker: Make, name: str, deliveries: int
) -> None:
    policies = [
        policy(maximum_redeliveries=1),
        policy(destination=Queue("a.>"), maximum_redeliveries=2),
        policy(destination=Queue("a.*.c"), maximum_redeliveries=4),
        policy(destination=Queue("a.b.c"), maximum_redeliveries=3),
        policy(destination=Topic(">"), maximum_redeliveries=9),
    ]
    broker = await make_broker(plugins=plugin(*policies))
    await broker.send(name, "x")
    assert len(await fail(broker, Queue(name))) == deliveries


@pytest.mark.fact("activemq-broker R10")
async def test_an_expired_message_is_dead_lettered_at_once(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(plugins=plugin(policy()))
    await broker.send(text="x", how={"time_to_live": 5})
    failing = await Failing(broker).open()
    assert await failing.next() is not None
    await _clock.sleep(6)
    await failing.session.rollback()
    assert await failing.next(100) is None
    await failing.close()
    assert (broker.count(DLQ), broker.jobs) == (1, [])


@pytest.mark.fact("activemq-broker R10")
async def test_a_scheduled_message_that_fails_is_delivered_again(
    clock: VirtualClock, make_broker: Make
) -> None:
    broker = await make_broker(plugins=plugin(policy(maximum_redeliveries=1)))
    await broker.order("x", delay=10_000)
    seen = await fail(broker)
    assert [round(after) for after, _ in seen] == [10, 11]
    assert broker.count(DLQ) == 1


@pytest.mark.fact("activemq-broker R10")
async def test_a_topic_gets_the_message_again(clock: VirtualClock, make_broker: Make) -> None:
    broker = await make_broker(plugins=plugin(policy(maximum_redeliveries=2)))
    failing = await Failing(broker).open(T)
    await broker.send(T, "x")
    seen = await failing.fail_all()
    await failing.close()
    assert [(round(after), count) for after, count in seen] == [(0, 1), (1, 2), (2, 3)]
    assert broker.count(DLQ) == 1


@pytest.mark.fact("activemq-broker R10")
@pytest.mark.parametrize("persistent", [True, False])
async def test_each_copy_of_a_message_in_several_queues_is_redelivered(
    make_broker: Make, persistent: bool
) -> None:
    policies = [policy(maximum_redeliveries=1)]
    broker = await make_broker(persistent=persistent, plugins=plugin(*policies))
    sent = await broker.send("A,B", "x")
    queues = [await Failing(broker).open(Queue(name)) for name in "AB"]
    for failing in queues:
        assert await failing.next(10) is not None
    for failing in queues:
        await failing.session.rollback()
    for failing in queues:
        message = await failing.next(10)
        assert message is not None
        assert (message.delivery_count, message.message_id) == (2, sent.message_id)
        await failing.session.commit()
        await failing.close()


@pytest.mark.fact("activemq-broker R10")
async def test_a_message_that_another_subscriber_has_not_read_is_redelivered(
    make_broker: Make,
) -> None:
    broker = await make_broker(persistent=True, plugins=plugin(policy(maximum_redeliveries=1)))
    await (await Failing(broker).open(T, "offline")).close()
    failing = await Failing(broker).open(T)
    await broker.send(T, "x")
    assert await failing.next(10) is not None
    await failing.session.rollback()
    message = await failing.next(10)
    assert message is not None
    assert message.delivery_count == 2
    await failing.session.commit()
    await failing.close()


async def test_other_plugins_leave_a_redelivery_unchanged(
    clock: VirtualClock, make_broker: Make
) -> None:
    inside = [TraceBrokerPathPlugin(), TimeStampingBrokerPlugin()]
    broker = await make_broker(plugins=[*inside, *plugin(policy())], populate_jmsx_user_id=True)
    await broker.send(text="x")
    failing = await Failing(broker).open()
    first = await failing.next()
    await failing.session.rollback()
    second = await failing.next()
    assert first is not None
    assert second is not None
    assert second.timestamp == first.timestamp
    assert second.properties["BrokerPath"] == broker.service.broker_name
    await failing.close()


class StoreOf:
    """Creates the store of one of the contract suite's factories."""

    directory_name: str | None = "store"

    def __init__(self, factory: StoreFactory) -> None:
        self._factory = factory

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        return self._factory.make(directory)


STORES = [each for each in FACTORIES if each.persistent and not each.marks]


@pytest.mark.fact("activemq-broker R10")
@pytest.mark.parametrize("mode", [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT])
@pytest.mark.parametrize("factory", STORES, ids=lambda each: each.name)
async def test_a_redelivery_survives_a_restart(
    make_broker: Make, mode: DeliveryMode, factory: StoreFactory
) -> None:
    broker = await make_broker(
        persistent=True,
        plugins=plugin(policy(redelivery_delay=1.0)),
        persistence=StoreOf(factory),
    )
    await broker.send(text="x", how={"delivery_mode": mode})
    failing = await Failing(broker).open()
    assert await failing.next() is not None
    await failing.session.rollback()
    await broker.until(lambda: len(broker.jobs) == 1 and broker.count("Q") == 0)
    await failing.close()
    await broker.restart()
    failing = await Failing(broker).open()
    message = await failing.next(10)
    assert message is not None
    assert isinstance(message, TextMessage)
    assert (message.text, message.delivery_count) == ("x", 2)
    await failing.session.commit()
    await broker.until(lambda: not broker.jobs and broker.count("Q") == 0)
    await failing.close()
    await broker.restart()
    assert (broker.count("Q"), broker.count(DLQ), broker.jobs) == (0, 0, [])


@pytest.mark.fact("activemq-broker R10")
async def test_the_plugin_needs_the_scheduler() -> None:
    service = BrokerService("unscheduled", persistent=False, plugins=plugin(policy()))
    with pytest.raises(ConfigurationException, match="set scheduler_support: true"):
        await service.start()


@pytest.mark.fact("activemq-broker R10")
@pytest.mark.parametrize("name", ["initial_redelivery_delay", "redelivery_delay"])
def test_delays_below_a_second_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationException, match=f"{name} of a redelivery policy is 0.5 s"):
        policy(**{name: 0.5})
    file = tmp_path / "broker.yaml"
    file.write_text(
        f"plugins:\n  - type: redelivery\n    redelivery_policy_map:\n      - {name}: 999ms\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationException, match=f"broker.yaml:4: .*{name} .* is 0.999 s"):
        load_broker_settings(file, environ={})


@pytest.mark.parametrize("destination", [None, Queue("a")])
def test_a_destination_has_one_policy(destination: Queue | None) -> None:
    with pytest.raises(ConfigurationException, match="more than one policy"):
        plugin(policy(destination=destination), policy(destination=destination))


@pytest.mark.fact("activemq-broker 1.1/redeliveryPlugin")
async def test_policies_in_broker_yaml(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "scheduler_support: true\npersistent: false\nplugins:\n  - redelivery\n"
        "  - type: redelivery\n    fallback_to_dead_letter: false\n"
        "    redelivery_policy_map:\n      - {}\n"
        "      - {destination: topic://a.>, redelivery_delay: 5s, maximum_redeliveries: -1}\n",
        encoding="utf-8",
    )
    settings = load_broker_settings(file, environ={})
    first, second = (each.build() for each in settings.plugins)  # type: ignore[attr-defined]
    assert first == RedeliveryPlugin(
        send_to_dlq_if_max_retries_exceeded=True,
        fallback_to_dead_letter=True,
        redelivery_policy_map=(),
    )
    default, topics = second.redelivery_policy_map
    assert default == RedeliveryPolicy(
        maximum_redeliveries=6,
        initial_redelivery_delay=1,
        redelivery_delay=1,
        use_exponential_back_off=False,
        back_off_multiplier=5,
        maximum_redelivery_delay=0,
        use_collision_avoidance=False,
        collision_avoidance_percent=15,
    )
    assert (topics.destination, topics.redelivery_delay, topics.maximum_redeliveries) == (
        Topic("a.>"),
        5,
        -1,
    )
    async with BrokerService.from_settings(settings) as service:
        assert service.started
