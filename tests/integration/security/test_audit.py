"""The audit log: who did what from where, without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Queue, Topic
from pyjms.observability.logs import JsonFormatter
from pyjms.wire.openwire.commands import ConnectionError as Report
from pyjms.wire.openwire.commands import RemoveSubscriptionInfo, Throwable
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.management import Management
from pyjms_broker.security.audit import AuditPlugin, acting_as
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(user("alice", "admins", "alice-secret"))
RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            {"destination": "mine.>", "read": "admins", "write": "admins", "admin": "admins"},
            {"destination": "topic://>", "read": "*", "write": "*", "admin": "*"},
        ]
    }
)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines of the audit log."""
    caplog.set_level(logging.INFO, "pyjms_broker.audit")

    def found() -> list[str]:
        assert "alice-secret" not in caplog.text
        return [r.getMessage() for r in caplog.records if r.name == "pyjms_broker.audit"]

    return found


def connection_of(broker: SecuredBroker, client: RawClient) -> BrokerConnection:
    """Return the broker's side of a client's connection."""
    connection = broker.service.connections.by_id[client.connection_id]
    assert isinstance(connection, BrokerConnection)
    return connection


def address_of(broker: SecuredBroker, client: RawClient) -> str:
    """Return the address that the broker knows a client by."""
    return connection_of(broker, client).remote_address


async def test_json_lines_about_a_client_tell_whose_it_is(
    secured: StartSecured, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(USERS) as broker:
        client = await broker.client("alice", "alice-secret", client_id="shop")
        where = address_of(broker, client)
        client.send_command(Report(Throwable("x", "it is full")))
        await client.consumer(Queue("q"))
        (record,) = [r for r in caplog.records if "reports an error" in r.getMessage()]
        (subscription,) = broker.service.region_broker.destinations()[Queue("q")].consumers
        about_it = logging.makeLogRecord({"msg": "%s is slow", "args": (subscription,)})
        written, about = (json.loads(JsonFormatter().format(each)) for each in (record, about_it))
        connector = connection_of(broker, client).connector.name
    fields = {"client_id": "shop", "user": "alice", "address": where, "connector": connector}
    assert written.items() >= fields.items()
    assert about.items() >= {**fields, "destination": "queue://q"}.items()


async def test_clients_acts_are_logged_with_the_plugin(
    secured: StartSecured, lines: Callable[[], list[str]]
) -> None:
    async with secured(USERS, RIGHTS, AuditPlugin()) as broker:
        client = await broker.client("alice", "alice-secret", name="a")
        where = address_of(broker, client)
        await client.send(Queue("mine.new"), "x")
        await client.send(Queue("mine.new"), "x")
        consumer = await client.consumer(Topic("t"), subscription_name="s")
        await client.remove(consumer)
        removal = RemoveSubscriptionInfo(client.connection_id, subscription_name="s", client_id="a")
        await client.request(removal)
        with pytest.raises(JMSException):
            await client.request(removal)
        await client.destination(Queue("mine.new"), 1)
        assert lines() == [
            f"'alice' from {where}: create queue://mine.new: done",
            f"'alice' from {where}: create topic://t: done",
            f"'alice' from {where}: remove durable subscription s of a: done",
            (
                f"'alice' from {where}: remove durable subscription s of a: "
                "failed: InvalidDestinationException"
            ),
            f"'alice' from {where}: remove queue://mine.new: done",
        ]


async def test_refusals_are_one_line_each(
    secured: StartSecured, lines: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with secured(USERS, RIGHTS, AuditPlugin()) as broker:
        with pytest.raises(JMSSecurityException):
            await broker.client("mallory\n", "other-secret")
        client = await broker.client("alice", "alice-secret", name="b")
        where = address_of(broker, client)
        for attempt in (
            client.send(Queue("other"), "x"),
            client.consumer(Queue("other")),
            client.destination(Queue("other")),
            client.destination(Queue("other"), 1),
        ):
            with pytest.raises(JMSSecurityException):
                await attempt
        login, *refusals = lines()
        assert login.startswith("'mallory\\n' from ")
        assert ": log in at connector vm://" in login
        assert login.endswith(": refused")
        assert refusals == [
            f"'alice' from {where}: {action} queue://other: refused"
            for action in ("write to", "read from", "create", "remove")
        ]
        assert "other-secret" not in caplog.text
        assert caplog.text.count("queue://other") == len(refusals)


async def test_a_name_cannot_look_like_the_line_of_another_user(
    secured: StartSecured, lines: Callable[[], list[str]]
) -> None:
    async with secured(USERS) as broker:
        with pytest.raises(JMSSecurityException):
            await broker.client("alice' from tcp://10.0.0.1:1: invoke purge of q: done\\", "x")
        (line,) = lines()
        assert line.startswith(
            r"'alice\' from tcp://10.0.0.1:1: invoke purge of q: done\\' from vm://"
        )


async def test_management_is_logged_with_who_asked(
    secured: StartSecured, lines: Callable[[], list[str]]
) -> None:
    async with secured(destinations=[Queue("q")]) as broker:
        name = next(view.name for view in Management(broker.service).find("*:*,destinationName=q"))
        view = Management(broker.service).view(name)
        with acting_as("operator", "10.0.0.1"):
            await view.invoke("purge")
            view.set("MemoryLimit", 1 << 20)
        await view.invoke("sendTextMessage(java.lang.String)", "alice-secret")
        assert lines() == [
            f"'operator' from 10.0.0.1: invoke purge of {name}: done",
            f"'operator' from 10.0.0.1: set MemoryLimit of {name}: done",
            f"'the program itself' from here: invoke sendTextMessage of {name}: done",
        ]
