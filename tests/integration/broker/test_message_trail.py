"""The trail of messages: events in files, without bodies or properties, within size and time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import AckType, Throwable
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.plugins.message_trail import MessageTrailPlugin
from pyjms_broker.region.message_trail import MessageTrail
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, network
from tests.kit.clients.raw import RawClient

__all__ = ["network"]

ORDERS = Queue("orders.eu")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@asynccontextmanager
async def trailed(
    folder: Path, *destinations: str, retention: float = 60.0, maximum_size: int = 100_000
) -> AsyncIterator[tuple[BrokerService, RawClient]]:
    plugin = MessageTrailPlugin(
        destinations=destinations,
        directory=folder,
        retention=retention,
        maximum_size=maximum_size,
    )
    async with BrokerService("trailed", persistent=False, plugins=[plugin]) as service:
        client = RawClient(create_transport(service.vm_uri))
        await client.open("shop")
        yield service, client
        await client.close()


def trail_of(service: BrokerService) -> MessageTrail:
    trail = service.region_broker.trail
    assert trail is not None
    return trail


async def events(trail: MessageTrail, message_id: str) -> list[tuple[str, str]]:
    return [(each["event"], each["details"]) for each in await trail.find(message_id)]


@pytest.mark.fact("activemq-edges JX5")
async def test_a_message_is_followed_from_its_sender_to_its_acknowledgement(tmp_path: Path) -> None:
    async with trailed(tmp_path, "orders.>") as (service, client):
        trail = trail_of(service)
        consumer = await client.consumer(ORDERS)
        producer = await client.producer(ORDERS)
        message = client.text(producer, ORDERS, "the secret body")
        message.correlation_id = "order 7\twith a tab"
        message.marshalled_properties = encode_map({"password": "hush", "traceparent": PARENT})
        await client.request(message)
        dispatch = await client.dispatched()
        await client.ack(dispatch)
        await client.send(Queue("others"), "not followed")
        found = await trail.find(str(message.message_id))
        assert [each["event"] for each in found] == ["sent", "dispatched", "acknowledged"]
        assert found[0]["details"] == f"by {producer}"
        assert found[1]["details"] == f"to {consumer} of shop joe"
        assert found[2]["details"] == "by shop joe"
        assert found[0]["trace"] == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert found == await trail.find(correlation_id="order 7\twith a tab")
        (file,) = trail.files()
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") == 3
        assert "secret" not in text
        assert "hush" not in text
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.fact("activemq-edges JX5")
async def test_redelivery_dead_letter_and_expiry_are_events(tmp_path: Path) -> None:
    async with trailed(tmp_path, "orders.>") as (service, client):
        trail = trail_of(service)
        await client.send(ORDERS, "fails")
        consumer = await client.consumer(ORDERS)
        first = await client.dispatched()
        assert first.message is not None
        message_id = str(first.message.message_id)
        await client.remove(consumer)
        await client.consumer(ORDERS)
        again = await client.dispatched()
        cause = Throwable("builtins.ValueError", "a secret text")
        await client.ack(again, AckType.POISON, poison_cause=cause)
        found = await events(trail, message_id)
        assert [each[0] for each in found[:3]] == ["sent", "dispatched", "redelivered"]
        dead = dict(found)["dead"]
        assert dead == "to queue://ActiveMQ.DLQ builtins.ValueError from shop"
        text = trail.files()[0].read_text(encoding="utf-8")
        assert "secret" not in text


@pytest.mark.fact("activemq-edges JX5")
async def test_a_move_and_each_subscriber_of_a_topic_are_events(tmp_path: Path) -> None:
    news = Topic("news")
    async with trailed(tmp_path, "orders.>", "moved", "topic://news") as (service, client):
        trail = trail_of(service)
        await client.send(ORDERS, "one")
        await trail.flush()
        line = trail.files()[0].read_text(encoding="utf-8").split("\t")
        name = service.management.context.names.destination(ORDERS)
        await service.management.invoke(name, "moveMessageTo", line[3], "moved")
        found = await events(trail, line[3])
        assert ("moved", "to queue://moved") in found
        assert [each[0] for each in found].count("sent") == 2
        await client.consumer(news)
        await client.consumer(news, subscription_name="durable")
        await client.send(news, "two")
        await client.dispatched()
        second = await client.dispatched()
        assert second.message is not None
        kinds = [each[0] for each in await events(trail, str(second.message.message_id))]
        assert sorted(kinds) == ["dispatched", "dispatched", "sent"]


@pytest.mark.fact("activemq-edges JX5")
async def test_the_files_stay_below_their_maximum_size_and_age(tmp_path: Path) -> None:
    async with (
        VirtualClock() as clock,
        trailed(tmp_path, "orders.>", maximum_size=5000) as (service, client),
    ):
        trail = trail_of(service)
        for _ in range(60):
            await client.send(ORDERS, "x")
            await trail.flush()
            await clock.advance(0.01)
        files = trail.files()
        assert len(files) > 2
        assert sum(each.stat().st_size for each in files) <= 5000
        (last,) = files[-1:]
        assert "sent" in last.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (MessageTrailPlugin(directory="x"), "has no destinations"),
        (MessageTrailPlugin(destinations=("a",)), "has no directory"),
        (
            MessageTrailPlugin(directory="x", destinations=("a",), trace_url="javascript:x"),
            "is no URL",
        ),
    ],
    ids=["destinations", "directory", "trace_url"],
)
async def test_the_plugin_refuses_what_cannot_work(
    plugin: MessageTrailPlugin, problem: str
) -> None:
    with pytest.raises(ConfigurationException, match=problem):
        await BrokerService("x", persistent=False, plugins=[plugin]).start()


async def test_without_the_plugin_destinations_report_nothing() -> None:
    async with BrokerService("plain", persistent=False) as service:
        client = RawClient(create_transport(service.vm_uri))
        await client.open("shop")
        await client.send(ORDERS, "x")
        found = service.region_broker.destinations()[ORDERS].base
        assert (found.is_trailed, found.reports_dispatched) == (False, False)
        await client.close()


@pytest.mark.fact("activemq-edges JX5")
async def test_a_message_that_a_bridge_forwards_says_so(network: Network, tmp_path: Path) -> None:
    plugin = MessageTrailPlugin(destinations=("orders.>",), directory=tmp_path)
    source, target = network.broker("source", plugins=[plugin]), network.broker("target")
    network.link(source, target)
    await network.start(target, source)
    receiver = await network.client(target)
    await receiver.consumer(ORDERS)
    sender = await network.client(source)
    await sender.send(ORDERS, "x")
    message = await receiver.message()
    found = await events(trail_of(source), str(message.message_id))
    assert [each[0] for each in found][:2] == ["sent", "forwarded"]
