"""Ids that advisories tell are used by their own user only: of connections, clients and messages."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidClientIDException, JMSSecurityException
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    BrokerInfo,
    MessageId,
    ProducerId,
    ProducerInfo,
    SessionInfo,
)
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(user("root", "admins"), user("alice", "users"), user("mallory", "users"))
RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            {"destination": ">", "read": "*", "write": "*", "admin": "admins"},
            {"destination": "shared", "admin": "users"},
            {"destination": "topic://ActiveMQ.Advisory.>", "read": "*", "write": "*", "admin": "*"},
        ]
    }
)
SHARED = Queue("shared")


async def named(broker: SecuredBroker, user_name: str, name: str) -> RawClient:
    return await broker.client(user_name, name=name)


@pytest.mark.fact("activemq-edges SE32")
async def test_a_connection_id_belongs_to_its_user_also_after_its_end(
    secured: StartSecured,
) -> None:
    async with secured(USERS) as broker:
        alice = await named(broker, "alice", "ID:alice:1")
        with pytest.raises(JMSSecurityException, match="belongs to another user than mallory"):
            await named(broker, "mallory", "ID:alice:1")
        await alice.producer()
        await alice.close()
        with pytest.raises(JMSSecurityException, match="belongs to another user than mallory"):
            await named(broker, "mallory", "ID:alice:1")
        await (await named(broker, "alice", "ID:alice:1")).producer()


@pytest.mark.fact("activemq-edges SE32")
async def test_the_same_user_replaces_a_connection(secured: StartSecured) -> None:
    async with secured(USERS) as broker:
        old = await named(broker, "alice", "ID:alice:1")
        await (await named(broker, "alice", "ID:alice:1")).producer()
        await old.lost()


@pytest.mark.fact("activemq-edges SE32")
async def test_a_link_is_stolen_by_its_user_only(secured: StartSecured) -> None:
    async with secured(USERS) as broker:
        connector = broker.service.add_connector("tcp://127.0.0.1:0?allowLinkStealing=true")
        await connector.start()
        alice = await connect(broker, connector.connect_uri, "alice")
        with pytest.raises(InvalidClientIDException, match="already connected from"):
            await connect(broker, connector.connect_uri, "mallory")
        await alice.producer()
        await connect(broker, connector.connect_uri, "alice")
        await alice.lost()


async def connect(broker: SecuredBroker, url: str, user_name: str) -> RawClient:
    client = RawClient(create_transport(url))
    broker.clients.append(client)
    await client.connect(client_id="reader", user_name=user_name, password="secret")
    client.send_command(SessionInfo(client.session_id))
    return client


async def bodies(broker: SecuredBroker) -> list[str]:
    """Return the texts in the shared queue."""
    reader = await broker.client("root")
    await reader.consumer(SHARED, browser=True)
    found = []
    while (message := (await reader.dispatched()).message) is not None:
        assert message.content is not None
        found.append(bytes(message.content[4:]).decode())
    return found


def forged(client: RawClient, own: ProducerId, message_id: MessageId) -> ActiveMQTextMessage:
    message = client.text(own, SHARED, "forged")
    message.message_id = message_id
    return message


@pytest.mark.fact("activemq-edges SE32")
@pytest.mark.parametrize("of_text", [False, True])
async def test_nobody_sends_messages_with_ids_of_others(
    secured: StartSecured, *, of_text: bool
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        alice, mallory = await broker.client("alice"), await broker.client("mallory")
        hers, own = await alice.producer(), await mallory.producer()
        for number in (1, 2):
            message_id = MessageId(None, hers, number)
            if of_text:
                message_id = MessageId(str(message_id), own, number)
            with pytest.raises(JMSSecurityException, match="of another connection"):
                await mallory.request(forged(mallory, own, message_id))
        for number in (1, 2):
            await alice.request(forged(alice, hers, MessageId(None, hers, number)))
        assert await bodies(broker) == ["forged", "forged"]


@pytest.mark.fact("activemq-edges SE32")
@pytest.mark.parametrize("has_left", [False, True])
async def test_what_calls_itself_a_bridge_suppresses_nothing(
    secured: StartSecured, *, has_left: bool
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        alice, mallory = await broker.client("alice"), await broker.client("mallory")
        hers, own = await alice.producer(), await mallory.producer()
        if has_left:
            await alice.close()
        mallory.send_command(BrokerInfo(broker_name="x", network_connection=True))
        await mallory.request(forged(mallory, own, MessageId(None, hers, 1)))
        if has_left:
            alice = await broker.client("alice", name=alice.name)
            await alice.request(ProducerInfo(hers))
        await alice.request(forged(alice, hers, MessageId(None, hers, 1)))
        assert await bodies(broker) == ["forged", "forged"]


@pytest.mark.fact("activemq-edges SE32")
async def test_ids_of_other_brokers_connections_come_over_bridges(secured: StartSecured) -> None:
    async with secured(USERS, RIGHTS) as broker:
        bridge = await broker.client("mallory")
        own = await bridge.producer()
        remote = MessageId(None, ProducerId("ID:elsewhere:1", 1, 1), 1)
        with pytest.raises(JMSSecurityException, match="of another connection"):
            await bridge.request(forged(bridge, own, remote))
        bridge.send_command(BrokerInfo(broker_name="x", network_connection=True))
        for _ in range(2):  # the second one is a repetition
            await bridge.request(forged(bridge, own, remote))
        assert await bodies(broker) == ["forged"]


@pytest.mark.fact("activemq-edges SE32")
async def test_the_user_s_own_ids_and_an_administrator_s_are_as_before(
    secured: StartSecured,
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        alice, again = await broker.client("alice"), await broker.client("alice")
        hers = await alice.producer()
        await again.request(forged(again, await again.producer(), MessageId(None, hers, 1)))
        await alice.request(forged(alice, hers, MessageId(None, hers, 1)))
        root = await broker.client("root")
        remote = MessageId(None, ProducerId("ID:elsewhere:1", 1, 1), 1)
        await root.request(forged(root, await root.producer(), remote))
        assert await bodies(broker) == ["forged", "forged"]


async def test_without_users_ids_are_as_in_activemq(secured: StartSecured) -> None:
    async with secured() as broker:
        client = await broker.client()
        own, elsewhere = await client.producer(), ProducerId("ID:elsewhere:1", 1, 1)
        for _ in range(2):
            await client.request(forged(client, own, MessageId(None, elsewhere, 1)))
        assert await bodies(broker) == ["forged"]
