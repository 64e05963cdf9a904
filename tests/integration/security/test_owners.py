"""Durable subscriptions, XA branches and temporary destinations have owners, on a broker with rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import (
    BrokerInfo,
    DataArrayResponse,
    RemoveSubscriptionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(
    user("root", "admins"), user("alice", "users"), user("bob", "users"), user("mallory", "guests")
)


def entry(destination: str, groups: str, admin: str = "admins") -> dict[str, str]:
    return {"destination": destination, "read": groups, "write": groups, "admin": admin}


RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            *(entry(name, "admins") for name in (">", "topic://>")),
            *(entry(name, "users") for name in ("pay", "topic://pay")),
            *(entry(name, "guests,users", "*") for name in ("pub.>", "topic://pub.>")),
            entry("topic://ActiveMQ.Advisory.>", "*", "*"),
        ]
    }
)
PAY, PAYROLL = Topic("pay"), Queue("pay")
XID = XATransactionId(1, b"g", b"b")


async def refused(attempt: Awaitable[object], text: str | None = None) -> None:
    with pytest.raises(JMSSecurityException, match=text):
        await attempt


async def subscribed(broker: SecuredBroker, user_name: str = "alice") -> None:
    """Make a durable subscription, and leave it."""
    client = await broker.client(user_name, client_id="payroll")
    await client.consumer(PAY, subscription_name="s")
    await client.close()


# durable subscriptions
@pytest.mark.fact("activemq-edges SE33")
async def test_a_client_id_with_durable_subscriptions_is_their_user_s(
    secured: StartSecured,
) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAY]) as broker:
        await subscribed(broker)
        for other in ("mallory", "bob"):
            await refused(broker.client(other, client_id="payroll"), "use the durable subscription")
        root = await broker.client("root", client_id="payroll")
        await root.close()
        await (await broker.client("alice", client_id="payroll")).consumer(
            PAY, subscription_name="s"
        )


@pytest.mark.fact("activemq-edges SE33")
async def test_others_neither_consume_replace_nor_remove_a_durable_subscription(
    secured: StartSecured,
) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAY, Topic("pub.x")]) as broker:
        await subscribed(broker)
        await (await broker.client("root")).send(PAY, "salaries")
        for other in ("mallory", "bob"):
            client = await broker.client(other)
            for topic in (PAY, Topic("pub.x")):
                await refused(client.consumer(topic, subscription_name="s", client_id="payroll"))
            await refused(
                client.request(
                    RemoveSubscriptionInfo(client.connection_id, "s", client_id="payroll")
                )
            )
        alice = await broker.client("alice", client_id="payroll")
        await alice.consumer(PAY, subscription_name="s")
        await alice.message()


@pytest.mark.fact("activemq-edges SE33")
async def test_nobody_subscribes_with_the_client_id_of_another(secured: StartSecured) -> None:
    """Else it would belong to the one who was first."""
    news = Topic("pub.news")
    async with secured(USERS, RIGHTS, destinations=[PAY, news]) as broker:
        mallory = await broker.client("mallory")
        await refused(
            mallory.consumer(news, subscription_name="s", client_id="payroll"),
            "subscribe as the client: payroll",
        )
        await subscribed(broker)
        await (await broker.client("alice", client_id="payroll")).close()


@pytest.mark.fact("activemq-edges SE33")
@pytest.mark.fact("activemq-persistence K33")
@pytest.mark.parametrize("subscriber", ["alice", "root"])
async def test_a_restored_durable_subscription_is_its_user_s(
    tmp_path: Path, subscriber: str
) -> None:
    def service() -> BrokerService:
        return BrokerService("restored", data_directory=tmp_path, plugins=[USERS, RIGHTS])

    async with EmbeddedTestBroker(service()) as embedded:
        await (await SecuredBroker(embedded).client("root")).destination(PAY)
        await subscribed(SecuredBroker(embedded), subscriber)
    async with EmbeddedTestBroker(service()) as embedded:
        broker = SecuredBroker(embedded)
        for other in ("mallory", "bob"):
            await refused(broker.client(other, client_id="payroll"))
        await (await broker.client(subscriber, client_id="payroll")).close()
        await (await broker.client("root", client_id="payroll")).close()
        for client in broker.clients:
            await client.cut()


@pytest.mark.fact("activemq-edges SE33")
async def test_a_durable_subscription_without_a_user_is_of_the_first_who_may_read_its_topic(
    tmp_path: Path,
) -> None:
    def service(*plugins: PluginSettings) -> BrokerService:
        return BrokerService("restored", data_directory=tmp_path, plugins=plugins)

    async with EmbeddedTestBroker(service()) as embedded:
        client = await SecuredBroker(embedded).client(client_id="payroll")
        await client.consumer(PAY, subscription_name="s")
        await client.close()
    async with EmbeddedTestBroker(service(USERS, RIGHTS)) as embedded:
        broker = SecuredBroker(embedded)
        await refused(broker.client("mallory", client_id="payroll"))
        await (await broker.client("bob", client_id="payroll")).close()
        await refused(broker.client("alice", client_id="payroll"))
        for client in broker.clients:
            await client.cut()


@pytest.mark.fact("activemq-edges SE33")
async def test_a_restored_subscription_that_its_client_may_no_longer_read_refuses_no_login(
    tmp_path: Path,
) -> None:
    def service(rights: AuthorizationSettings) -> BrokerService:
        return BrokerService("revoked", data_directory=tmp_path, plugins=[USERS, rights])

    async with EmbeddedTestBroker(service(RIGHTS)) as embedded:
        await (await SecuredBroker(embedded).client("root")).destination(PAY)
        alice = await SecuredBroker(embedded).client("alice", client_id="payroll")
        for topic in (PAY, Topic("pub.x")):
            await alice.consumer(topic, subscription_name=topic.physical_name)
        await alice.close()
    fewer = [each for each in RIGHTS.entries if "pay" not in str(each.destination)]
    revoked = RIGHTS.model_copy(update={"entries": fewer})
    async with EmbeddedTestBroker(service(revoked)) as embedded:
        alice = await SecuredBroker(embedded).client("alice", client_id="payroll")
        await refused(alice.consumer(PAY, subscription_name="pay"))
        await alice.consumer(Topic("pub.x"), subscription_name="pub.x")
        await alice.close()


# XA branches
async def prepared(broker: SecuredBroker, xid: XATransactionId = XID) -> None:
    """Prepare a branch of alice, and disconnect."""
    alice = await broker.client("alice")
    await alice.transaction(TransactionType.BEGIN, xid)
    await alice.send(PAYROLL, "x", transaction_id=xid)
    await alice.transaction(TransactionType.PREPARE, xid)
    await alice.close()


async def recovered(client: RawClient) -> list[object]:
    answer = await client.transaction(TransactionType.RECOVER, None)
    assert isinstance(answer, DataArrayResponse)
    return list(answer.data or ())


ENDS = (
    *(TransactionType.COMMIT_ONE_PHASE, TransactionType.COMMIT_TWO_PHASE),
    *(TransactionType.ROLLBACK, TransactionType.FORGET),
)


@pytest.mark.fact("activemq-edges SE34")
@pytest.mark.parametrize("other", ["mallory", "bob"])
async def test_others_are_not_told_of_a_prepared_branch_and_cannot_end_it(
    secured: StartSecured, other: str
) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAYROLL]) as broker:
        await prepared(broker)
        client = await broker.client(other)
        assert await recovered(client) == []
        for kind in (TransactionType.BEGIN, *ENDS):
            await refused(client.transaction(kind, XID), "use the transaction")
        manager = await broker.client("alice")  # as after its restart
        assert await recovered(manager) == [XID]
        await manager.transaction(TransactionType.COMMIT_TWO_PHASE, XID)
        assert broker.broker.queue_statistics("pay").messages == 1


@pytest.mark.fact("activemq-edges SE34")
async def test_an_administrator_recovers_a_branch_of_another_user(secured: StartSecured) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAYROLL]) as broker:
        await prepared(broker)
        root = await broker.client("root")
        assert await recovered(root) == [XID]
        await root.transaction(TransactionType.ROLLBACK, XID)
        assert await recovered(await broker.client("alice")) == []


@pytest.mark.fact("activemq-edges SE34")
async def test_others_do_no_work_in_an_open_branch(secured: StartSecured) -> None:
    async with secured(USERS, RIGHTS, destinations=[PAYROLL, Queue("pub.q")]) as broker:
        alice, bob = await broker.client("alice"), await broker.client("bob")
        await alice.transaction(TransactionType.BEGIN, XID)
        await alice.send(PAYROLL, "x", transaction_id=XID)
        for kind in (TransactionType.BEGIN, *ENDS):
            await refused(bob.transaction(kind, XID), "use the transaction")
        await refused(bob.send(Queue("pub.q"), "x", transaction_id=XID), "use the transaction")
        message = bob.text(await bob.producer(), Queue("pub.q"), "x", XID)
        bob.send_command(message)  # whose failure would make the commit fail
        await bob.send(Queue("pub.q"), "acknowledged in no transaction")
        await bob.consumer(Queue("pub.q"))
        await refused(bob.ack(await bob.dispatched(), transaction_id=XID), "use the transaction")
        await alice.transaction(TransactionType.COMMIT_ONE_PHASE, XID)
        assert broker.broker.queue_statistics("pay").messages == 1


@pytest.mark.fact("activemq-edges SE34")
async def test_after_a_restart_those_recover_a_branch_who_may_do_its_work(tmp_path: Path) -> None:
    def service() -> BrokerService:
        plugins = [USERS, RIGHTS]
        return BrokerService(
            "recovered", data_directory=tmp_path, plugins=plugins, destinations=[PAYROLL]
        )

    async with EmbeddedTestBroker(service()) as embedded:
        await prepared(SecuredBroker(embedded))
    async with EmbeddedTestBroker(service()) as embedded:
        broker = SecuredBroker(embedded)
        mallory = await broker.client("mallory")
        assert await recovered(mallory) == []
        await refused(mallory.transaction(TransactionType.ROLLBACK, XID), "use the transaction")
        alice = await broker.client("alice")
        assert await recovered(alice) == [XID]
        await alice.transaction(TransactionType.ROLLBACK, XID)
        for client in broker.clients:
            await client.cut()


# temporary destinations
async def temporary(owner: RawClient, number: int = 1) -> TemporaryQueue:
    created = TemporaryQueue(f"{owner.name}:{number}")
    await owner.destination(created)
    return created


Attempt = Callable[[RawClient, TemporaryQueue], Awaitable[object]]
ATTEMPTS: dict[str, Attempt] = {
    "consume": lambda client, to: client.consumer(to),
    "browse": lambda client, to: client.consumer(to, browser=True),
    "consume a composite": lambda client, to: client.consumer(Queue(f"pub.q,{to.qualified_name}")),
    "create": lambda client, to: client.destination(to),
    "create the next one": lambda client, to: client.destination(
        TemporaryQueue(f"{to.physical_name[:-1]}2")
    ),
    "create a topic": lambda client, to: client.destination(TemporaryTopic(to.physical_name)),
    "remove": lambda client, to: client.destination(to, 1),
}


@pytest.mark.fact("activemq-edges SE35")
async def test_a_temporary_queue_is_its_connection_s(secured: StartSecured) -> None:
    async with secured(USERS, RIGHTS, destinations=[Queue("pub.q")]) as broker:
        alice = await broker.client("alice")
        reply = await temporary(alice)
        for other in ("mallory", "alice"):
            for attempt in ATTEMPTS.values():
                client = await broker.client(other)
                client.send_command(BrokerInfo(broker_name="x", network_connection=True))
                with pytest.raises(JMSException, match=r"not authorized|belongs to another"):
                    await attempt(client, reply)
        await (await broker.client("mallory")).send(reply, "an answer")
        await alice.consumer(reply)
        await alice.message()


@pytest.mark.fact("activemq-edges SE35")
async def test_a_pattern_gets_nothing_of_temporary_destinations_of_others(
    secured: StartSecured,
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        alice, mallory = await broker.client("alice"), await broker.client("mallory")
        await mallory.consumer(TemporaryQueue(">"))
        reply = await temporary(alice)
        await mallory.consumer(TemporaryQueue("*"))
        await alice.send(reply, "x")
        await mallory.nothing_dispatched()
        await alice.consumer(reply)
        await alice.message()


@pytest.mark.fact("activemq-edges SE35")
async def test_an_administrator_consumes_and_removes_temporary_queues(
    secured: StartSecured,
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        alice, root = await broker.client("alice"), await broker.client("root")
        reply = await temporary(alice)
        await alice.send(reply, "x")
        await root.consumer(reply)
        await root.message()


async def test_without_rights_all_this_is_as_in_activemq(secured: StartSecured) -> None:
    """A transaction manager recovers from any connection, and names are not checked."""
    async with secured() as broker:
        alice, bob = await broker.client(), await broker.client()
        reply = await temporary(alice)
        await bob.consumer(reply)
        await alice.transaction(TransactionType.BEGIN, XID)
        await alice.send(reply, "x")
        await alice.send(PAYROLL, "x", transaction_id=XID)
        await alice.transaction(TransactionType.PREPARE, XID)
        assert await recovered(bob) == [XID]
        await bob.transaction(TransactionType.ROLLBACK, XID)
        await bob.message()
