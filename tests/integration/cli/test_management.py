"""Commands that read a running broker: status, list, query, bstat, dstat."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.brokers.security import simple, user
from tests.kit.processes.command_line import objects, pyjms


def broker(managed: ManagedBroker, *arguments: str, **environment: str) -> Any:
    return pyjms("broker", *arguments, "--url", managed.url, **environment)


def send(managed: ManagedBroker, destination: str, *bodies: str) -> None:
    done = pyjms(
        "send", destination, "--lines", "--url", managed.openwire, stdin="\n".join(bodies) + "\n"
    )
    assert done.exit_code == 0, done.output


def test_status_of_a_running_broker(managed: ManagedBroker) -> None:
    send(managed, "orders", "a")
    said = broker(managed, "status")
    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("Broker managed is running: version ")
    assert "1 message; memory 0 %" in said.stdout
    (found,) = objects(broker(managed, "status", "--json"))
    assert (found["BrokerName"], found["TotalMessageCount"]) == ("managed", 1)


def test_status_of_no_broker_is_exit_code_1() -> None:
    said = pyjms("broker", "status", "--url", "http://127.0.0.1:1")
    assert said.exit_code == 1
    assert said.stderr == (
        "pyjms broker status: The broker's web server at http://127.0.0.1:1/api/jolokia cannot be"
        " reached: Connection refused (is the broker running, with --web 8161 or `web: {}` in its"
        " configuration? pyjms browse, receive and redrive need no web server)\n"
    )


@pytest.mark.fact("activemq-edges CL1")
def test_list_and_stop(managed: ManagedBroker) -> None:
    assert broker(managed, "list").stdout == "brokerName = managed\n"
    assert objects(broker(managed, "list", "--json")) == [{"brokerName": "managed"}]
    unknown = broker(managed, "stop", "other")
    assert unknown.exit_code == 2
    assert "has no broker other (there is managed)" in unknown.stderr
    assert managed.service.started
    stopped = broker(managed, "stop", "managed")
    assert stopped.exit_code == 0, stopped.output
    assert stopped.stdout == "Broker managed has stopped\n"
    managed.call(managed.service.wait_until_stopped)
    assert broker(managed, "list").exit_code == 1


@pytest.mark.fact("activemq-edges CL1")
def test_stop_all_without_waiting(managed: ManagedBroker) -> None:
    stopped = broker(managed, "stop", "--all", "--timeout", "0")
    assert stopped.stdout == "Broker managed was asked to be stopped\n"
    managed.call(managed.service.wait_until_stopped)


@pytest.mark.fact("activemq-edges CL2")
def test_query_by_type_by_keys_and_with_exclusions(managed: ManagedBroker) -> None:
    for name in ("orders.a", "orders.b", "other"):
        send(managed, name, "x")
    said = broker(managed, "query", "-QQueue=orders.*", "--view", "Name,QueueSize")
    assert said.stdout == "Name = orders.a\nQueueSize = 1\n\nName = orders.b\nQueueSize = 1\n\n"
    without = broker(managed, "query", "-QQueue=*", "-xQQueue=orders.*", "--view", "Name")
    assert without.stdout == "Name = other\n\n"
    keys = "type=Broker,brokerName=*,destinationType=Queue,destinationName=o*"
    named = broker(
        *(managed, "query", "--objname", keys, "--view", "Name"),
        *("--xobjname", keys.replace("o*", "*.b")),
    )
    assert named.stdout == "Name = orders.a\n\nName = other\n\n"
    only = objects(broker(managed, "query", "-QBroker=*", "--view", "BrokerName", "--json"))
    assert only == [
        {
            "objectName": "org.apache.activemq:brokerName=managed,type=Broker",
            "BrokerName": "managed",
        }
    ]


@pytest.mark.fact("activemq-edges CL2")
@pytest.mark.parametrize(
    ("type_", "attribute"),
    [
        ("Broker", "BrokerName = managed"),
        ("Connector", "Started = true"),
        ("Topic", "Name = prices"),
    ],
)
def test_query_of_types(managed: ManagedBroker, type_: str, attribute: str) -> None:
    send(managed, "topic://prices", "x")
    said = broker(managed, "query", f"-Q{type_}=*")
    assert said.exit_code == 0, said.output
    assert f"{attribute}\n" in said.stdout


def test_query_without_filters_has_all_views(managed: ManagedBroker) -> None:
    found = objects(broker(managed, "query", "--json"))
    names = {each["objectName"] for each in found}
    assert "org.apache.activemq:brokerName=managed,type=Broker" in names
    assert any("connectorName=openwire" in name for name in names)


def test_query_that_finds_nothing_is_exit_code_3(managed: ManagedBroker) -> None:
    said = broker(managed, "query", "-QQueue=none")
    assert (said.exit_code, said.stdout) == (3, "")
    assert said.stderr == "pyjms broker query: no view matches\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["query", "-QHouse=x"], "-QHouse=x: there is no such view type"),
        (["query", "--objname", "nonsense"], "is not a new key=value"),
        (["dstat", "users"], "users"),
        (["stop", "--timeout", "10"], "10 has no unit"),
    ],
)
def test_wrong_options_are_exit_code_2(
    managed: ManagedBroker, arguments: list[str], sentence: str
) -> None:
    said = broker(managed, *arguments)
    assert said.exit_code == 2
    assert sentence in said.stderr


@pytest.mark.fact("activemq-edges CL3")
def test_bstat_prints_the_broker_connectors_queues_and_topics(managed: ManagedBroker) -> None:
    send(managed, "orders", "a", "b")
    said = broker(managed, "bstat").stdout
    blocks = [dict(line.split(" = ") for line in b.splitlines()) for b in said.split("\n\n") if b]
    assert blocks[0]["BrokerName"] == "managed"
    assert blocks[0].keys() == {
        *("BrokerName", "TotalEnqueueCount", "TotalDequeueCount", "TotalMessageCount"),
        *("TotalConsumerCount", "Uptime"),
    }
    assert blocks[0]["TotalMessageCount"] == "2"
    assert blocks[1] == {"connectorName": "openwire"}
    assert {
        "Name": "orders",
        "destinationName": "orders",
        "destinationType": "Queue",
        "EnqueueCount": "2",
        "DequeueCount": "0",
        "ConsumerCount": "0",
        "DispatchCount": "0",
    } in blocks
    assert [b["destinationType"] for b in blocks[2:]] == sorted(
        b["destinationType"] for b in blocks[2:]
    )
    assert broker(managed, "bstat", "other").exit_code == 1


@pytest.mark.fact("activemq-edges CL4")
def test_dstat_is_a_table_in_activemqs_columns(managed: ManagedBroker) -> None:
    send(managed, "orders", "a", "b")
    pyjms("receive", "orders", "--url", managed.openwire)
    send(managed, "topic://prices", "x")
    head, *lines = broker(managed, "dstat", "queues").stdout.splitlines()
    titles = ["Queue Size", "Producer #", "Consumer #", "Enqueue #", "Dequeue #", "Forward #"]
    titles += ["Memory %", "Inflight #"]
    assert head == f"{'Name':<50}" + "".join(f"{title:>12}" for title in titles)
    figures = [1, 0, 0, 2, 1, 0, 0, 0]
    assert lines == [f"{'orders':<50}" + "".join(f"{figure:>12}" for figure in figures)]
    head, *lines = broker(managed, "dstat", "topics").stdout.splitlines()
    assert head.split()[-2:] == ["Memory", "%"]
    assert [line.split()[0] for line in lines] == ["prices"]
    found = objects(broker(managed, "dstat", "--json"))
    assert [(each["Type"], each["Name"]) for each in found] == [
        ("Queue", "orders"),
        ("Topic", "prices"),
    ]


def test_a_login_is_sent_and_asked_for() -> None:
    service = BrokerService(
        "managed",
        persistent=False,
        web=WebConfiguration(port=0),
        plugins=[simple(user("jo", "admins"))],
    )
    with managed_broker(service) as managed:
        check_logins(managed)


def check_logins(managed: ManagedBroker) -> None:
    anonymous = broker(managed, "list")
    assert anonymous.exit_code == 1
    assert "the broker requires a login (give --user, and the password" in anonymous.stderr
    wrong = broker(managed, "list", "--user", "jo", PYJMS_PASSWORD="guess")
    assert wrong.exit_code == 1
    assert "the broker rejected the user name or the password" in wrong.stderr
    assert "guess" not in wrong.stderr
    right = broker(managed, "list", "--user", "jo", PYJMS_PASSWORD="secret")
    assert right.stdout == "brokerName = managed\n"
    as_activemq = broker(managed, "list", "--jmxuser", "jo", "--jmxpassword", "secret")
    assert as_activemq.stdout == "brokerName = managed\n"


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("tcp://127.0.0.1:61616", 2, "this command needs the broker's web server"),
        ("http://jo:pw@localhost", 2, "user and password do not belong in the URL"),
        ("http://localhost:port", 2, "write it as http://localhost:8161/api/jolokia"),
    ],
)
def test_other_urls_are_refused(url: str, code: int, sentence: str) -> None:
    said = pyjms("broker", "list", "--url", url)
    assert said.exit_code == code
    assert sentence in said.stderr


def test_a_server_that_is_not_jolokia(managed: ManagedBroker) -> None:
    said = pyjms("broker", "list", "--url", f"{managed.url}/elsewhere")
    assert said.exit_code == 1
    assert "/elsewhere/api/jolokia responded with HTTP status 404: " in said.stderr
