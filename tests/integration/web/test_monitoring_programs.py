"""What Telegraf and Datadog ask for, unchanged: their requests, and what they read of the answers.

The requests are those of Telegraf's inputs `activemq` and `jolokia2_agent` (its example for
ActiveMQ) and of Datadog's checks `activemq_xml` and `activemq`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms_broker.service import BrokerService
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.web.sites import web_broker

JVM = {
    "java.lang:type=OperatingSystem": ["ProcessCpuLoad", "SystemLoadAverage", "SystemCpuLoad"],
    "java.lang:type=Runtime": ["Uptime"],
    "java.lang:type=Memory": [
        *("HeapMemoryUsage", "NonHeapMemoryUsage", "ObjectPendingFinalizationCount"),
    ],
    "java.lang:name=*,type=GarbageCollector": ["CollectionTime", "CollectionCount"],
    "java.lang:name=*,type=MemoryPool": ["Usage", "PeakUsage", "CollectionUsage"],
}
ACTIVEMQ = {
    "org.apache.activemq:brokerName=*,destinationName=*,destinationType=Queue,type=Broker": [
        *("QueueSize", "EnqueueCount", "ConsumerCount", "DispatchCount", "DequeueCount"),
        *("ProducerCount", "InFlightCount"),
    ],
    "org.apache.activemq:brokerName=*,destinationName=*,destinationType=Topic,type=Broker": [
        *("ProducerCount", "DequeueCount", "ConsumerCount", "QueueSize", "EnqueueCount"),
    ],
    "org.apache.activemq:brokerName=*,type=Broker": [
        *("TotalConsumerCount", "TotalMessageCount", "TotalEnqueueCount", "TotalDequeueCount"),
        *("MemoryLimit", "MemoryPercentUsage", "StoreLimit", "StorePercentUsage"),
        *("TempPercentUsage", "TempLimit"),
    ],
}
"""What Telegraf's example reads, by bean."""
DATADOG = {
    "type=Broker,destinationType=Queue,*": [
        *("AverageEnqueueTime", "ConsumerCount", "ProducerCount", "MaxEnqueueTime"),
        *("MinEnqueueTime", "MemoryPercentUsage", "QueueSize", "DequeueCount", "DispatchCount"),
        *("EnqueueCount", "ExpiredCount", "InFlightCount"),
    ],
    "type=Broker,brokerName=*": ["StorePercentUsage", "TempPercentUsage", "MemoryPercentUsage"],
}
"""What Datadog's check `activemq` reads of ActiveMQ's beans."""


async def _fill(service: BrokerService) -> None:
    """Let a client send, and leave durable subscriptions, of which one has a selector."""
    client = RawClient(create_transport(service.vm_uri))
    await client.connect(client_id="shop", user_name="root", password="secret")
    await client.open_session()
    await client.send(Queue("sandra & söhne"), "one", "two")
    await client.consumer(Topic("news"), subscription_name="daily")
    gone = await client.consumer(Topic("news"), subscription_name="night", selector="a <> 'b'")
    await client.remove(gone)
    await client.send(Topic("news"), "three")


@pytest.fixture
async def reader() -> AsyncIterator[httpx.AsyncClient]:
    users = simple(user("root", "admins"), user("telegraf", "watchers"))
    web = {"reader_groups": frozenset({"watchers"})}
    async with web_broker(users, broker_name="watched", web=web) as broker:
        await _fill(broker.service)
        async with broker.client("telegraf") as client:
            yield client


async def _page(client: httpx.AsyncClient, name: str) -> ET.Element:
    answer = await client.get(f"/admin/xml/{name}.jsp")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "text/xml;charset=ISO-8859-1",
    )
    return ET.fromstring(answer.text)


def _stats(row: ET.Element) -> dict[str, int]:
    stats = row.find("stats")
    assert stats is not None
    return {name: int(value) for name, value in stats.attrib.items()}


@pytest.mark.fact("activemq-edges W21")
async def test_queues_of_the_xml_page(reader: httpx.AsyncClient) -> None:
    page = await _page(reader, "queues")
    (row,) = [each for each in page.findall("queue") if "sandra" in each.attrib["name"]]
    assert (page.tag, row.attrib["name"]) == ("queues", "sandra & söhne")
    assert _stats(row) == {"size": 2, "consumerCount": 0, "enqueueCount": 2, "dequeueCount": 0}
    assert row.findtext("feed/atom") == (
        "queueBrowse/sandra%20%26%20s%C3%B6hne?view=rss&feedType=atom_1.0"
    )


