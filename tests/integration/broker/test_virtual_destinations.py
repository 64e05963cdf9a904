"""Virtual topics, composite destinations and mirrored queues, through the whole broker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.errors import InvalidSelectorException, JMSException, ResourceAllocationException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ActiveMQMessage, BrokerId, TransactionType
from pyjms.wire.openwire.primitives import decode_text, encode_map
from pyjms_broker.filters.composite_queues import (
    CompositeQueue,
    CompositeTopic,
    FilteredDestination,
)
from pyjms_broker.filters.virtual_destinations import MirroredQueue, VirtualTopic
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.recovery import FixedCountSubscriptionRecoveryPolicy
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import BrokerWith, Connect, RawClient
from tests.kit.values import present

T = Topic("VirtualTopic.t")
A, B = Queue("Consumer.A.VirtualTopic.t"), Queue("Consumer.B.VirtualTopic.t")


def body(message: ActiveMQMessage) -> str | None:
    return decode_text(message.content or b"")


@pytest.mark.fact("activemq-broker V2")
async def test_existing_queues_get_copies_then_the_topics_own_consumers(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.destination(A)
    await client.send(T, "early")
    await client.destination(B)
    await client.consumer(T)
    await client.send(T, "x")
    live = await client.message()
    assert (body(live), live.destination, live.original_destination) == ("x", T, None)
    assert test_broker.queue_statistics(A.physical_name).messages == 2
    assert test_broker.queue_statistics(B.physical_name).messages == 1
    await client.consumer(A)
    for text in ("early", "x"):
        copy = await client.message()
        assert (body(copy), copy.destination, copy.original_destination) == (text, A, T)
    await client.consumer(B)
    assert body(await client.message()) == "x"


async def test_copies_share_the_transaction_of_the_send(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.destination(A)
    await client.destination(B)
    for number, end, count in (
        (1, TransactionType.ROLLBACK, 0),
        (2, TransactionType.COMMIT_ONE_PHASE, 1),
    ):
        xid = client.local(number)
        await client.transaction(TransactionType.BEGIN, xid)
        await client.send(T, "x", transaction_id=xid)
        assert test_broker.queue_statistics(A.physical_name).messages == 0
        await client.transaction(end, xid)
        assert test_broker.queue_statistics(A.physical_name).messages == count
        assert test_broker.queue_statistics(B.physical_name).messages == count


async def test_a_queue_that_was_removed_gets_nothing(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.destination(A)
    await client.send(T, "x")
    await client.destination(A, operation=1)
    await client.send(T, "y")
    assert test_broker.queue_statistics(A.physical_name).messages == 0
    await client.destination(A)
    await client.send(T, "z")
    assert test_broker.queue_statistics(A.physical_name).messages == 1


@pytest.mark.fact("activemq-broker V1")
async def test_names_and_defaults(broker_with: BrokerWith) -> None:
    default = VirtualTopic()
    assert (default.name, default.prefix, default.postfix) == ("VirtualTopic.>", "Consumer.*.", "")
    assert not default.selector_aware
    assert not default.local
    assert not default.drop_on_resource_limit
    assert default.set_original_destination
    async with broker_with([VirtualTopic("orders.*", prefix="VQ.*.", postfix=".q")]) as (
        broker,
        client,
    ):
        for name in ("VQ.A.orders.eu.q", "VQ.B.orders.eu.q", "VQ.A.orders.us.q", "Consumer.A.x"):
            await client.destination(Queue(name))
        await client.destination(A)
        await client.send(Topic("orders.eu"), "x")
        await client.send(T, "y")
        counts = {
            name: broker.queue_statistics(name).messages
            for name in ("VQ.A.orders.eu.q", "VQ.B.orders.eu.q", "VQ.A.orders.us.q")
        }
        assert counts == {"VQ.A.orders.eu.q": 1, "VQ.B.orders.eu.q": 1, "VQ.A.orders.us.q": 0}
        assert broker.queue_statistics(A.physical_name).messages == 0  # V8: the default is gone


@pytest.mark.fact("activemq-broker V8")
async def test_given_virtual_destinations_replace_the_default(broker_with: BrokerWith) -> None:
    for virtual, attributes, copies in (
        (None, {}, 1),
        (None, {"use_virtual_topics": False}, 0),
        ([CompositeQueue("c", (Queue("d"),))], {}, 0),
        ([CompositeQueue("c", (Queue("d"),)), VirtualTopic()], {}, 1),
    ):
        async with broker_with(virtual, **attributes) as (broker, client):
            await client.destination(A)
            await client.send(T, "x")
            assert broker.queue_statistics(A.physical_name).messages == copies


@pytest.mark.fact("activemq-broker V3")
async def test_selector_aware_topics_copy_what_a_present_consumer_wants(
    broker_with: BrokerWith,
) -> None:
    async with broker_with([VirtualTopic(selector_aware=True)]) as (broker, client):
        await client.destination(A)
        await client.send(T, "nobody there")
        consumer = await client.consumer(A, selector="colour = 'red'")
        producer = await client.producer()
        for colour in ("red", "blue"):
            message = client.text(producer, T, colour)
            message.marshalled_properties = encode_map({"colour": colour})
            await client.request(message)
        assert body(await client.message()) == "red"
        assert broker.queue_statistics(A.physical_name).messages == 1
        await client.remove(consumer)
        await client.send(T, "x")
        assert broker.queue_statistics(A.physical_name).messages == 1


@pytest.mark.fact("activemq-broker V4")
async def test_local_topics_do_not_copy_what_came_over_a_bridge_and_advisories_never(
    broker_with: BrokerWith,
) -> None:
    async with broker_with([VirtualTopic(">", local=True)]) as (broker, client):
        advised = "ActiveMQ.Advisory.Queue"
        await client.destination(Queue(f"Consumer.A.{advised}"))
        await client.consumer(Topic(advised))
        await client.destination(A)
        assert (await client.message()).data_structure is not None
        assert broker.queue_statistics(f"Consumer.A.{advised}").messages == 0
        bridged = client.text(await client.producer(), T, "x")
        bridged.broker_path = [BrokerId("other")]
        await client.request(bridged)
        assert broker.queue_statistics(A.physical_name).messages == 0
        await client.send(T, "y")
        assert broker.queue_statistics(A.physical_name).messages == 1


async def test_a_full_queue_may_be_left_out(broker_with: BrokerWith) -> None:
    policies = PolicyMap([PolicyEntry(destination=A, memory_limit=1, send_fail_if_no_space=True)])
    for lenient in (True, False):
        virtual = [VirtualTopic(drop_on_resource_limit=lenient)]
        async with broker_with(virtual, policies=policies) as (broker, client):
            await client.destination(A)
            await client.destination(B)
            await client.send(T, "fills A")
            if lenient:
                await client.send(T, "x")
            else:
                with pytest.raises(JMSException, match="Memory Limit reached"):
                    await client.send(T, "x")
            assert broker.queue_statistics(A.physical_name).messages == 1
            assert broker.queue_statistics(B.physical_name).messages == (2 if lenient else 1)


async def test_a_blocked_copy_that_times_out_may_be_left_out(broker_with: BrokerWith) -> None:
    policies = PolicyMap(
        [PolicyEntry(destination=A, memory_limit=1, send_fail_if_no_space_after_timeout=0.01)]
    )
    virtual = [VirtualTopic(drop_on_resource_limit=True)]
    async with broker_with(virtual, policies=policies) as (broker, client):
        await client.destination(A)
        await client.send(T, "fills A", "gives up")
        assert broker.queue_statistics(A.physical_name).messages == 1


async def test_copies_may_keep_the_topic_as_their_destination(broker_with: BrokerWith) -> None:
    async with broker_with([VirtualTopic(set_original_destination=False)]) as (_, client):
        await client.destination(A)
        await client.send(T, "x")
        await client.consumer(A)
        message = await client.message()
        assert (message.destination, message.original_destination) == (T, None)


@pytest.mark.fact("activemq-broker V9", "activemq-broker V11")
async def test_composites_forward_only_or_also(broker_with: BrokerWith) -> None:
    virtual = [
        CompositeQueue("in", (Queue("out"), Topic("fan"), T)),
        CompositeTopic("both", (Queue("out"),), forward_only=False),
        VirtualTopic(),
    ]
    async with broker_with(virtual) as (broker, client):
        await client.destination(A)
        await client.consumer(Topic("fan"))
        await client.consumer(Topic("both"))
        await client.send(Queue("in"), "x")
        fanned = await client.message()
        assert (fanned.destination, fanned.original_destination) == (Topic("fan"), Queue("in"))
        assert broker.queue_statistics("in").messages == 0
        assert broker.queue_statistics("out").messages == 1
        assert broker.queue_statistics(A.physical_name).messages == 1  # met a virtual topic
        await client.send(Topic("both"), "y")
        assert (await client.message()).destination == Topic("both")
        assert broker.queue_statistics("out").messages == 2


@pytest.mark.fact("activemq-broker V10")
async def test_filters_decide_and_what_none_takes_may_stay(broker_with: BrokerWith) -> None:
    filters = (
        FilteredDestination(Queue("red"), "colour = 'red'"),
        FilteredDestination(Queue("never")),
    )
    virtual = [
        CompositeQueue("strict", filters),
        CompositeQueue("keeps", filters, send_when_not_matched=True),
    ]
    async with broker_with(virtual) as (broker, client):
        producer = await client.producer()
        for name in ("strict", "keeps"):
            for colour in ("red", "blue"):
                message = client.text(producer, Queue(name), colour)
                message.marshalled_properties = encode_map({"colour": colour})
                await client.request(message)
        counts = {
            n: broker.queue_statistics(n).messages for n in ("red", "never", "strict", "keeps")
        }
        assert counts == {"red": 2, "never": 0, "strict": 0, "keeps": 1}


def test_a_wrong_selector_of_a_filter_shows_at_once() -> None:
    with pytest.raises(InvalidSelectorException):
        CompositeQueue("q", (FilteredDestination(Queue("x"), "colour ="),))


async def test_a_forwarding_cycle_is_an_error(broker_with: BrokerWith) -> None:
    virtual = [CompositeQueue("a", (Queue("b"),)), CompositeQueue("b", (Queue("a"),))]
    async with broker_with(virtual) as (broker, client):
        with pytest.raises(JMSException, match="form a cycle"):
            await client.send(Queue("a"), "x")
        await client.send(Queue("c"), "fine")
        assert broker.queue_statistics("c").messages == 1


@pytest.mark.fact("activemq-broker V12")
async def test_mirrored_queues_feed_their_topics_first(broker_with: BrokerWith) -> None:
    watching = Queue("Consumer.X.VirtualTopic.Mirror.q")
    async with broker_with(use_mirrored_queues=True) as (broker, client):
        await client.destination(watching)
        await client.consumer(Topic("VirtualTopic.Mirror.q"))
        await client.consumer(Queue("q"))
        await client.send(Queue("q"), "x")
        got = [await client.message(), await client.message()]
        assert [m.destination for m in got] == [Topic("VirtualTopic.Mirror.q"), Queue("q")]
        assert [body(m) for m in got] == ["x", "x"]
        assert broker.queue_statistics(watching.physical_name).messages == 1
        temporary = TemporaryQueue(f"{client.name}:1")
        await client.destination(temporary)
        await client.send(temporary, "t")
        there = broker.service.region_broker.destinations()
        mirror = Topic(f"VirtualTopic.Mirror.{client.name}:1")
        assert mirror in there
        await client.destination(temporary, operation=1)
        assert mirror not in broker.service.region_broker.destinations()
    custom = [MirroredQueue(prefix="copy.of.", postfix=".all")]
    async with broker_with(custom) as (broker, client):
        await client.consumer(Topic("copy.of.q.all"))
        await client.send(Queue("q"), "x")
        assert (await client.message()).destination == Topic("copy.of.q.all")
        assert broker.queue_statistics("q").messages == 1
    async with broker_with(use_mirrored_queues=True, use_temp_mirrored_queues=False) as (
        broker,
        client,
    ):
        temporary = TemporaryQueue(f"{client.name}:1")
        await client.destination(temporary)
        await client.send(temporary, "t")
        mirror = Topic(f"VirtualTopic.Mirror.{client.name}:1")
        assert mirror not in broker.service.region_broker.destinations()


@pytest.mark.fact("activemq-broker 11/VirtualDestination.Consumer.Queue/Topic.X")
async def test_queues_that_are_fed_are_reported_when_they_are_created(
    broker_with: BrokerWith,
) -> None:
    virtual = [VirtualTopic(), CompositeQueue("all", (Queue("eu"), Topic("log")))]
    prefix = "ActiveMQ.Advisory.VirtualDestination.Consumer."
    for wanted in (True, False):
        async with broker_with(
            virtual, use_virtual_dest_subs=wanted, use_virtual_dest_subs_on_creation=wanted
        ) as (_, client):
            await client.consumer(Topic(f"{prefix}>"))
            found = {}
            for operation in (0, 1):
                for name in ("Consumer.A.VirtualTopic.x", "eu", "other"):
                    await client.destination(Queue(name), operation)
                for _ in range(2 if wanted else 0):
                    message = await client.message()
                    kind = type(message.data_structure).__name__
                    found[kind, present(message.destination).physical_name.removeprefix(prefix)] = (
                        message
                    )
            await client.nothing_dispatched()
            assert sorted(found) == (
                [
                    ("ConsumerInfo", "Queue.all"),
                    ("ConsumerInfo", "Topic.VirtualTopic.x"),
                    ("RemoveInfo", "Queue.all"),
                    ("RemoveInfo", "Topic.VirtualTopic.>"),
                ]
                if wanted
                else []
            )


async def texts(client: Any, count: int) -> list[str | None]:
    return [decode_text((await client.message()).content) for _ in range(count)]


@pytest.mark.fact("activemq-broker V6")
async def test_a_queue_gets_what_its_topic_keeps_only_once(broker_with: BrokerWith) -> None:
    policy = PolicyEntry(
        destination=Topic("VirtualTopic.>"),
        subscription_recovery_policy=FixedCountSubscriptionRecoveryPolicy(maximum_size=3),
    )
    async with broker_with(policies=PolicyMap([policy])) as (_, client):
        topic, queue = Topic("VirtualTopic.t"), Queue("Consumer.A.VirtualTopic.t")
        await client.send(topic, "1")
        plain = await client.consumer(queue)
        await client.nothing_dispatched()
        await client.send(topic, "2")
        assert await texts(client, 1) == ["2"]
        await client.remove(plain)
        for expected in (["2", "1"], ["2", "1"]):
            consumer = await client.consumer(queue, retroactive=True)
            assert await texts(client, 2) == expected
            await client.nothing_dispatched()
            await client.remove(consumer)


@pytest.mark.fact("activemq-broker V7")
@pytest.mark.parametrize("pattern", ["VirtualTopic.*", "VirtualTopic.>", "VirtualTopic.t.>"])
async def test_a_pattern_of_the_queues_of_virtual_topics_is_a_queue_of_its_own(
    connect: Connect, pattern: str
) -> None:
    client = await connect()
    queue = Queue(f"Consumer.A.{pattern}")
    await client.consumer(queue)
    await client.send(T, "x")
    copy = await client.message()
    assert (body(copy), copy.destination, copy.original_destination) == ("x", queue, T)
    await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker V7")
async def test_other_patterns_of_queues_create_nothing(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client = await connect()
    await client.consumer(Queue("orders.*"))
    assert Queue("orders.*") not in test_broker.service.broker.destinations()


@pytest.mark.fact("activemq-broker V7")
async def test_a_consumer_of_a_pattern_whose_queue_is_refused_is_not_registered(
    broker_with: BrokerWith,
) -> None:
    async with broker_with(maximum_destinations_per_user=1) as (broker, client):
        await client.destination(A)
        with pytest.raises(JMSException, match="their maximum"):
            await client.consumer(Queue("Consumer.A.>"))
        await client.send(A, "x")
        await client.nothing_dispatched()
        assert broker.queue_statistics(A.physical_name).consumers == 0


@pytest.mark.fact("activemq-broker V13")
async def test_a_queue_of_all_virtual_topics_may_have_an_empty_name(
    broker_with: BrokerWith,
) -> None:
    async with broker_with([VirtualTopic(">")], use_virtual_dest_subs=True) as (_, client):
        queue = Queue("Consumer.foo.")
        await client.consumer(queue)
        await client.send(queue, "x")
        assert body(await client.message()) == "x"


async def sent_to_three(
    client: RawClient, broker: EmbeddedTestBroker, *, transacted: bool, fails: bool
) -> list[int]:
    """Send to a virtual topic with three queues, the last of which is full; return their counts."""
    queues = [Queue(f"Consumer.{each}.VirtualTopic.t") for each in "ABC"]
    for queue in queues:
        await client.destination(queue)
    await client.send(queues[-1], "it is full")
    if fails:
        with pytest.raises(ResourceAllocationException):
            await client.send(T, "x")
    return [broker.queue_statistics(queue.physical_name).messages for queue in queues]


@pytest.mark.fact("activemq-broker V5")
@pytest.mark.parametrize(("transacted", "counts"), [(True, [0, 0, 1]), (False, [1, 1, 1])])
async def test_transacted_copies_reach_all_queues_or_none(
    broker_with: BrokerWith, counts: list[int], *, transacted: bool
) -> None:
    full = PolicyEntry(
        destination=Queue("Consumer.C.>"), memory_limit=1, send_fail_if_no_space=True
    )
    topics = [VirtualTopic(transacted_send=transacted)]
    async with broker_with(topics, policies=PolicyMap([full])) as (broker, client):
        live = await client.consumer(T)
        assert await sent_to_three(client, broker, transacted=transacted, fails=True) == counts
        await client.nothing_dispatched()
        await client.remove(live)
        await client.destination(Queue("Consumer.C.VirtualTopic.t"), operation=1)
        await client.send(T, "y")
        assert broker.queue_statistics(A.physical_name).messages == counts[0] + 1
        assert broker.queue_statistics(B.physical_name).messages == counts[1] + 1


@pytest.mark.fact("activemq-broker V5")
@pytest.mark.parametrize("timeout", [0.0, 0.05], ids=["at-once", "after-timeout"])
async def test_transacted_copies_without_that_of_a_full_queue_that_may_be_skipped(
    broker_with: BrokerWith, timeout: float
) -> None:
    full = PolicyEntry(
        destination=Queue("Consumer.C.>"),
        memory_limit=1,
        send_fail_if_no_space=not timeout,
        send_fail_if_no_space_after_timeout=timeout,
    )
    topics = [VirtualTopic(transacted_send=True, drop_on_resource_limit=True)]
    async with broker_with(topics, policies=PolicyMap([full])) as (broker, client):
        live = await client.consumer(T)
        counts = await sent_to_three(client, broker, transacted=True, fails=False)
        assert counts == [0, 0, 1]
        await client.send(T, "x")
        await client.remove(live)
        assert body(await client.message()) == "x"
        assert broker.queue_statistics(A.physical_name).messages == 1
        assert broker.queue_statistics(B.physical_name).messages == 1


@pytest.mark.fact("activemq-broker V5")
async def test_transacted_copies_wait_for_the_queue_without_space(broker_with: BrokerWith) -> None:
    full = PolicyEntry(destination=Queue("Consumer.C.>"), memory_limit=1)
    topics = [VirtualTopic(transacted_send=True)]
    async with broker_with(topics, policies=PolicyMap([full])) as (broker, client):
        await sent_to_three(client, broker, transacted=True, fails=False)
        other = RawClient(create_transport(broker.url))
        await other.open()
        await other.consumer(T)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, T, "x")
            await anyio.wait_all_tasks_blocked()
            await other.nothing_dispatched()
            assert broker.queue_statistics(A.physical_name).messages == 0
            await other.consumer(Queue("Consumer.C.VirtualTopic.t"))
            await other.ack(await other.dispatched())
        assert broker.queue_statistics(A.physical_name).messages == 1
        assert {body(await other.message()) for _ in range(2)} == {"x"}
        await other.close()
