"""Commands for the queues, connections, consumers and durable subscriptions of a running broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms import Connection, ConnectionFactory, Topic
from pyjms.transport.tls import TlsOptions
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.processes.command_line import Result, objects, pyjms
from tests.kit.tls import CertificateFiles


def broker(managed: ManagedBroker, *arguments: str) -> Result:
    return pyjms("broker", *arguments, "--url", managed.url)


@pytest.fixture
def subscriber(managed: ManagedBroker) -> Iterator[Connection]:
    """A client `shop` with a consumer of the durable subscription `prices`."""
    with ConnectionFactory(managed.openwire).create_connection() as connection:
        connection.set_client_id("shop")
        connection.start()
        session = connection.create_session()
        session.create_durable_subscriber(Topic("prices"), "all")
        yield connection


def test_queues_are_created_paused_resumed_and_deleted(managed: ManagedBroker) -> None:
    created = broker(managed, "queue", "create", "a.1", "a.2")
    assert created.stdout == "Queue a.1 exists\nQueue a.2 exists\n"
    assert broker(managed, "queue", "pause", "a.*").exit_code == 0
    assert managed.queue("a.1")["Paused"]
    assert managed.queue("a.2")["Paused"]
    assert broker(managed, "queue", "resume", "a.1").stdout == "Queue a.1 delivers messages\n"
    assert not managed.queue("a.1")["Paused"]
    unconfirmed = broker(managed, "queue", "delete", "a.1")
    assert (unconfirmed.exit_code, "add --yes" in unconfirmed.stderr) == (2, True)
    assert broker(managed, "queue", "delete", "a.1", "--yes").stdout == "Queue a.1 deleted\n"
    assert [each["Name"] for each in objects(broker(managed, "dstat", "queues", "--json"))] == [
        "a.2"
    ]


def test_an_unknown_queue_is_no_success(managed: ManagedBroker) -> None:
    paused = broker(managed, "queue", "pause", "none")
    assert (paused.exit_code, "There is no queue none" in paused.stderr) == (1, True)


def test_connections_are_listed_and_closed(managed: ManagedBroker, subscriber: Connection) -> None:
    head, line = broker(managed, "connections", "list").stdout.splitlines()
    assert head.split() == [
        *("client", "address", "user", "protocol", "consumers", "producers", "slow", "blocked")
    ]
    assert line.split()[0] == "shop"
    closed = broker(managed, "connections", "close", "shop")
    assert closed.stdout == "1 connection of shop closed\n"
    again = broker(managed, "connections", "close", "nobody")
    assert (again.exit_code, "There is no connection of nobody" in again.stderr) == (1, True)


def test_consumers_are_listed(managed: ManagedBroker, subscriber: Connection) -> None:
    (found,) = objects(broker(managed, "consumers", "list", "--json"))
    assert (found["DestinationName"], found["ClientId"]) == ("prices", "shop")
    assert "prices" in broker(managed, "consumers", "list").stdout


@pytest.mark.fact("activemq-edges JX11")
def test_one_consumer_is_closed_by_its_id_and_the_connection_stays(
    managed: ManagedBroker, subscriber: Connection
) -> None:
    (found,) = objects(broker(managed, "consumers", "list", "--json"))
    name = found["ConsumerId"]
    assert name in broker(managed, "consumers", "list").stdout
    closed = broker(managed, "consumers", "close", name)
    assert closed.stdout == f"1 consumer of {name} closed\n"
    assert len(broker(managed, "connections", "list").stdout.splitlines()) == 2
    none = broker(managed, "consumers", "close", "nobody")
    assert (none.exit_code, "There is no consumer nobody" in none.stderr) == (1, True)


def test_a_durable_subscription_is_listed_and_deleted(
    managed: ManagedBroker, subscriber: Connection
) -> None:
    in_use = broker(managed, "subscriptions", "delete", "shop", "all", "--yes")
    assert (in_use.exit_code, "is in use" in in_use.stderr) == (1, True)
    subscriber.close()
    pyjms("send", "topic://prices", "x", "--url", managed.openwire)
    (found,) = objects(broker(managed, "subscriptions", "list", "--json"))
    assert (found["Active"], found["PendingQueueSize"]) == (False, 1)
    idle = broker(managed, "subscriptions", "close", "shop", "all")
    assert idle.stdout == "The subscription all is not in use\n"
    assert broker(managed, "subscriptions", "delete", "shop", "all", "--yes").exit_code == 0
    empty = broker(managed, "subscriptions", "list")
    assert (empty.stdout, empty.stderr) == ("", "there are no durable subscriptions\n")


def test_a_durable_subscription_in_use_is_closed(
    managed: ManagedBroker, subscriber: Connection
) -> None:
    closed = broker(managed, "subscriptions", "close", "shop", "all")
    assert closed.stdout == "1 connection of shop closed\n"


def test_dstat_sorts_and_filters(managed: ManagedBroker) -> None:
    for queue, bodies in (("orders.a", "1"), ("orders.b", "1\n2"), ("other", "1\n2\n3")):
        pyjms("send", queue, "--lines", "--url", managed.openwire, stdin=bodies)

    def names(*options: str) -> list[str]:
        return [each["Name"] for each in objects(broker(managed, "dstat", *options, "--json"))]

    assert names("queues", "--sort", "size") == ["other", "orders.b", "orders.a"]
    assert names("queues", "--filter", "ORD") == ["orders.a", "orders.b"]
    assert names("queues", "--filter", "o*.b") == ["orders.b"]


def test_status_has_a_line_and_an_exit_code_for_each_check(managed: ManagedBroker) -> None:
    good = broker(managed, "status", "--check", "all")
    assert good.exit_code == 0
    assert good.stdout.splitlines()[1:] == [
        "ok     slave: it serves clients",
        "ok     memory: 0 % of its limit is used",
        "ok     store: 0 % of its limit is used",
        "ok     temp: 0 % of its limit is used",
        "ok     health: Good",
    ]
    managed.service.system_usage.memory.change_limit(1000)
    pyjms("send", "orders", "x" * 950, "--url", managed.openwire)
    full = broker(managed, "status", "--check", "memory", "--check", "store")
    assert full.exit_code == 11
    assert "FAILED memory: " in full.stdout
    assert "ok     store: " in full.stdout
    assert broker(managed, "status").exit_code == 0


def test_a_private_authority_is_trusted_by_its_file(files: CertificateFiles) -> None:
    web = WebConfiguration(port=0, tls=TlsOptions(key_store=files.issue()))
    with managed_broker(BrokerService("private", persistent=False, web=web)) as private:
        unknown = broker(private, "status")
        assert (unknown.exit_code, "certificate" in unknown.stderr) == (1, True)
        known = broker(private, "status", "--ca", files.trust)
        assert known.stdout.startswith("Broker private is running")
    missing = broker(private, "status", "--ca", "missing.pem")
    assert (missing.exit_code, "--ca missing.pem cannot be read" in missing.stderr) == (2, True)


def test_an_authority_for_an_unencrypted_url_is_refused(managed: ManagedBroker) -> None:
    done = broker(managed, "status", "--ca", "ca.pem")
    assert (done.exit_code, "--ca ca.pem is for an encrypted" in done.stderr) == (2, True)