@pytest.mark.fact("activemq-edges W21")
async def test_topics_of_the_xml_page(reader: httpx.AsyncClient) -> None:
    page = await _page(reader, "topics")
    rows = {each.attrib["name"]: _stats(each) for each in page.findall("topic")}
    assert page.tag == "topics"
    assert rows["news "]["enqueueCount"] == 1


@pytest.mark.fact("activemq-edges W21")
async def test_subscribers_of_the_xml_page(reader: httpx.AsyncClient) -> None:
    page = await _page(reader, "subscribers")
    rows = {each.attrib["subscriptionName"]: each for each in page.findall("subscriber")}
    assert (page.tag, sorted(rows)) == ("subscribers", ["daily", "night"])
    night = rows["night"].attrib
    assert (night["clientId"], night["connectionId"], night["active"]) == ("shop", "NOTSET", "no")
    assert (night["destinationName"], night["selector"]) == ("news", "a <> 'b'")
    assert (rows["daily"].attrib["active"], rows["daily"].attrib["selector"]) == ("yes", "")
    assert _stats(rows["daily"]) == {
        "pendingQueueSize": 0,
        "dispatchedQueueSize": 1,
        "dispatchedCounter": 1,
        "enqueueCounter": 1,
        "dequeueCounter": 0,
    }


async def test_no_name_of_a_client_breaks_an_xml_page() -> None:
    async with web_broker(broker_name="named") as broker, broker.client() as client:
        region = broker.service.region_broker
        name = "a\x01\n<b>&\"'"
        region.add_destination(region.context, Queue(name))
        (row,) = (await _page(client, "queues")).findall("queue")
    assert row.attrib["name"] == "a?\n<b>&\"'"


async def test_the_xml_pages_need_a_login(reader: httpx.AsyncClient) -> None:
    reader.auth = ("telegraf", "wrong")
    for name in ("queues", "topics", "subscribers"):
        answer = await reader.get(f"/admin/xml/{name}.jsp")
        assert (answer.status_code, "basic" in answer.headers["www-authenticate"].lower()) == (
            401,
            True,
        )


@pytest.mark.fact("activemq-edges JX21")
async def test_telegraf_reads_every_value_of_its_example(reader: httpx.AsyncClient) -> None:
    wanted = {**JVM, **ACTIVEMQ}
    requests = [
        {
            "type": "read",
            "mbean": name,
            "attribute": attributes[0] if len(attributes) == 1 else attributes,
        }
        for name, attributes in wanted.items()
    ]
    answers: list[dict[str, Any]] = (await reader.post("/api/jolokia/read", json=requests)).json()
    assert [each["status"] for each in answers] == [200] * len(wanted)
    for request, answer, (name, attributes) in zip(requests, answers, wanted.items(), strict=True):
        # it finds the metric of an answer by the names in it, whatever their order
        bean, _, keys = answer["request"]["mbean"].partition(":")
        assert (bean, sorted(keys.split(","))) == (
            name.partition(":")[0],
            sorted(name.partition(":")[2].split(",")),
        )
        assert answer["request"]["attribute"] == request["attribute"]
        rows = answer["value"].values() if "*" in name else [answer["value"]]
        assert rows
        if len(attributes) > 1:
            assert all(row.keys() == set(attributes) for row in rows)


@pytest.mark.fact("activemq-edges JX22")
async def test_the_heap_is_the_memory_of_the_process(reader: httpx.AsyncClient) -> None:
    answer = await reader.get("/api/jolokia/read/java.lang:type=Memory/HeapMemoryUsage")
    heap = answer.json()["value"]
    assert 1 << 20 < heap["used"] == heap["committed"] < heap["max"]


@pytest.mark.fact("activemq-edges 11.17")
async def test_datadog_reads_every_attribute_of_its_check(reader: httpx.AsyncClient) -> None:
    for name, attributes in DATADOG.items():
        request = {
            "type": "read",
            "mbean": f"org.apache.activemq:{name}",
            "attribute": attributes,
        }
        answer = (await reader.post("/api/jolokia", json=request)).json()
        rows = answer["value"].values()
        assert rows
        assert all(isinstance(row[each], int | float) for row in rows for each in attributes)
