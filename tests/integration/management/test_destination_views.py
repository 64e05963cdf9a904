"""The views of queues and topics on a broker in memory."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import MessageAck
from pyjms_broker.management.errors import (
    AttributeNotFoundException,
    InstanceNotFoundException,
    InvalidArgumentException,
    MalformedObjectNameException,
    OperationNotFoundException,
)
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import Connect

Q = Queue("orders")

DESTINATION_ATTRIBUTES = """
    Name QueueSize EnqueueCount DequeueCount DispatchCount InFlightCount ExpiredCount ForwardCount
    ConsumerCount ProducerCount DuplicateFromStoreCount StoreMessageSize AverageEnqueueTime
    MaxEnqueueTime MinEnqueueTime AverageMessageSize MaxMessageSize MinMessageSize
    MemoryPercentUsage MemoryUsageByteCount MemoryLimit MemoryUsagePortion TempUsageLimit
    TempUsagePercentUsage BlockedSends AverageBlockedTime TotalBlockedTime ProducerFlowControl
    AlwaysRetroactive BlockedProducerWarningInterval MaxProducersToAudit MaxAuditDepth MaxPageSize
    UseCache PrioritizedMessages Options DLQ SendDuplicateFromStoreToDLQ Subscriptions
    SlowConsumerStrategy
"""
DESTINATION_OPERATIONS = """
    browse browseAsTable browseMessages sendTextMessage sendTextMessageWithProperties
    resetStatistics
"""
QUEUE_ATTRIBUTES = """
    CursorFull CursorMemoryUsage CursorPercentUsage CacheEnabled MessageGroups MessageGroupType
    Paused
"""
QUEUE_OPERATIONS = """
    getMessage removeMessage removeMatchingMessages purge copyMessageTo copyMatchingMessagesTo
    moveMessageTo moveMatchingMessagesTo retryMessage retryMessages pause resume cursorSize
    doesCursorHaveSpace doesCursorHaveMessagesBuffered removeMessageGroup removeAllMessageGroups
