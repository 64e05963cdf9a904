"""Who may be a bridge of another broker, and what only a bridge may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionInfo, SessionInfo
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

pytestmark = pytest.mark.fact("activemq-edges SE36")

USERS = simple(user("root", "admins"), user("alice", "users"), user("bridge", "bridges"))
EVERYBODY = {"read": "users,bridges", "write": "users,bridges", "admin": "users,bridges"}
ENTRIES = [
    {"destination": ">", "read": "admins", "write": "admins", "admin": "admins"},
    {"destination": "pub.>", **EVERYBODY},
    {"destination": "topic://ActiveMQ.Advisory.>", **EVERYBODY},
]
OF_ANOTHER_BROKER = TemporaryQueue("ID:there:1:1")


def is_forwarded(service: BrokerService, destination: Destination) -> bool:
    return destination in [info.destination for info in forwarded(service)]


def rights(bridges: str | None) -> AuthorizationSettings:
    return AuthorizationSettings.model_validate({"entries": ENTRIES, "bridges": bridges})


def introduce(client: RawClient) -> None:
    client.send_command(BrokerInfo(broker_name="x", network_connection=True))


async def bridge_from_the_start(broker: SecuredBroker, user_name: str) -> RawClient:
    """As ActiveMQ and this broker do it."""
    client = RawClient(create_transport(broker.broker.url))
    broker.clients.append(client)
    await client.transport.start()
    introduce(client)
    await client.request(ConnectionInfo(client.connection_id, client.name, "secret", user_name))
    client.send_command(SessionInfo(client.session_id))
    return client


async def bridge_after_its_login(broker: SecuredBroker, user_name: str) -> RawClient:
    client = await broker.client(user_name)
    introduce(client)
    await client.producer()
    return client


Connecting = Callable[[SecuredBroker, str], Awaitable[RawClient]]
WAYS = pytest.mark.parametrize("connect", [bridge_from_the_start, bridge_after_its_login])


@WAYS
@pytest.mark.parametrize(
    ("bridges", "user_name"),
    [(None, "alice"), ("*", "alice"), ("bridges", "bridge"), ("bridges", "root"), ("", "root")],
)
async def test_a_user_who_may_be_a_bridge_creates_temporary_queues_of_other_brokers(
    secured: StartSecured, connect: Connecting, bridges: str | None, user_name: str
) -> None:
    async with secured(USERS, rights(bridges)) as broker:
        await (await connect(broker, user_name)).destination(OF_ANOTHER_BROKER)


@pytest.mark.parametrize(("bridges", "user_name"), [("bridges", "alice"), ("", "bridge")])
async def test_another_user_cannot_log_in_as_one(
    secured: StartSecured, bridges: str, user_name: str
) -> None:
    async with secured(USERS, rights(bridges)) as broker:
        with pytest.raises(JMSSecurityException, match="not authorized to connect as: a bridge"):
            await bridge_from_the_start(broker, user_name)
        await until(lambda: not broker.service.connections.by_id)


async def test_another_user_who_says_so_later_is_disconnected(secured: StartSecured) -> None:
    async with secured(USERS, rights("bridges")) as broker:
        introduce(await broker.client("alice"))
        await until(lambda: not broker.service.connections.by_id)


@pytest.mark.parametrize("name", ["ID:there:1:1", "x"])
async def test_no_other_client_creates_them(secured: StartSecured, name: str) -> None:
    """Who creates the next one of a connection elsewhere gets its replies, which bridges carry."""
    async with secured(USERS, rights(None)) as broker:
        alice = await broker.client("alice")
        with pytest.raises(JMSSecurityException, match="not authorized to create: temp-queue"):
            await alice.destination(TemporaryQueue(name))
        with pytest.raises(JMSException):
            await alice.consumer(TemporaryQueue(name))
        await alice.destination(TemporaryQueue(f"{alice.name}:1"))


@pytest.mark.parametrize("duplex", [False, True])
async def test_the_broker_s_own_bridge_needs_the_right_at_the_other_end_only(
    network: Network, *, duplex: bool
) -> None:
    orders = Queue("pub.orders")
    users = simple(user("joe", "admins", "x"), user("bridge", "bridges"))
    source, target = (
        network.broker(name, plugins=[users, rights(bridges)], destinations=[orders])
        for name, bridges in (("a", ""), ("b", "bridges"))
    )
    network.link(source, target, duplex=duplex, user_name="bridge", password="secret")
    await network.start(target, source)
    here, there = await network.client(source), await network.client(target)
    reply = TemporaryQueue(f"{there.name}:1")
    await there.destination(reply)
    for destination in (orders, reply):
        await there.consumer(destination)
        await until(partial(is_forwarded, source, destination))
        await here.send(destination, "x")
        assert (await there.message()).destination == destination


async def test_a_bridge_without_the_right_says_so(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    source = network.broker("a")
    target = network.broker("b", plugins=[USERS, rights("")])
    network.link(source, target, remote_user_name="bridge", remote_password="secret")
    await network.start(target)
    await source.start()
    try:
        await until(lambda: "User bridge is not authorized to connect as: a bridge" in caplog.text)
    finally:
        await source.stop()
