"""Operations of the broker's view on a broker in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import BrokerWith, Connect, broker_with

__all__ = ["broker_with"]

T = Topic("news")


def broker(service: BrokerService) -> View[Any]:
    return service.management.view(
        f"org.apache.activemq:type=Broker,brokerName={service.broker_name}"
    )


async def query(
    view: View[Any], what: str, how: dict[str, str], page: int = 1, size: int = 10
) -> Any:
    text = await view.invoke(what, json.dumps(how) if how else "", page, size)
    assert isinstance(text, str)
    return json.loads(text)


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ({}, ["a", "ab", "b", "c"]),
        ({"name": "b"}, ["ab", "b"]),
        ({"filter": "empty"}, ["c"]),
        ({"filter": "nonEmpty", "sortOrder": "desc"}, ["b", "ab", "a"]),
        ({"filter": "noConsumer"}, ["ab", "b", "c"]),
        ({"filter": "nonAdvisory", "sortColumn": "queueSize"}, ["c", "a", "ab", "b"]),
        ({"sortColumn": "consumerCount", "sortOrder": "desc"}, ["a", "ab", "b", "c"]),
        ({"sortColumn": "unknown", "filter": "unknown"}, ["a", "ab", "b", "c"]),
    ],
    ids=str,
)
async def test_queues_are_queried_in_pages(
    service: BrokerService, connect: Connect, how: dict[str, str], names: list[str]
) -> None:
    view, client = broker(service), await connect()
    for name, size in (("a", 1), ("ab", 2), ("b", 3), ("c", 0)):
        await view.invoke("addQueue", name)
        await client.send(Queue(name), *"xxx"[:size])
    await client.consumer(Queue("a"))
    found = await query(view, "queryQueues", how)
    assert [each["name"] for each in found["data"].values()] == names
    assert found["count"] == len(names)
    second = await query(view, "queryQueues", how, 2, 1)
    assert [each["name"] for each in second["data"].values()] == names[1:2]
    assert second["count"] == len(names)
    assert (await query(view, "queryTopics", {"name": "b"}))["count"] == 0


async def test_a_query_that_cannot_be_read_is_an_error(service: BrokerService) -> None:
    for text in ("{", "[]", "1"):
        with pytest.raises(InvalidArgumentException, match="filter of the query"):
            await broker(service).invoke("queryQueues", text, 1, 10)


async def test_a_durable_subscription_is_created_and_destroyed(
    service: BrokerService, connect: Connect
) -> None:
    view, client = broker(service), await connect()
    name = await view.invoke("createDurableSubscriber", "me", "s", "news", "n = 1")
    assert view.get("InactiveDurableTopicSubscribers") == [name]
    subscription = service.management.view(str(name))
    assert (subscription.get("Selector"), subscription.get("Active")) == ("n = 1", False)
    await client.send(T, "x")
    assert subscription.get("PendingQueueSize") == 0
    with pytest.raises(InvalidSelectorException):
        await view.invoke("createDurableSubscriber", "me", "other", "news", "n = ")
    await view.invoke("destroyDurableSubscriber", "me", "s")
    assert view.get("InactiveDurableTopicSubscribers") == []
    with pytest.raises(InvalidDestinationException):
        await view.invoke("destroyDurableSubscriber", "me", "s")


async def test_connectors_are_added_and_removed(service: BrokerService) -> None:
    view = broker(service)
    name = await view.invoke("addConnector", "tcp://127.0.0.1:0")
    uri = await view.invoke("getTransportConnectorByType", "tcp")
    assert view.get("TransportConnectors") == {name: uri}
    assert uri == service.connectors[-1].connect_uri
    with pytest.raises(ConfigurationException):
        await view.invoke("addConnector", "carrier-pigeon://here")
    with pytest.raises(ConfigurationException):
        await view.invoke("addConnector", "tcp://127.0.0.1:0?unknownOption=1")
    assert await view.invoke("removeConnector", name) is True
    assert await view.invoke("removeConnector", name) is False
    assert view.get("TransportConnectors") == {}
    assert await view.invoke("getTransportConnectorByType", "tcp") is None


async def test_a_restart_is_requested_only_if_it_is_allowed(broker_with: BrokerWith) -> None:
    for allowed in (False, True):
        async with broker_with(restart_allowed=allowed) as (made, _client):
            view = broker(made.service)
            if not allowed:
                with pytest.raises(IllegalStateException, match="Restart is not allowed"):
                    await view.invoke("restart")
                assert made.service.started
                continue
            await view.invoke("restart")
            await made.service.wait_until_stopped()
            assert made.service.restart_requested


@pytest.mark.fact("activemq-broker B10")
async def test_a_graceful_stop_waits_for_empty_queues(broker_with: BrokerWith) -> None:
    async with broker_with() as (made, client):
        service, view = made.service, broker(made.service)
        await made.tcp_url()
        await client.send(Queue("orders.a"), "x")
        await client.send(Queue("other"), "stays")
        (queue,) = service.management.find("*:destinationName=orders.a,*")
        (connector,) = service.management.find(
            "*:type=Broker,brokerName=*,connector=clientConnectors,connectorName=*"
        )

        async def stop() -> None:
            await view.invoke("stopGracefully", ".*", "orders.*", 60_000, 1)

        stopping = event_loop.spawn(stop, name="graceful stop")
        while connector.get("Started"):
            await _clock.sleep(0)
        assert service.started
        await queue.invoke("purge")
        await stopping.wait()
        await service.wait_until_stopped()


@pytest.mark.fact("activemq-broker B10")
async def test_a_graceful_stop_gives_up_waiting_at_its_timeout(broker_with: BrokerWith) -> None:
    async with broker_with() as (made, client):
        await client.send(Queue("orders"), "stays")
        await broker(made.service).invoke("stopGracefully", "none", "orders", 5, 1)
        await made.service.wait_until_stopped()


async def test_a_graceful_stop_checks_its_parameters(service: BrokerService) -> None:
    view = broker(service)
    with pytest.raises(InvalidArgumentException, match="more than 0"):
        await view.invoke("stopGracefully", ".*", ".*", 0, 0)
    with pytest.raises(InvalidArgumentException, match="queueName is not a regular expression"):
        await view.invoke("stopGracefully", ".*", "(", 1, 1)
    assert service.started


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("terminateJVM", [1]),
        ("disableStatistics", []),
        ("reloadLog4jProperties", []),
    ],
)
async def test_what_the_broker_cannot_do_is_refused_with_a_reason(
    service: BrokerService, operation: str, arguments: list[object]
) -> None:
    with pytest.raises(IllegalStateException, match=f"{operation} is refused: .") as refused:
        await broker(service).invoke(operation, *arguments)
    assert refused.value.hint
    assert service.started


async def test_producers_are_listed_by_kind(service: BrokerService, connect: Connect) -> None:
    client = await connect()
    kinds = {
        "QueueProducers": await client.producer(Queue("q")),
        "TopicProducers": await client.producer(T),
        "DynamicDestinationProducers": await client.producer(),
    }
    view = broker(service)
    for attribute, producer_id in kinds.items():
        names: Any = view.get(attribute)
        (name,) = names
        assert service.management.get(name, "ProducerId") == str(producer_id)
    assert view.get("TemporaryQueueProducers") == view.get("TemporaryTopicProducers") == []


async def test_a_blocked_producer_shows_for_how_long(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    producer_id = await client.producer(Queue("q"))
    (producer,) = service.management.find("*:endpoint=Producer,*")
    shown = ("ProducerBlocked", "PercentageBlocked", "DestinationQueue", "DestinationTopic")
    message = client.text(producer_id, Queue("q"), "x")
    await client.request(message)
    (queue,) = [
        each
        for each in service.management.find("*:destinationName=q,*")
        if "endpoint" not in each.name.keys
    ]
    queue.set("MemoryLimit", 1)
    assert [producer.get(name) for name in shown] == [False, 0, True, False]
    blocked = event_loop.spawn(
        client.request, client.text(producer_id, Queue("q"), "y"), name="blocked send"
    )
    while not producer.get("ProducerBlocked"):
        await _clock.sleep(0)
    assert [producer.get(name) for name in shown] == [True, 50, True, False]
    await _clock.sleep(0.01)
    queue.set("ProducerFlowControl", False)
    await queue.invoke("purge")
    await blocked.wait()
    assert producer.get("ProducerBlocked") is False
    waited = producer.get("TotalTimeBlocked")
    assert isinstance(waited, int) and waited >= 10
    await producer.invoke("resetFlowControlStats")
    assert (producer.get("TotalTimeBlocked"), producer.get("PercentageBlocked")) == (0, 0)
    assert producer.get("SentCount") == 2
    await producer.invoke("resetStatistics")
    assert producer.get("SentCount") == 0
    queue.set("MemoryLimit", 1)
    await client.send(Queue("q"), "a", "b", "c")
    assert queue.get("QueueSize") == 4, "nobody waits without flow control"