"""


def queue_view(service: BrokerService, name: str = "orders") -> View[Any]:
    broker = f"type=Broker,brokerName={service.broker_name}"
    return service.management.view(
        f"org.apache.activemq:{broker},destinationType=Queue,destinationName={name}"
    )


def texts(items: object) -> list[str]:
    assert isinstance(items, list)
    return [item["Text"] for item in items]


@pytest.mark.parametrize(
    ("kind", "attributes", "operations"),
    [
        (Topic, DESTINATION_ATTRIBUTES, DESTINATION_OPERATIONS),
        (
            Queue,
            DESTINATION_ATTRIBUTES + QUEUE_ATTRIBUTES,
            DESTINATION_OPERATIONS + QUEUE_OPERATIONS,
        ),
    ],
    ids=["topic", "queue"],
)
async def test_destinations_have_the_attributes_and_operations_of_activemq(
    kind: type[Queue | Topic],
    attributes: str,
    operations: str,
    service: BrokerService,
    connect: Connect,
) -> None:
    await (await connect()).send(kind("a"), "one")
    (view,) = service.management.find(
        f"*:type=Broker,destinationType={kind.__name__},destinationName=a,*"
    )
    added = ["EnqueueRate", "DequeueRate", *(["FirstMessageAge"] if kind is Queue else [])]
    assert sorted(view.get_all()) == sorted([*attributes.split(), *added])
    own = ["deadLetterGroups", "retryGroup", "retryMatchingMessages"] if kind is Queue else []
    assert sorted(view.kind.operations) == sorted([*operations.split(), "why", "history", *own])
    values = view.get_all()
    values.pop("FirstMessageAge", None)  # it grows from one reading to the next
    assert all(view.get(name) == value for name, value in values.items())


async def test_counters_follow_messages_and_a_reset_leaves_what_is_there(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.send(Q, "one", "three")
    view = queue_view(service)
    counted = ("QueueSize", "EnqueueCount", "DispatchCount", "InFlightCount", "DequeueCount")
    assert [view.get(name) for name in counted] == [2, 2, 0, 0, 0]
    consumer = await client.consumer(Q)
    first, _second = await client.message(), await client.message()
    ack = MessageAck(Q, None, consumer, 2, first.message_id, first.message_id, 1)
    await client.request(ack)
    assert [view.get(name) for name in counted] == [1, 2, 2, 1, 1]
    assert view.get("ConsumerCount") == 1
    smallest, largest = view.get("MinMessageSize"), view.get("MaxMessageSize")
    assert isinstance(smallest, int) and isinstance(largest, int)
    assert largest - smallest == len("three") - len("one")
    assert view.get("AverageMessageSize") == (smallest + largest) // 2
    shortest, average, longest = (
        view.get(f"{name}EnqueueTime") for name in ("Min", "Average", "Max")
    )
    assert isinstance(shortest, int) and isinstance(average, float) and isinstance(longest, int)
    assert shortest <= average <= longest
    await view.invoke("resetStatistics")
    assert [view.get(name) for name in counted] == [1, 0, 0, 1, 0]
    assert view.get("MinMessageSize") == view.get("AverageMessageSize") == 0


@pytest.mark.fact("activemq-edges JX1")
async def test_totals_of_the_broker_keep_what_removed_destinations_have_counted(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.consumer(Topic("ActiveMQ.Advisory.Queue"))
    await client.send(Q, "one", "two")
    broker = service.management.view(
        f"org.apache.activemq:type=Broker,brokerName={service.broker_name}"
    )
    before = broker.get("TotalEnqueueCount")
    assert isinstance(before, int) and before > 2, "advisories are counted, too"
    assert broker.get("TotalMessageCount") == 2
    await broker.invoke("removeQueue", "orders")
    with pytest.raises(InstanceNotFoundException):
        queue_view(service)
    after = broker.get("TotalEnqueueCount")
    assert isinstance(after, int) and after >= before
    assert broker.get("TotalMessageCount") == 0
    await broker.invoke("resetStatistics")
    assert broker.get("TotalEnqueueCount") == 0


async def test_browse_shows_headers_properties_and_text(service: BrokerService) -> None:
    await service.management.invoke(broker_name(service), "addQueue", "orders")
    view = queue_view(service)
    headers = {"JMSPriority": "7", "JMSXGroupID": "g", "JMSType": "t", "colour": "red", "n": 3}
    message_id = await view.invoke("sendTextMessage", headers, "hello")
    await view.invoke("sendTextMessageWithProperties", "colour=blue,body=other,JMSDeliveryMode=1")
    await view.invoke("sendTextMessage", "plain", "joe", "secret")
    first, second, third = await browse(view)
    assert first["JMSMessageID"] == message_id
    assert (first["JMSPriority"], first["JMSXGroupID"], first["JMSType"]) == (7, "g", "t")
    assert first["StringProperties"] == {"colour": "red"}
    assert first["IntProperties"] == {"n": 3}
    assert first["JMSDeliveryMode"] == "PERSISTENT"
    assert second["JMSDeliveryMode"] == "NON-PERSISTENT"
    assert (first["Text"], second["Text"], third["Text"]) == ("hello", "other", "plain")
    assert texts(await view.invoke("browse(java.lang.String)", "colour = 'blue'")) == ["other"]
    assert "secret" not in str([first, second, third])


async def browse(view: View[Any]) -> list[dict[str, object]]:
    items = await view.invoke("browse")
    assert isinstance(items, list)
    return items


def broker_name(service: BrokerService) -> str:
    return f"org.apache.activemq:type=Broker,brokerName={service.broker_name}"


async def test_messages_are_moved_copied_removed_and_purged(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.send(Q, "a", "b", "c", "d", "e")
    view = queue_view(service)
    ids = [str(item["JMSMessageID"]) for item in await browse(view)]
    assert await view.invoke("moveMessageTo", ids[0], "other")
    assert await view.invoke("copyMatchingMessagesTo", "", "queue://other", 2) == 2
    assert await view.invoke("copyMessageTo", ids[4], "other")
    assert await view.invoke("removeMessage", ids[1])
    assert not await view.invoke("removeMessage", ids[1])
    other = queue_view(service, "other")
    assert texts(await other.invoke("browse")) == ["a", "b", "c", "e"]
    assert (await browse(other))[0]["OriginalDestination"] == "queue://orders"
    assert texts(await view.invoke("browse")) == ["c", "d", "e"]
    assert await view.invoke("removeMatchingMessages", f"JMSMessageID = '{ids[2]}'") == 1
    assert await view.invoke("moveMatchingMessagesTo", "TRUE", "third", "1") == 1
    assert texts(await queue_view(service, "third").invoke("browse")) == ["d"]
    await view.invoke("purge")
    assert (view.get("QueueSize"), view.get("MemoryUsageByteCount")) == (0, 0)
    assert await other.invoke("retryMessages") == 4
    assert texts(await view.invoke("browse")) == ["a", "b", "c", "e"], "moved back and forth"


async def test_a_retried_dead_letter_can_become_one_again(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.send(Q, "x")
    for _ in range(2):
        consumer = await client.consumer(Q)
        message = await client.message()
        ack = MessageAck(Q, None, consumer, 1, message.message_id, message.message_id, 1)
        await client.request(ack)
        await client.remove(consumer)
        dead = queue_view(service, "ActiveMQ.DLQ")
        assert (dead.get("DLQ"), dead.get("QueueSize")) == (True, 1)
        (item,) = await browse(dead)
        assert await dead.invoke("retryMessage", item["JMSMessageID"])
        assert (dead.get("QueueSize"), queue_view(service).get("QueueSize")) == (0, 1)


async def test_what_a_consumer_has_is_neither_moved_nor_removed(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.send(Q, "a", "b")
    await client.consumer(Q, prefetch_size=1)
    taken = await client.message()
    view = queue_view(service)
    assert not await view.invoke("removeMessage", str(taken.message_id))
    assert not await view.invoke("moveMessageTo", str(taken.message_id), "other")
    assert await view.invoke("moveMatchingMessagesTo", "", "other") == 1
    assert view.get("QueueSize") == view.get("InFlightCount") == 1


async def test_a_paused_queue_dispatches_nothing(service: BrokerService, connect: Connect) -> None:
    client = await connect()
    await client.send(Q)
    await client.consumer(Q)
    view = queue_view(service)
    await view.invoke("pause")
    await client.send(Q, "one")
    await client.nothing_dispatched()
    assert view.get("Paused") is True
    assert (await view.invoke("cursorSize"), view.get("DispatchCount")) == (1, 0)
    await view.invoke("resume")
    await client.message()
    assert view.get("Paused") is False


async def test_groups_of_a_queue_are_released(service: BrokerService, connect: Connect) -> None:
    client = await connect()
    first = await client.consumer(Q)
    view = queue_view(service)
    for _ in range(2):
        await view.invoke("sendTextMessage", {"JMSXGroupID": "g"}, "x")
        await client.message()
        assert view.get("MessageGroups") == {"g": str(first)}
        await view.invoke("removeMessageGroup", "g")
        assert view.get("MessageGroups") == {}
    await view.invoke("sendTextMessage", {"JMSXGroupID": "g"}, "x")
    await view.invoke("removeAllMessageGroups")
    assert view.get("MessageGroups") == {}


async def test_writing_an_attribute_takes_effect(service: BrokerService, connect: Connect) -> None:
    await (await connect()).send(Q, "x")
    view = queue_view(service)
    assert view.set("MemoryLimit", "4096") == 1 << 30  # the broker's
    size = view.get("MemoryUsageByteCount")
    assert isinstance(size, int)
    assert view.get("MemoryPercentUsage") == size * 100 // 4096
    view.set("DLQ", True)
    assert view.get("DLQ") is True


async def test_errors_name_what_is_known(service: BrokerService, connect: Connect) -> None:
    await (await connect()).send(Q, "x")
    view = queue_view(service)
    with pytest.raises(AttributeNotFoundException, match="no attribute 'Size'") as unknown:
        view.get("Size")
    assert "QueueSize" in (unknown.value.hint or "")
    with pytest.raises(AttributeNotFoundException, match="cannot be written"):
        view.set("QueueSize", 1)
    with pytest.raises(InvalidArgumentException, match="MemoryLimit"):
        view.set("MemoryLimit", "much")
    with pytest.raises(OperationNotFoundException, match="no operation 'explode'"):
        await view.invoke("explode")
    with pytest.raises(OperationNotFoundException, match="with 3 arguments") as counted:
        await view.invoke("moveMessageTo", "a", "b", "c")
    assert "moveMessageTo(java.lang.String,java.lang.String)" in (counted.value.hint or "")
    with pytest.raises(InvalidArgumentException, match="maximumMessages"):
        await view.invoke("moveMatchingMessagesTo", "", "other", "many")
    with pytest.raises(InvalidSelectorException):
        await view.invoke("browse", "a = ")
    with pytest.raises(MalformedObjectNameException):
        service.management.find("no name")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("org.apache.activemq:type=Broker,*", {"broker", "a.b", "a.c", "t"}),
        ("*:*", {"broker", "a.b", "a.c", "t"}),
        ("other:*", set()),
        ("org.*:destinationName=a.*,*", {"a.b", "a.c"}),
        ("org.apache.activemq:destinationType=T*,*,type=Broker", {"t"}),
        ("org.apache.activemq:type=Broker,destinationName=?.b,*", {"a.b"}),
        ("org.apache.activemq:type=Broker,brokerName=*", {"broker"}),
        ("org.apache.activemq:brokerName=*,type=Broker", {"broker"}),
        ("org.apache.activemq:type=Broker", set()),
        ("org.apache.activemq:type=broker,*", set()),
    ],
)
async def test_patterns_are_those_of_jmx(
    pattern: str, found: set[str], service: BrokerService
) -> None:
    for operation, name in (("addQueue", "a.b"), ("addQueue", "a.c"), ("addTopic", "t")):
        await service.management.invoke(broker_name(service), operation, name)
    names = [view.name.keys for view in service.management.find(pattern)]
    shown = {keys.get("destinationName", "broker") for keys in names}
    assert {name for name in shown if not name.startswith("ActiveMQ.Advisory")} == found


async def test_a_long_search_lets_others_run_and_finds_the_same(service: BrokerService) -> None:
    region, turns = service.region_broker, 0
    for number in range(250):
        region.add_destination(region.context, Queue(f"many.{number}"))

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        pattern = "*:destinationType=Queue,destinationName=many.*,*"
        found = await service.management.find_in_slices(pattern)
        tasks.cancel_scope.cancel()
    assert turns >= 1
    assert {v.name for v in found} == {v.name for v in service.management.find(pattern)}
    assert len(found) == 250


async def test_names_are_encoded_as_activemq_does(service: BrokerService) -> None:
    await service.management.invoke(broker_name(service), "addQueue", "a:b'c=d")
    (view,) = service.management.find("*:destinationType=Queue,*")
    assert view.name.keys["destinationName"] == "a_b_c&amp;d"
    assert view.get("Name") == "a:b'c=d"


async def test_uptime_is_written_as_activemq_does(service: BrokerService) -> None:
    broker = service.management.view(broker_name(service))
    uptime = broker.get("Uptime")
    assert isinstance(uptime, str)
    assert re.fullmatch(r"\d+\.\d{3} seconds", uptime)
