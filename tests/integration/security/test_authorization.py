"""What users may do: reading, writing, creating and removing. (activemq-edges SE4 to SE7)"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic, parse_destination
from pyjms.wire.openwire.commands import AckType, DestinationInfo, RemoveSubscriptionInfo
from pyjms_broker.api.access import RANGES
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(user("r", "readers"), user("w", "writers"), user("a", "admins"), user("n"))
ALL = {"read": "*", "write": "*", "admin": "*"}


def rights(*entries: dict[str, Any], **settings: Any) -> AuthorizationSettings:
    return AuthorizationSettings.model_validate({"entries": entries, **settings})


def entry(destination: str, read: str = "", write: str = "", admin: str = "") -> dict[str, str]:
    return {"destination": destination, "read": read, "write": write, "admin": admin}


ORDERS = rights(
    entry("orders.>", "readers", "writers", "admins"),
    entry("topic://orders.>", "readers", "writers", "admins"),
)


async def refused(attempt: Awaitable[object], text: str) -> None:
    with pytest.raises(JMSSecurityException) as caught:
        await attempt
    assert caught.value.reason == text


async def browse(client: RawClient, destination: Destination) -> None:
    await client.consumer(destination, browser=True)


async def remove(client: RawClient, destination: Destination) -> None:
    await client.request(DestinationInfo(client.connection_id, destination, 1))


ACTIONS: dict[str, Any] = {
    "write to": lambda client, to: client.producer(to),
    "write to (send)": lambda client, to: client.send(to, "x"),
    "read from": lambda client, to: client.consumer(to),
    "read from (browser)": browse,
    "remove": remove,
}
MAY = {"write to": "w", "read from": "r", "remove": "a"}


@pytest.mark.fact("activemq-edges SE5")
@pytest.mark.fact("activemq-edges SE4")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("name", ["queue://orders.eu", "topic://orders.eu", "queue://orders"])
async def test_each_action_needs_its_right(secured: StartSecured, name: str, action: str) -> None:
    destination, right = parse_destination(name), action.partition(" (")[0]
    async with secured(USERS, ORDERS, destinations=[destination]) as broker:
        for user_name in "rwan":
            client = await broker.client(user_name)
            if user_name == MAY[right]:
                await ACTIONS[action](client, destination)
                continue
            text = f"User {user_name} is not authorized to {right}: {name}"
            await refused(ACTIONS[action](client, destination), text)


@pytest.mark.fact("activemq-edges SE5")
async def test_creating_needs_the_right_where_nothing_exists(secured: StartSecured) -> None:
    async with secured(USERS, ORDERS, destinations=[Queue("orders.old")]) as broker:
        writer, reader = await broker.client("w"), await broker.client("r")
        admin = await broker.client("a")
        text = "User {} is not authorized to create: queue://orders.new"
        new = Queue("orders.new")
        await refused(writer.send(new, "x"), text.format("w"))
        await refused(reader.consumer(new), text.format("r"))
        await refused(writer.destination(new), text.format("w"))
        await writer.destination(Queue("orders.old"))
        await admin.destination(new)
        await writer.send(new, "x")
        await reader.consumer(new)
        assert (await reader.message()).destination == new


@pytest.mark.fact("activemq-edges SE4")
async def test_rights_of_all_entries_and_the_default_add_up(secured: StartSecured) -> None:
    plugin = rights(
        entry("a.>", "readers", admin="*"),
        entry("a.b.*", "writers"),
        entry("a.b.c", "*"),
        default_entry={"write": "writers, admins"},
    )
    async with secured(USERS, plugin) as broker:
        reader, writer = await broker.client("r"), await broker.client("w")
        nobody = await broker.client("n")
        for name in ("a", "a.x", "a.b.x", "a.b.c", "a.b.c.d"):
            await reader.consumer(Queue(name))
        for name in ("a.b.x", "a.b.c"):
            await writer.consumer(Queue(name))
            await writer.send(Queue(name), "x")
        await nobody.consumer(Queue("a.b.c"))
        await refused(
            writer.consumer(Queue("a.b.c.d")),
            "User w is not authorized to read from: queue://a.b.c.d",
        )
        await refused(
            reader.consumer(Queue("b")), "User r is not authorized to read from: queue://b"
        )
        await refused(
            reader.consumer(Topic("a.b.c")), "User r is not authorized to read from: topic://a.b.c"
        )


@pytest.mark.fact("activemq-edges SE4")
async def test_a_composite_needs_the_right_on_every_member(secured: StartSecured) -> None:
    plugin = rights(entry("a", **ALL), entry("b", "readers", "writers", "*"))
    async with secured(USERS, plugin) as broker:
        reader, writer = await broker.client("r"), await broker.client("w")
        both = Queue("a,b")
        await writer.send(both, "x")
        await reader.consumer(both)
        await refused(reader.send(both, "x"), "User r is not authorized to write to: queue://a,b")
        await refused(writer.consumer(both), "User w is not authorized to read from: queue://a,b")
        assert broker.broker.queue_statistics("a").messages == 1


@pytest.mark.fact("activemq-edges SE5")
async def test_a_pattern_needs_the_right_on_itself(secured: StartSecured) -> None:
    plugin = rights(entry("a.>", **ALL), entry("b.*", **ALL), entry("c.d", **ALL))
    async with secured(USERS, plugin) as broker:
        client = await broker.client("n")
        for name in ("a.>", "a.*", "a.*.x", "b.*", "b.>", "c.*", "*", "*.d", "*.>"):
            await client.consumer(Queue(name))
        for name in (">", "c.>", "d.*", "c.*.e"):
            await refused(
                client.consumer(Queue(name)),
                f"User n is not authorized to read from: queue://{name}",
            )


PATTERNS = rights(
    entry("topic://news.*", "readers", "*", "*"),
    entry("topic://news.*.secret", "admins", "*", "*"),
)
OPEN, SECRET = Topic("news.open"), Topic("news.x.secret")


@pytest.mark.fact("activemq-edges SE5")
async def test_a_pattern_gets_what_its_user_may_read(secured: StartSecured) -> None:
    plugin = rights(
        entry("c.open", **ALL), entry("c.>", write="*", admin="*"), entry("d.*.x", **ALL)
    )
    async with secured(USERS, plugin, destinations=[Queue("c.secret")]) as broker:
        client = await broker.client("n")
        await client.consumer(Queue("c.*"))
        for name in ("c.secret", "c.later", "c.open"):
            await client.send(Queue(name), "x")
        assert (await client.message()).destination == Queue("c.open")
        await client.nothing_dispatched()
        await refused(
            client.send(Queue("d.*"), "x"), "User n is not authorized to write to: queue://d.*"
        )


@pytest.mark.fact("activemq-edges SE5")
async def test_a_pattern_gets_no_messages_that_its_user_may_not_read(secured: StartSecured) -> None:
    async with secured(USERS, PATTERNS, destinations=[OPEN, SECRET]) as broker:
        reader, admin = await broker.client("r"), await broker.client("a")
        await reader.consumer(Topic("news.>"))
        for topic in (SECRET, Topic("news.later.secret"), OPEN, Topic("news.later")):
            await admin.send(topic, topic.physical_name)
        received = [await reader.message() for _ in range(2)]
        assert [m.destination for m in received] == [OPEN, Topic("news.later")]
        await reader.nothing_dispatched()


@pytest.mark.fact("activemq-edges SE5")
async def test_a_restored_durable_subscription_of_a_pattern_gets_no_more(tmp_path: Path) -> None:
    """The broker restores it before it knows its client, which has its rights only later."""
    service = BrokerService(
        "restored", data_directory=tmp_path, plugins=[USERS, PATTERNS], destinations=[OPEN, SECRET]
    )

    async def subscribe(broker: SecuredBroker) -> RawClient:
        client = await broker.client("r", name="durable")
        await client.consumer(Topic("news.>"), subscription_name="s")
        return client

    for expected in (1, 2):  # what was sent while it was inactive counts the second time
        async with EmbeddedTestBroker(service) as embedded:
            broker = SecuredBroker(embedded)
            admin = await broker.client("a")
            for topic in (SECRET, OPEN):
                await admin.send(topic, "x")
            client = await subscribe(broker)
            await admin.send(SECRET, "x")
            await admin.send(OPEN, "x")
            for _ in range(expected):
                dispatch = await client.dispatched()
                assert dispatch.destination == OPEN
                await client.ack(dispatch)
            await client.nothing_dispatched()
            await client.close()
            await admin.close()


@pytest.mark.fact("activemq-edges SE6")
async def test_temporary_destinations_are_open_unless_an_entry_says_otherwise(
    secured: StartSecured,
) -> None:
    async with secured(USERS, rights()) as broker:
        one, other = await broker.client("n"), await broker.client("w")
        reply = TemporaryQueue(f"{one.name}:1")
        await one.destination(reply)
        await one.consumer(reply)
        await other.send(reply, "x")
        assert (await one.message()).destination == reply
    entry = {"read": "readers", "write": "writers", "admin": "readers"}
    async with secured(USERS, rights(temp_destination_entry=entry)) as broker:
        one, other = await broker.client("r"), await broker.client("n")
        reply, forbidden = TemporaryQueue(f"{one.name}:1"), TemporaryQueue(f"{other.name}:1")
        await one.destination(reply)
        await one.consumer(reply)
        await (await broker.client("w")).send(reply, "x")
        for attempt, action in (
            (other.send(reply, "x"), "write to"),
            (other.consumer(reply), "read from"),
            (remove(other, reply), "remove"),
        ):
            with pytest.raises(JMSException) as caught:
                await attempt
            assert action == "remove" or isinstance(caught.value, JMSSecurityException)
        await refused(
            other.destination(forbidden),
            f"User n is not authorized to create: {forbidden.qualified_name}",
        )


async def test_advisories_need_rights_as_other_topics_do(secured: StartSecured) -> None:
    advisories = Topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")
    async with secured(USERS, ORDERS) as broker:
        client = await broker.client("a")
        await refused(
            client.consumer(advisories),
            f"User a is not authorized to read from: {advisories.qualified_name}",
        )
    async with secured(USERS, rights(entry("topic://ActiveMQ.Advisory.>", **ALL))) as broker:
        await (await broker.client("a")).consumer(advisories)


@pytest.mark.fact("activemq-edges SE7")
async def test_the_broker_itself_may_do_everything(secured: StartSecured) -> None:
    plugin = rights(entry("orders", "readers", "writers", "*"))
    async with secured(USERS, plugin) as broker:
        writer, reader = await broker.client("w"), await broker.client("r")
        await writer.send(Queue("orders"), "x")
        await reader.consumer(Queue("orders"))
        await reader.ack(await reader.dispatched(), AckType.POISON)
        assert broker.broker.queue_statistics("ActiveMQ.DLQ").messages == 1
        await refused(
            reader.consumer(Queue("ActiveMQ.DLQ")),
            "User r is not authorized to read from: queue://ActiveMQ.DLQ",
        )


async def test_both_ends_of_a_virtual_topic_are_checked(secured: StartSecured) -> None:
    topic, queue = Topic("VirtualTopic.news"), Queue("Consumer.A.VirtualTopic.news")
    plugin = rights(
        entry(str(topic), write="writers", admin="*"),
        entry("Consumer.A.>", read="readers", admin="*"),
    )
    async with secured(USERS, plugin) as broker:
        writer, reader = await broker.client("w"), await broker.client("r")
        await reader.consumer(queue)
        await writer.send(topic, "x")
        assert (await reader.message()).destination == queue
        text = "User {} is not authorized to {}: {}"
        await refused(writer.consumer(queue), text.format("w", "read from", queue.qualified_name))
        await refused(writer.send(queue, "x"), text.format("w", "write to", queue.qualified_name))
        await refused(reader.send(topic, "x"), text.format("r", "write to", topic.qualified_name))


async def test_other_clients_durable_subscriptions_are_not_removed(secured: StartSecured) -> None:
    async with secured(USERS, rights(default_entry=ALL)) as broker:
        owner = await broker.client("r", name="owner")
        consumer = await owner.consumer(Topic("t"), subscription_name="s")
        await owner.remove(consumer)
        other = await broker.client("w")
        removal = RemoveSubscriptionInfo(
            other.connection_id, subscription_name="s", client_id="owner"
        )
        with pytest.raises(JMSSecurityException, match="cannot remove a subscription of owner"):
            await other.request(removal)
        await owner.request(
            RemoveSubscriptionInfo(owner.connection_id, subscription_name="s", client_id="owner")
        )


async def test_range_requests_read_only_what_their_user_may_read(secured: StartSecured) -> None:
    plugin = rights(
        entry("orders", "readers", "*", "*"),
        entry("secret", "admins", "admins", "*"),
        entry("PyJMS.>", **ALL),
    )
    async with secured(USERS, plugin, destinations=[Queue("orders"), Queue("secret")]) as broker:
        reader = await broker.client("r")
        reply = TemporaryQueue(f"{reader.name}:1")
        await reader.destination(reply)
        await reader.consumer(reply)
        producer = await reader.producer()

        async def ask(to: Destination, fields: dict[str, Any], answer: Destination) -> Any:
            message = reader.text(producer, to, json.dumps({"v": 1, **fields}))
            message.reply_to = answer
            await reader.request(message)

        async def answer() -> Any:
            message = await reader.message()
            assert message.content is not None
            return json.loads(message.content[4:])

        for name, allowed in (("orders", True), ("secret", False)):
            await ask(RANGES, {"op": "look", "queue": name}, reply)
            text = f"User r is not authorized to read from: queue://{name}"
            answered = await answer()
            assert answered.get("error") == (None if allowed else text), answered
        await ask(RANGES, {"op": "find", "pattern": ">"}, reply)
        assert await answer() == {"queues": ["orders"]}
        for to in (RANGES, Queue("PyJMS.Ranges,orders")):
            with pytest.raises(JMSSecurityException, match="write to: queue://secret"):
                await ask(to, {"op": "look", "queue": "orders"}, Queue("secret"))


async def test_an_original_destination_is_one_that_the_client_may_write_to(
    secured: StartSecured,
) -> None:
    """An operator's retry sends a message there, whatever its sender may do."""
    plugins = [USERS, rights(entry("dead", **ALL), entry("orders", **ALL))]
    queues = [Queue(name) for name in ("dead", "orders", "secret")]
    async with secured(*plugins, destinations=queues) as broker:
        client = await broker.client("r")
        producer = await client.producer()
        for original in ("orders", "secret"):
            message = client.text(producer, Queue("dead"), original)
            message.original_destination = Queue(original)
            await client.request(message)
        (view,) = broker.service.management.find("*:*,destinationName=dead")
        assert await view.invoke("retryMessages") == 1
        found = broker.service.region_broker.destinations()
        sizes = {each.physical_name: found[each].statistics.messages for each in queues}
        assert sizes == {"dead": 1, "orders": 1, "secret": 0}


