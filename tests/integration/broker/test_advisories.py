"""The broker's advisories, as a Java client needs them."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic, advisory_topic
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    BrokerInfo,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Throwable,
)
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.filters.advisories import AdvisoryBroker
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.eviction import ConstantPendingMessageLimitStrategy
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import BrokerWith, Connect
from tests.kit.values import present

A = "ActiveMQ.Advisory."
TEMPORARIES = Topic(f"{A}TempQueue,{A}TempTopic")


def destination_info(advisory: ActiveMQMessage) -> DestinationInfo:
    carried = advisory.data_structure
    assert isinstance(carried, DestinationInfo)
    return carried


def properties(message: ActiveMQMessage) -> dict[str, object]:
    assert message.marshalled_properties is not None
    return dict(decode_map(message.marshalled_properties))


async def test_form_of_an_advisory(connect: Connect, service: BrokerService) -> None:
    client = await connect()
    await client.consumer(TEMPORARIES, prefetch_size=1000, no_local=True)
    mine = TemporaryQueue(f"{client.name}:1")
    await client.destination(mine)
    dispatch = await client.dispatched()
    message = dispatch.message
    assert message is not None
    assert dispatch.destination == message.destination == Topic(f"{A}TempQueue")
    assert type(message) is ActiveMQMessage
    assert message.type == "Advisory"
    assert not message.persistent
    assert (message.priority, message.timestamp, message.content) == (0, 0, None)
    assert message.target_consumer_id is None
    assert isinstance(message.producer_id, ProducerId)
    assert (message.producer_id.session_id, message.producer_id.value) == (0, 0)
    assert message.message_id is not None
    assert message.message_id.producer_id == message.producer_id
    assert properties(message) == {
        "originBrokerName": service.broker_name,
        "originBrokerId": str(service.broker_id),
        "originBrokerURL": service.connect_uri,
    }
    told = message.data_structure
    assert isinstance(told, DestinationInfo)
    assert (told.destination, told.operation_type) == (mine, 0)
    assert told.connection_id == client.connection_id


async def test_every_client_gets_advisories_of_all_temporary_destinations_also_earlier_ones(
    connect: Connect,
) -> None:
    first = await connect()
    queue, topic = TemporaryQueue(f"{first.name}:1"), TemporaryTopic(f"{first.name}:2")
    await first.destination(queue)
    await first.destination(topic)
    second = await connect()
    watcher = ConsumerId(second.name, -1, 1)
    await second.request(
        ConsumerInfo(
            watcher, destination=TEMPORARIES, prefetch_size=1000, no_local=True, dispatch_async=True
        )
    )
    replayed = [await second.message(), await second.message()]
    assert {destination_info(m).destination for m in replayed} == {queue, topic}
    assert {m.target_consumer_id for m in replayed} == {watcher}
    await first.destination(queue, operation=1)
    removal = (await second.message()).data_structure
    assert isinstance(removal, DestinationInfo)
    assert (removal.destination, removal.operation_type) == (queue, 1)
    await first.close()
    removal = destination_info(await second.message())
    assert (removal.destination, removal.operation_type) == (topic, 1)


@pytest.mark.fact("activemq-broker 11/Connection")
async def test_connections_come_and_go_without_their_passwords(connect: Connect) -> None:
    watcher = await connect()
    await watcher.consumer(Topic(f"{A}Connection"))
    replayed = await watcher.message()
    assert isinstance(replayed.data_structure, ConnectionInfo)
    assert replayed.data_structure.connection_id == watcher.connection_id
    other = await connect()
    come = await watcher.message()
    assert isinstance(come.data_structure, ConnectionInfo)
    assert come.data_structure.connection_id == other.connection_id
    assert come.data_structure.password == ""
    assert come.data_structure.user_name == "joe"
    assert come.target_consumer_id is None
    await other.close()
    gone = (await watcher.message()).data_structure
    assert isinstance(gone, RemoveInfo)
    assert gone.object_id == other.connection_id


@pytest.mark.fact(
    "activemq-broker 11/Consumer.Queue.X, Consumer.Topic.X",
    "activemq-broker 11/Producer.Queue.X, Producer.Topic.X, Producer.Anonymous",
)
async def test_consumers_and_producers_are_counted(connect: Connect) -> None:
    watcher, other = await connect(), await connect()
    await watcher.consumer(Topic(f"{A}Consumer.Queue.q"))
    await watcher.consumer(Topic(f"{A}Producer.Queue.q"))

    consumer = await other.consumer(Queue("q"))
    message = await watcher.message()
    assert message.destination == Topic(f"{A}Consumer.Queue.q")
    assert isinstance(message.data_structure, ConsumerInfo)
    assert message.data_structure.consumer_id == consumer
    assert properties(message)["consumerCount"] == 1

    producer = await other.producer(Queue("q"))
    message = await watcher.message()
    assert isinstance(message.data_structure, ProducerInfo)
    assert properties(message)["producerCount"] == 1

    await other.remove(producer)
    message = await watcher.message()
    assert isinstance(message.data_structure, RemoveInfo)
    assert message.data_structure.object_id == producer
    assert properties(message)["producerCount"] == 0

    await other.remove(consumer)
    message = await watcher.message()
    assert isinstance(message.data_structure, RemoveInfo)
    assert message.data_structure.object_id == consumer
    assert properties(message)["consumerCount"] == 0
    await other.producer()
    await watcher.nothing_dispatched()


@pytest.mark.fact("activemq-broker V-A2")
async def test_only_a_new_subscriber_gets_the_current_state(connect: Connect) -> None:
    there, late, bystander = await connect(), await connect(), await connect()
    await there.consumer(Queue("q"))
    await there.producer(Queue("q"))
    topics = [f"{A}Connection", f"{A}Queue", f"{A}Consumer.Queue.>", f"{A}Producer.>"]
    for topic in topics:
        await bystander.consumer(Topic(topic))
        first_heard = await bystander.dispatched()
        while present(first_heard.message).data_structure is None:
            first_heard = await bystander.dispatched()
    while bystander._dispatches:
        bystander._dispatches.clear()
    for topic, kind in zip(
        topics, (ConnectionInfo, DestinationInfo, ConsumerInfo, ProducerInfo), strict=True
    ):
        consumer = await late.consumer(Topic(topic))
        count = 3 if kind is ConnectionInfo else 1
        for _ in range(count):
            message = await late.message()
            assert isinstance(message.data_structure, kind)
            assert message.target_consumer_id == consumer
        await late.nothing_dispatched()
    await bystander.nothing_dispatched()


@pytest.mark.fact("activemq-broker V-A2")
async def test_a_long_state_is_told_in_slices_before_anything_else_is_read(
    connect: Connect, service: BrokerService
) -> None:
    """A Java client must know the temporary destination of a request before it gets that."""
    region, queues = service.region_broker, [Queue(f"many.{number}") for number in range(300)]
    for queue in queues:
        region.root.add_destination(region.context, queue)
    client = await connect()
    client.send_command(
        ConsumerInfo(
            ConsumerId(client.name, -1, 1), destination=Topic(f"{A}Queue"), prefetch_size=1000
        )
    )
    await client.send(Queue("after"), "x")
    added = [destination_info(await client.message()).destination for _ in range(301)]
    assert added[:300] == queues
    assert added[300] == Queue("after")


@pytest.mark.fact("activemq-broker V-A2")
async def test_each_kind_of_state_is_told_again_to_who_subscribes(broker_with: BrokerWith) -> None:
    async with broker_with(use_virtual_dest_subs=True) as (_, client):
        for temporary in (TemporaryQueue(f"{client.name}:1"), TemporaryTopic(f"{client.name}:2")):
            await client.destination(temporary)
        for destination in (Queue("q"), Topic("t")):
            await client.producer(destination)
            await client.consumer(destination)
        await client.consumer(Queue("Consumer.a.VirtualTopic.v"))
        for suffix, kind, count in (
            ("Connection", ConnectionInfo, 1),
            ("Queue", DestinationInfo, 2),
            ("Topic", DestinationInfo, 1),
            ("TempQueue", DestinationInfo, 1),
            ("TempTopic", DestinationInfo, 1),
            ("Consumer.Queue.>", ConsumerInfo, 2),
            ("Consumer.Topic.t", ConsumerInfo, 1),
            ("Producer.Queue.q", ProducerInfo, 1),
            ("Producer.Topic.>", ProducerInfo, 1),
            ("VirtualDestination.Consumer.Topic.VirtualTopic.>", ConsumerInfo, 1),
            ("NetworkBridge", BrokerInfo, 0),  # there are no bridges whose state could be told
        ):
            consumer = await client.consumer(Topic(A + suffix), prefetch_size=100)
            for _ in range(count):
                message = await client.message()
                assert isinstance(message.data_structure, kind), suffix
                assert message.target_consumer_id == consumer
            await client.nothing_dispatched()
            await client.remove(consumer)


@pytest.mark.fact("activemq-broker V-A3")
async def test_advisory_topics_are_topics_that_are_not_advised(connect: Connect) -> None:
    client = await connect()
    await client.consumer(Topic("ActiveMQ.Advisory.>"))
    assert (await client.message()).destination == Topic(f"{A}MasterBroker")
    await client.consumer(Topic(f"{A}Consumer.Topic.>"))
    await client.consumer(Topic(f"{A}Topic"))
    await client.producer(Topic(f"{A}Connection"))
    await client.nothing_dispatched()
    await client.consumer(Queue("q"))
    heard = {str(d.destination) for d in [await client.dispatched() for _ in range(2)]}
    assert heard == {f"topic://{A}Queue", f"topic://{A}Consumer.Queue.q"}
    with pytest.raises(Exception, match=r"[Dd]urable|advisory"):
        await client.consumer(Topic(f"{A}Queue"), subscription_name="s")


@pytest.mark.fact("activemq-broker V-A1")
async def test_the_end_of_a_temporary_queue_takes_its_consumers_silently(connect: Connect) -> None:
    watcher, owner = await connect(), await connect()
    queue = TemporaryQueue(f"{owner.name}:1")
    await owner.destination(queue)
    await watcher.consumer(Topic(f"{A}Consumer.>"))
    await watcher.consumer(Topic(f"{A}Producer.>"))
    consumer = await owner.consumer(queue)
    producer = await owner.producer(queue)
    for kind in ("Consumer", "Producer"):
        assert (await watcher.message()).destination == Topic(f"{A}{kind}.Queue.{owner.name}:1")
    await owner.destination(queue, operation=1)
    await owner.remove(producer)
    await owner.remove(consumer)
    await watcher.nothing_dispatched()
    assert advisory_topic("SlowConsumer", queue).physical_name.startswith(
        f"{A}SlowConsumer.TempQueue."
    )
    assert advisory_topic("FastProducer", TemporaryTopic("t")) == Topic(
        f"{A}FastProducer.TempTopic.t"
    )


@pytest.mark.fact(
    "activemq-broker 11/Expired.Queue.X, Expired.Topic.X",
    "activemq-broker 11/MessageDLQd.Queue/Topic.X",
)
async def test_advisories_of_dead_and_expired_messages_have_no_bodies(connect: Connect) -> None:
    client = await connect()
    await client.consumer(Topic(f"{A}MessageDLQd.>"))
    await client.consumer(Topic(f"{A}Expired.>"))
    await client.send(Queue("q"), "bad")
    await client.consumer(Queue("q"))
    bad = await client.dispatched()
    await client.ack(bad, AckType.POISON, poison_cause=Throwable("x", "y"))
    message = await client.message()
    assert message.destination == Topic(f"{A}MessageDLQd.Queue.q")
    assert isinstance(message.data_structure, ActiveMQMessage)
    assert message.data_structure.content is None
    assert message.data_structure.message_id == present(bad.message).message_id

    producer = await client.producer()
    stale = client.text(producer, Queue("q"), "old")
    stale.expiration = 1
    await client.request(stale)
    heard = {}
    for _ in range(2):
        message = await client.message()
        heard[str(message.destination)] = message
    expired = heard[f"topic://{A}Expired.Queue.q"]
    assert properties(expired)["orignalMessageId"] == str(stale.message_id)
    assert f"topic://{A}MessageDLQd.Queue.q" in heard


@pytest.mark.fact("activemq-broker D10")
async def test_a_removed_destination_takes_its_advisory_topics_along(
    connect: Connect, service: BrokerService
) -> None:
    client = await connect()
    await client.consumer(Topic(f"{A}Queue"))
    watcher = await client.consumer(Topic(f"{A}Consumer.Queue.q"))
    await client.destination(Queue("q"))
    assert destination_info(await client.message()).operation_type == 0
    await client.remove(watcher)
    there = service.region_broker.destinations()
    assert Topic(f"{A}Consumer.Queue.q") in there
    await client.destination(Queue("q"), operation=1)
    removal = (await client.message()).data_structure
    assert isinstance(removal, DestinationInfo)
    assert (removal.destination, removal.operation_type) == (Queue("q"), 1)
    assert Topic(f"{A}Consumer.Queue.q") not in service.region_broker.destinations()


@pytest.mark.fact("activemq-broker T10")
@pytest.mark.fact(
    "activemq-broker 11/MessageConsumed.Queue/Topic.X",
    "activemq-broker 11/MessageDiscarded.Queue/Topic.X",
    "activemq-broker 11/SlowConsumer.Queue/Topic.X",
    "activemq-broker 2.1/sendAdvisoryIfNoConsumers, advisoryForSlowConsumers, advisoryForFastProducers, advisoryForDiscardingMessages, advisoryWhenFull, advisoryForDelivery, advisoryForConsumed, includeBodyForAdvisory",
)
async def test_policies_tell_of_consumed_discarded_and_slow(broker_with: BrokerWith) -> None:
    policy = PolicyEntry(
        advisory_for_consumed=True,
        advisory_for_discarding_messages=True,
        advisory_for_slow_consumers=True,
        pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=3),
    )
    async with broker_with(policies=PolicyMap([policy])) as (_, client):
        for event in ("MessageConsumed", "MessageDiscarded", "SlowConsumer"):
            await client.consumer(Topic(f"{A}{event}.>"), prefetch_size=100)
        await client.send(Queue("q"), "x")
        await client.consumer(Queue("q"))
        dispatch = await client.dispatched()
        await client.ack(dispatch)
        consumed = await client.message()
        assert consumed.destination == Topic(f"{A}MessageConsumed.Queue.q")
        assert dispatch.message is not None
        assert properties(consumed)["orignalMessageId"] == str(dispatch.message.message_id)
        assert properties(consumed)["orignalDestination"] == "queue://q"

        reader = await client.consumer(Topic("t"), prefetch_size=2)
        await client.send(Topic("t"), *"123456")
        heard: dict[str, ActiveMQMessage] = {}
        while len(heard) < 2:
            message = await client.message()
            if message.type == "Advisory":
                heard[str(message.destination)] = message
        discarded = heard[f"topic://{A}MessageDiscarded.Topic.t"]
        assert properties(discarded)["orignalDestination"] == "topic://t"
        assert properties(discarded)["consumerId"] == str(reader)
        assert properties(discarded)["discardedCount"] == 1
        slow = heard[f"topic://{A}SlowConsumer.Topic.t"]
        assert isinstance(slow.data_structure, ConsumerInfo)
        assert properties(slow)["consumerId"] == str(reader)


@pytest.mark.fact("activemq-broker 11/MessageDelivered.Queue/Topic.X")
async def test_each_arrival_is_reported_once_also_behind_a_virtual_topic(
    broker_with: BrokerWith,
) -> None:
    policies = PolicyMap([PolicyEntry(advisory_for_delivery=True)])
    async with broker_with(policies=policies) as (_, client):
        for fed in ("Consumer.a.VirtualTopic.t", "Consumer.b.VirtualTopic.t"):
            await client.producer(Queue(fed))
        await client.consumer(Topic(f"{A}MessageDelivered.>"), prefetch_size=100)
        await client.send(Topic("VirtualTopic.t"), "x")
        await client.send(Queue("q,topic://t"), "x")
        heard = [await client.message() for _ in range(5)]
        await client.nothing_dispatched()
        assert {properties(message)["orignalDestination"] for message in heard} == {
            "topic://VirtualTopic.t",
            "queue://Consumer.a.VirtualTopic.t",
            "queue://Consumer.b.VirtualTopic.t",
            "queue://q",
            "topic://t",
        }


@pytest.mark.fact("activemq-broker 11/MessageDispatched...")
async def test_each_dispatch_is_reported_redeliveries_included(broker_with: BrokerWith) -> None:
    policy = PolicyEntry(destination=Queue("q"), advisory_for_dispatched=True)
    async with broker_with(policies=PolicyMap([policy])) as (_, client):
        await client.send(Queue("q"), "x")
        await client.consumer(Topic(f"{A}MessageDispatched.>"), prefetch_size=100)
        for _ in range(2):
            consumer = await client.consumer(Queue("q"))
            seen = [await client.dispatched() for _ in range(2)]
            (message,) = [each.message for each in seen if each.consumer_id == consumer]
            (advisory,) = [each.message for each in seen if each.consumer_id != consumer]
            assert advisory is not None
            assert advisory.destination == Topic(f"{A}MessageDispatched.Queue.q")
            assert message is not None
            assert {
                "orignalMessageId": str(message.message_id),
                "orignalDestination": "queue://q",
                "consumerId": str(consumer),
            }.items() <= properties(advisory).items()
            assert advisory is not None
            carried = advisory.data_structure
            assert isinstance(carried, ActiveMQMessage)
            assert carried.content is None
            await client.remove(consumer)
        await client.nothing_dispatched()


@pytest.mark.fact(
    "activemq-broker 11/FULL.Queue/Topic.X",
    "activemq-broker 11/FastProducer.Queue/Topic.X",
    "activemq-broker 11/NoConsumer.Queue.X / .Topic.X",
    "activemq-broker 2.1/sendAdvisoryIfNoConsumers, advisoryForSlowConsumers, advisoryForFastProducers, advisoryForDiscardingMessages, advisoryWhenFull, advisoryForDelivery, advisoryForConsumed, includeBodyForAdvisory",
)
async def test_full_memory_fast_producers_and_missing_consumers(broker_with: BrokerWith) -> None:
    policy = PolicyEntry(
        destination=Queue("q"),
        advisory_when_full=True,
        advisory_for_fast_producers=True,
        send_advisory_if_no_consumers=True,
        producer_flow_control=False,
        memory_limit=3000,
    )
    async with broker_with(policies=PolicyMap([policy])) as (_, client):
        for event in ("FULL", "FastProducer", "NoConsumer"):
            await client.consumer(Topic(f"{A}{event}.>"), prefetch_size=100)
        producer = await client.producer(Queue("q"))
        for persistent in (True, True, False):
            message = client.text(producer, Queue("q"), "x" * 1000)
            message.persistent = persistent
            await client.request(message)
        heard: dict[str, ActiveMQMessage] = {}
        while len(heard) < 3:
            advisory = await client.message()
            heard[str(advisory.destination)] = advisory
        full = heard[f"topic://{A}FULL.Queue.q"]
        assert str(properties(full)["usageName"]).endswith(":queue://q:memory")
        fast = heard[f"topic://{A}FastProducer.Queue.q"]
        assert properties(fast)["producerId"] == str(producer)
        assert isinstance(fast.data_structure, ProducerInfo)
        unconsumed = heard[f"topic://{A}NoConsumer.Queue.q"]
        assert (unconsumed.type, unconsumed.message_id) == (None, message.message_id)


@pytest.mark.fact("activemq-broker 11/MasterBroker")
@pytest.mark.parametrize("topic", [f"{A}MasterBroker", ">", f"{A}Connection,{A}MasterBroker"])
async def test_a_master_broker_says_so_to_each_new_consumer(connect: Connect, topic: str) -> None:
    for _ in range(2):
        client = await connect()
        consumer = await client.consumer(Topic(topic))
        message = await client.message()
        while message.destination != Topic(f"{A}MasterBroker"):
            message = await client.message()
        assert (message.type, message.data_structure) == ("Advisory", None)
        assert message.target_consumer_id == consumer
        assert sorted(properties(message)) == [
            "originBrokerId",
            "originBrokerName",
            "originBrokerURL",
        ]


@pytest.mark.fact("activemq-broker 11/Producer.Queue.X, Producer.Topic.X, Producer.Anonymous")
async def test_producers_without_a_destination_are_announced_on_demand(
    broker_with: BrokerWith,
) -> None:
    async with broker_with(anonymous_producer_advisory_support=True) as (_, client):
        await client.consumer(Topic(f"{A}Producer.Anonymous"))
        producer = await client.producer()
        message = await client.message()
        assert message.destination == Topic(f"{A}Producer.Anonymous")
        assert isinstance(message.data_structure, ProducerInfo)
        await client.remove(producer)
        assert isinstance((await client.message()).data_structure, RemoveInfo)


@pytest.mark.fact("activemq-broker 11/Consumer.Queue.X, Consumer.Topic.X")
async def test_a_durable_subscription_is_announced_until_its_end(connect: Connect) -> None:
    client = await connect()
    await client.consumer(Topic(f"{A}Consumer.Topic.t"))
    consumer = await client.consumer(Topic("t"), subscription_name="s", client_id=client.name)
    assert isinstance((await client.message()).data_structure, ConsumerInfo)
    await client.remove(consumer)
    assert isinstance((await client.message()).data_structure, RemoveInfo)
    await client.request(RemoveSubscriptionInfo(client.connection_id, "s", client.name))
    assert isinstance((await client.message()).data_structure, RemoveSubscriptionInfo)


async def test_an_advisory_that_cannot_be_sent_has_no_other_effect(
    broker_with: BrokerWith, caplog: pytest.LogCaptureFixture
) -> None:
    class NoAdvisories(BrokerFilter):
        """Stands where the region is, and refuses advisories."""

        def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
            if message.type == "Advisory":
                raise JMSException("no room")
            return self.next.send(exchange, message)

    async with broker_with() as (broker, client):
        link = broker.service.broker
        while not isinstance(link, AdvisoryBroker):
            assert isinstance(link, BrokerFilter)
            link = link.next
        link.next = NoAdvisories(link.next)
        await client.consumer(Topic(f"{A}Queue"))
        await client.destination(Queue("q"))
        await client.nothing_dispatched()
        assert f"Failed to send an advisory to topic://{A}Queue" in caplog.text


@pytest.mark.fact("activemq-broker 11/Queue, Topic, TempQueue, TempTopic")
async def test_all_four_kinds_of_destinations_come_and_go(connect: Connect) -> None:
    client = await connect()
    await client.consumer(
        Topic(",".join(f"{A}{k}" for k in ("Queue", "Topic", "TempQueue", "TempTopic")))
    )
    while client._dispatches:
        await client.dispatched()
    for destination, kind in (
        (Queue("q"), "Queue"),
        (Topic("t"), "Topic"),
        (TemporaryQueue(f"{client.name}:1"), "TempQueue"),
        (TemporaryTopic(f"{client.name}:2"), "TempTopic"),
    ):
        for operation in (0, 1):
            await client.destination(destination, operation)
            message = await client.message()
            assert message.destination == Topic(f"{A}{kind}")
            assert isinstance(message.data_structure, DestinationInfo)
            assert message.data_structure.destination == destination
            assert message.data_structure.operation_type == operation
    await client.destination(Topic(f"{A}Consumer.Queue.x"))
    await client.destination(Topic(f"{A}Consumer.Queue.x"), 1)
    await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker V-A5")
@pytest.mark.parametrize("limit", [1, 200])
async def test_advisories_of_discarded_messages_do_not_recurse(
    broker_with: BrokerWith, limit: int
) -> None:
    """A full consumer of all topics discards a message for each advisory about a discarded one."""
    policy = PolicyEntry(
        destination=Topic(">"),
        pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=limit),
        advisory_for_discarding_messages=True,
        advisory_for_slow_consumers=True,
    )
    async with broker_with(policies=PolicyMap([policy])) as (broker, client):
        for _ in range(2):
            await client.consumer(Topic(">"), prefetch_size=2)
        await client.send(Topic("news"), *("m" * (limit + 10)))
        found = broker.service.broker.destinations()[Topic("news")].consumers
        assert [each.pending_count for each in found] == [limit, limit]


@pytest.mark.fact("activemq-broker V-A5")
async def test_dead_letters_of_discarded_messages_on_a_topic_do_not_recurse(
    broker_with: BrokerWith,
) -> None:
    policy = PolicyEntry(
        destination=Topic(">"),
        pending_message_limit_strategy=ConstantPendingMessageLimitStrategy(limit=200),
        dead_letter_strategy=SharedDeadLetterStrategy(dead_letter_queue=Topic("dead")),
    )
    async with broker_with(policies=PolicyMap([policy])) as (broker, client):
        await client.consumer(Topic(">"), prefetch_size=1)
        await client.send(Topic("news"), *("m" * 210))
        assert broker.service.broker.destinations()[Topic("dead")].statistics.enqueues >= 9
