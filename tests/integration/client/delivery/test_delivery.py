"""Order, redelivery, expiry and dead letters: JMS section 4.4.11; activemq-broker 7.3."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import RedeliveryPolicy
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import MessageDispatch
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client
from tests.kit.values import present

TRANSACTED, CLIENT = AcknowledgeMode.TRANSACTED, AcknowledgeMode.CLIENT


@pytest.mark.fact("jms-api 10.1")
async def test_messages_of_one_session_arrive_in_sending_order(client: Client) -> None:
    session = await client.session()
    producers = [await session.create_producer(Queue("q")) for _ in range(3)]
    for number in range(60):
        await producers[number % 3].send(session.create_text_message(str(number)))
    assert await client.left("q") == [str(n) for n in range(60)]


@pytest.mark.fact("jms-api 10.2")
async def test_priority_is_ignored_by_default(client: Client) -> None:
    session = await client.session()
    producer = await session.create_producer(Queue("q"))
    for index, priority in enumerate((1, 9, 5, 4, 9)):
        await producer.send(session.create_text_message(f"p{priority}-{index}"), priority=priority)
    recorded = client.oracle("jms-expiry-order-ack")
    key = "order of priorities 1,9,5,4,9 (broker default: prioritizedMessages=false)"
    assert await client.left("q") == recorded[key]


@pytest.mark.fact("activemq-broker Q20")
async def test_priority_support_sorts_what_was_prefetched(client: Client) -> None:
    await client.send("q", "low", priority=1)
    await client.send("q", "high", "high too", priority=9)
    await client.send("q", "middle", priority=5)
    for mode in (AcknowledgeMode.TRANSACTED, AcknowledgeMode.CLIENT):
        session = await client.session(mode, message_priority_supported=True)
        consumer = await session.create_consumer(Queue("q"))
        await client.settle()
        got = [client.text(m) for m in await client.receive_all(consumer)]
        assert got == ["high", "high too", "middle", "low"]
        if mode == TRANSACTED:
            await session.rollback()
            again = [client.text(m) for m in await client.receive_all(consumer, 2)]
            assert again == got
        else:
            session.acknowledge()
        await session.close()
    assert await client.left("q") == []


@pytest.mark.fact("jms-api 10.4")
async def test_redelivery_is_marked_counted_and_comes_first(client: Client) -> None:
    await client.send("q", "1", "2")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(Queue("q"))
    for count in ("1#1", "1#2*", "1#3*"):
        assert client.delivery(await consumer.receive(2)) == count
        await session.rollback()
    await session.close()
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    first = await consumer.receive(1)
    assert first is not None
    assert first.redelivered
    assert first is not None
    assert first.properties["JMSXDeliveryCount"] == first.delivery_count
    assert client.delivery(await consumer.receive(1)) == "2#1"
    connection = session.connection
    await connection.transport.stop()  # the connection is lost
    await client.settle()
    taken = await client.take("q")
    assert [client.text(m) for m in taken] == ["1", "2"]
    assert all(m.redelivered for m in taken)


@pytest.mark.fact("jms-api 10.5")
async def test_rollback_after_the_consumer_was_closed(client: Client) -> None:
    key = "two received in a transaction, consumer closed, rollback; new consumer gets"
    recorded = client.oracle("jms-expiry-order-ack")[key]
    await client.send("q", "m1", "m2", "m3")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(Queue("q"))
    first = [client.text(await consumer.receive(1)) for _ in range(2)]
    await consumer.close()
    await session.rollback()
    other = await session.create_consumer(Queue("q"))
    second = [client.delivery(m) for m in await client.receive_all(other)]
    assert {"first": first, "second": second} == recorded


@pytest.mark.fact("jms-api 10.6", "activemq-edges N10")
async def test_expired_messages_end_in_the_dead_letter_queue_if_persistent(
    client: Client, clock: VirtualClock
) -> None:
    recorded = client.oracle("jms-expiry-order-ack")
    session = await client.session()
    consumer = await session.create_consumer(Queue("e"))
    await client.send("e", "short", time_to_live=1)
    await client.send("e", "gone", time_to_live=1, delivery_mode=DeliveryMode.NON_PERSISTENT)
    await client.send("e", "long", time_to_live=60)
    await clock.sleep(2)
    received = [client.text(m) for m in await client.receive_all(consumer)]
    assert received == recorded["received after expiry"]
    (dead,) = await client.take("ActiveMQ.DLQ")
    (expected,) = recorded["dlq after expiry"]
    assert client.text(dead) == expected["text"]
    assert str(dead.destination) == expected["JMSDestination"]
    assert str(dead.original_destination) == expected["originalDestination"]
    assert (dead.delivery_mode, dead.priority, dead.expiration) == (2, 4, 0)
    assert client.delivery(dead) == "short#1"
    assert list(dead.properties) == expected["propertyNames"]
    cause = str(dead.properties["dlqDeliveryFailureCause"])
    start, number = cause.split("Expiration:")
    assert start == "java.lang.Throwable: Message Expired. "
    assert int(number) == dead.timestamp + 1000


VARIANTS = {
    "defaults of the client RedeliveryPolicy (max 6, 1000 ms)": {},
    "initialRedeliveryDelay=100, redeliveryDelay left at 1000, max=2": {
        "initial_redelivery_delay": 0.1,
        "maximum_redeliveries": 2,
    },
    "exponential: initial=100, multiplier=2, max=4": {
        "initial_redelivery_delay": 0.1,
        "redelivery_delay": 0.05,
        "use_exponential_back_off": True,
        "back_off_multiplier": 2.0,
        "maximum_redeliveries": 4,
    },
    "maximumRedeliveries=0": {
        "initial_redelivery_delay": 0.05,
        "redelivery_delay": 0.05,
        "maximum_redeliveries": 0,
    },
    "nonBlockingRedelivery=true, delay 300": {
        "initial_redelivery_delay": 0.3,
        "redelivery_delay": 0.3,
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.fact(
    "activemq-broker R1",
    "activemq-broker R3",
    "activemq-broker R4",
    "activemq-broker R9",
    "jms-api 10.7",
    "jms-api 10.8",
    "spring-jms 11.1",
    "spring-jms 11.2",
    "spring-jms 11.3",
    "spring-jms 11.4",
)
async def test_rollback_redelivers_with_the_policys_delays_then_dead_letters(
    client: Client, clock: VirtualClock, variant: str
) -> None:
    recorded = next(
        line for line in client.oracle("rollback-redelivery-dlq") if line["variant"] == variant
    )
    await client.send("orders", "A", "B", "C")
    connection = await client.connect(non_blocking_redelivery="nonBlocking" in variant)
    for name, value in VARIANTS[variant].items():
        setattr(connection.redelivery_policy, name, value)
    session = await client.session(TRANSACTED, connection=connection)
    consumer = await session.create_consumer(Queue("orders"))
    deliveries: list[str | None] = []
    gaps: list[float] = []
    last: float | None = None
    while (message := await consumer.receive(10)) is not None:
        deliveries.append(client.delivery(message))
        if client.text(message) == "B":
            if last is not None:
                gaps.append(clock.now() - last)
            last = clock.now()
            await session.rollback()
        else:
            await session.commit()
    assert deliveries == recorded["deliveries"]
    assert gaps == pytest.approx([ms / 1000 for ms in recorded["gapsMsOfB"]], abs=0.05)
    (dead,) = await client.take("ActiveMQ.DLQ")
    (expected,) = recorded["dlq"]
    assert client.text(dead) == expected["text"]
    assert str(dead.destination) == expected["JMSDestination"]
    assert str(dead.original_destination) == expected["originalDestination"]
    assert dict(dead.properties) == expected["properties"]
    assert client.delivery(dead) == "B#1"
    assert (dead.delivery_mode, dead.priority, dead.expiration) == (2, 4, 0)
    assert await client.left("orders") == []


@pytest.mark.fact("jms-api 10.7", "spring-jms 11.4")
async def test_unlimited_redelivery_never_dead_letters(client: Client, clock: VirtualClock) -> None:
    await client.send("q", "B", "C")
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = -1
    session = await client.session(TRANSACTED, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    for count in range(1, 30):
        assert present(await consumer.receive(2)).delivery_count == count
        await session.rollback()
    await session.close()
    assert await client.left("ActiveMQ.DLQ") == []
    assert await client.left("q") == ["B", "C"]


@pytest.mark.parametrize("how", ["CLIENT recover()", "transacted rollback()"])
@pytest.mark.fact("jms-api 10.7", "spring-jms 11.5", "activemq-broker R4")
async def test_a_batch_is_poisoned_as_a_whole(client: Client, how: str) -> None:
    recorded = next(line for line in client.oracle("unacked-batch-poison") if line["how"] == how)
    await client.send("q", "a", "b", "c", "d")
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 2
    mode = CLIENT if how.startswith("CLIENT") else TRANSACTED
    session = await client.session(mode, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    rounds: list[str] = []
    for _ in range(3):
        for _ in range(3):
            message = await consumer.receive(2)
            assert message is not None
            rounds.append(f"{client.text(message)}#{message.delivery_count}")
        await (session.recover() if mode == CLIENT else session.rollback())
    last = await consumer.receive(2)
    await session.close()
    assert rounds == recorded["received3PerRound"]
    assert last is not None
    assert (
        f"{client.text(last)}#{last.delivery_count}" == (recorded["nextReceiveAfterThirdRollback"])
    )
    assert await client.left("ActiveMQ.DLQ") == recorded["dlq"]
    assert await client.left("q") == recorded["queue"]


@pytest.mark.fact("jms-api 10.7")
async def test_poisoned_non_persistent_messages_are_kept_if_the_policy_says_so(
    clock: VirtualClock,
) -> None:
    strategy = SharedDeadLetterStrategy(process_non_persistent=True)
    policies = PolicyMap([PolicyEntry(destination=Queue(">"), dead_letter_strategy=strategy)])
    service = BrokerService("keeping", persistent=False, policies=policies)
    async with EmbeddedTestBroker(service) as broker:
        factory = ConnectionFactory(broker.url)
        factory.redelivery_policy.maximum_redeliveries = 0
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session(True)
            producer = await session.create_producer(Queue("q"))
            await producer.send(
                session.create_text_message("x"), delivery_mode=DeliveryMode.NON_PERSISTENT
            )
            await session.commit()
            await (await session.create_consumer(Queue("q"))).receive(1)
            await session.rollback()
            dlq = await session.create_consumer(Queue("ActiveMQ.DLQ"))
            dead = await dlq.receive(1)
            assert dead is not None
            assert dead.delivery_mode == DeliveryMode.PERSISTENT
            assert dead is not None
            assert dead.properties["originalDeliveryMode"] == "NON_PERSISTENT"


@pytest.mark.fact("jms-api 10.7")
async def test_poisoned_non_persistent_messages_are_dropped(client: Client) -> None:
    await client.send("q", "x", delivery_mode=DeliveryMode.NON_PERSISTENT)
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 0
    session = await client.session(TRANSACTED, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    await consumer.receive(1)
    await session.rollback()
    assert await consumer.receive(1) is None
    assert await client.left("ActiveMQ.DLQ") == []


@pytest.mark.fact("activemq-broker R2", "activemq-broker R4")
async def test_closing_a_session_with_an_open_transaction_is_a_failed_delivery(
    client: Client,
) -> None:
    await client.send("q", "x")
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 0
    session = await client.session(TRANSACTED, connection=connection)
    await (await session.create_consumer(Queue("q"))).receive(1)
    await session.close()
    assert await client.left("q") == []
    assert await client.left("ActiveMQ.DLQ") == ["x"]


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.fact("activemq-broker R0", "activemq-broker R5")
async def test_a_transacted_consumer_refuses_what_has_come_too_often_already(
    client: Client, checks: bool
) -> None:
    await client.send("q", "x", "y")
    for _ in range(3):
        session = await client.session(CLIENT)
        assert client.text(await (await session.create_consumer(Queue("q"))).receive(1)) == "x"
        await session.connection.close()
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 2
    connection.redelivery_policy.pre_dispatch_check = checks
    checking = await client.session(TRANSACTED, connection=connection)
    consumer = await checking.create_consumer(Queue("q"))
    if not checks:
        assert client.delivery(await consumer.receive(1)) == "x#4*"
        return
    assert client.text(await consumer.receive(1)) == "y"
    (dead,) = await client.take("ActiveMQ.DLQ")
    assert client.text(dead) == "x"
    assert "Dispatch[3] to " in str(dead.properties["dlqDeliveryFailureCause"])


@pytest.mark.fact("activemq-broker R6")
async def test_the_broker_counts_one_failed_delivery_for_each_lost_session(client: Client) -> None:
    await client.send("q", "x")
    connection = await client.connect()
    session = await client.session(TRANSACTED, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    for count in (1, 2, 3):
        assert present(await consumer.receive(2)).delivery_count == count
        await session.rollback()
    await session.close()
    for count in (2, 3):
        session = await client.session(CLIENT)
        consumer = await session.create_consumer(Queue("q"))
        assert present(await consumer.receive(1)).delivery_count == count
        await session.connection.close()


@pytest.mark.fact("activemq-broker R7")
async def test_policies_by_destination(client: Client) -> None:
    factory = client.factory()
    one, two = [await factory.create_connection() for _ in range(2)]
    client.opened += [one, two]
    own, wide, widest = RedeliveryPolicy(), RedeliveryPolicy(), RedeliveryPolicy()
    factory.redelivery_policy_map.put(Queue("a.b.c"), own)
    factory.redelivery_policy_map.put(Queue("a.*.c"), wide)
    factory.redelivery_policy_map.put(Queue("a.>"), widest)
    session = await one.create_session()
    chosen = {
        name: (await session.create_consumer(destination)).redelivery_policy
        for name, destination in {
            "exact": Queue("a.b.c"),
            "star": Queue("a.x.c"),
            "rest": Queue("a.x"),
            "none": Queue("b"),
            "topic": Topic("a.b.c"),
        }.items()
    }
    default = factory.redelivery_policy
    assert chosen["exact"] is own
    assert chosen["star"] is wide
    assert chosen["rest"] is widest
    assert chosen["none"] is default
    assert chosen["topic"] is default
    assert one.redelivery_policy is two.redelivery_policy is default
    await client.send("c", "x")
    await one.start()
    session = await one.create_session(True)
    consumer = await session.create_consumer(Queue("c"))
    consumer.redelivery_policy = RedeliveryPolicy(maximum_redeliveries=0)
    await consumer.receive(1)
    await session.rollback()
    assert await client.left("ActiveMQ.DLQ") == ["x"]


@pytest.mark.fact("jms-api 10.9")
async def test_a_crash_before_the_acknowledgement_brings_a_marked_duplicate(
    client: Client,
) -> None:
    await client.send("q", "x")
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    assert client.delivery(await consumer.receive(1)) == "x#1"
    await session.connection.transport.stop()
    await client.settle()
    assert [client.delivery(m) for m in await client.take("q")] == ["x#2*"]


@pytest.mark.fact("spring-jms 11.6")
async def test_a_failing_virtual_topic_consumer_leaves_the_other_alone(client: Client) -> None:
    recorded = client.oracle("virtual-topic")[0]
    name = "VirtualTopic.test_topic"
    connection = await client.connect()
    session = await client.session(TRANSACTED, connection=connection)
    failing = await session.create_consumer(Queue(f"Consumer.A.{name}"))
    other = await (await client.session()).create_consumer(Queue(f"Consumer.B.{name}"))
    await client.send(Topic(name), *[f"text {n}" for n in range(1, 7)])
    deliveries: list[str | None] = []
    destinations: set[str] = set()
    while (message := await failing.receive(5)) is not None:
        deliveries.append(client.delivery(message))
        destinations.add(str(message.destination))
        await session.rollback()
    assert deliveries == recorded["A.deliveries"]
    assert destinations == {recorded["JMSDestination seen by A"]}
    got = [client.delivery(m) for m in await client.receive_all(other)]
    assert got == recorded["B.deliveries"]
    dead = await client.take("ActiveMQ.DLQ")
    assert [client.text(m) for m in dead] == recorded["dlqTexts"]
    expected = recorded["firstDlqMessage"]["originalDestination"]
    assert {str(m.original_destination) for m in dead} == {expected}


async def test_listeners_wait_for_the_redelivery_delay(client: Client, clock: VirtualClock) -> None:
    await client.send("q", "bad", "good")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    times: list[tuple[str | None, float]] = []
    done = anyio.Event()
    begin = clock.now()

    def listener(message: Message) -> None:
        times.append((client.text(message), clock.now() - begin))
        if client.text(message) == "good":
            done.set()
        elif message.delivery_count < 3:
            raise ValueError("not yet")

    await consumer.set_message_listener(listener)
    await done.wait()
    assert [text for text, _ in times] == ["bad", "bad", "bad", "good"]
    assert [at for _, at in times] == pytest.approx([0, 1, 2, 2], abs=0.01)


@pytest.mark.fact("activemq-broker R3a")
async def test_each_message_has_its_own_back_off(client: Client, clock: VirtualClock) -> None:
    await client.send("q", *"abcd")
    connection = await client.connect(non_blocking_redelivery=True)
    policy = connection.redelivery_policy
    policy.use_exponential_back_off, policy.back_off_multiplier = True, 2.0
    session = await client.session(TRANSACTED, connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    begin, arrivals = clock.now(), dict[str | None, list[float]]()
    while (message := await consumer.receive(9)) is not None:
        arrivals.setdefault(client.text(message), []).append(clock.now() - begin)
        await (session.commit() if message.delivery_count > 3 else session.rollback())
    assert [arrivals[text] for text in "abcd"] == [pytest.approx([0, 1, 3, 7], abs=0.01)] * 4


async def test_a_listener_may_return_a_value(client: Client) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    await consumer.set_message_listener(lambda message: message)  # type: ignore[arg-type,return-value]
    await client.send("q", "a")
    await client.broker.drained("q")
    assert await client.left("ActiveMQ.DLQ") == []


async def test_non_blocking_redelivery_ends_with_the_consumer(client: Client) -> None:
    await client.send("q", "bad", "good")
    session = await client.session(TRANSACTED, non_blocking_redelivery=True)
    consumer = await session.create_consumer(Queue("q"))
    await consumer.receive(1)
    await session.rollback()
    assert client.text(await consumer.receive(0.5)) == "good"
    await session.commit()
    await consumer.close()
    assert [client.delivery(m) for m in await client.take("q")] == ["bad#2*"]


async def test_a_duplicate_dispatch_is_refused(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.send("q", "x")
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    message = await consumer.receive(1)
    assert message is not None
    consumer.dispatch(cast("MessageDispatch", message.provider_delivery))
    await client.settle()
    assert consumer.buffered == 0
    assert "suppresses a duplicate delivery" in caplog.text
    assert await client.left("ActiveMQ.DLQ") == ["x"]


@pytest.mark.fact("activemq-broker A6")
@pytest.mark.parametrize(
    "query",
    ["jms.transactedIndividualAck=true", "jms.nonBlockingRedelivery=true", "jms.sendTimeout=0"],
)
async def test_a_listener_may_commit_what_it_was_given(client: Client, query: str) -> None:
    connection = await client.connect(query=query)
    session = await connection.create_session(True)
    committed: list[str | None] = []

    async def listen(message: Any) -> None:
        await session.commit()
        committed.append(client.delivery(message))

    await (await session.create_consumer(Queue("q"))).set_message_listener(listen)
    await client.send("q", "a", "b")
    await client.settle()
    assert committed == ["a#1", "b#1"]
    await connection.close()
    assert await client.left("q") == []