@pytest.mark.fact("activemq-broker B6")
@pytest.mark.parametrize("order", ["as in ActiveMQ", "reversed", "alone"])
async def test_authorization_needs_an_authentication(secured: StartSecured, order: str) -> None:
    plugins: list[Any] = [USERS, rights(entry("orders", **ALL))]
    if order != "as in ActiveMQ":
        plugins.reverse()
    async with secured(*plugins[: 1 if order == "alone" else 2]) as broker:
        client = await broker.client("r")
        if order == "alone":
            await refused(client.send(Queue("orders"), "x"), "User is not authenticated.")
        else:
            await client.send(Queue("orders"), "x")


async def test_rights_of_a_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "broker_name: rights\npersistent: false\n"
        "plugins:\n"
        "  simple_authentication: {users: [{username: r, password: secret, groups: readers}]}\n"
        "  authorization:\n"
        "    entries:\n"
        "      - {destination: orders, write: [readers, others], admin: '*'}\n"
    )
    service = BrokerService.from_settings(load_broker_settings(file, environ={}))
    async with EmbeddedTestBroker(service) as embedded:
        client = await SecuredBroker(embedded).client("r")
        await client.send(Queue("orders"), "x")
        await refused(
            client.consumer(Queue("orders")),
            "User r is not authorized to read from: queue://orders",
        )
        await client.close()
