"""`pyjms broker trace` and the console's page of the trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms_broker.plugins.message_trail import MessageTrailPlugin
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.processes.command_line import objects, pyjms
from tests.kit.web.console import console_of

PARENT = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def trailed(tmp_path: Path) -> Iterator[ManagedBroker]:
    plugin = MessageTrailPlugin(
        destinations=("orders.>",), directory=tmp_path, trace_url="https://traces/{trace_id}"
    )
    service = BrokerService(
        "trailed", persistent=False, plugins=[plugin], web=WebConfiguration(port=0)
    )
    service.add_connector("tcp://127.0.0.1:0", name="openwire")
    with managed_broker(service) as broker:
        yield broker


@pytest.mark.fact("activemq-edges JX5")
def test_a_message_is_traced_by_its_id_and_its_correlation_id(trailed: ManagedBroker) -> None:
    sent = pyjms(
        *("send", "orders.eu", "a body", "--correlation-id", "order-7", "-p", PARENT),
        *("--url", trailed.openwire),
    )
    assert sent.exit_code == 0, sent.output
    got = pyjms("receive", "orders.eu", "--url", trailed.openwire)
    assert got.exit_code == 0, got.output
    url = ("--url", trailed.url)
    rows = objects(pyjms("broker", "trace", "--correlation-id", "order-7", "--json", *url))
    assert [each["event"] for each in rows] == ["sent", "dispatched", "acknowledged"]
    said = pyjms("broker", "trace", rows[0]["id"], *url)
    assert said.exit_code == 0, said.output
    for event in ("sent", "dispatched", "acknowledged", "queue://orders.eu"):
        assert event in said.stdout
    assert "a body" not in said.stdout

    async def look() -> None:
        async with console_of(trailed.service) as console:
            page = await console.text("trace", id=rows[0]["id"])
            assert "acknowledged" in page
            assert 'href="https://traces/4bf92f3577b34da6a3ce929d0e0e4736"' in page
            assert "Nothing is known about it" in await console.text("trace", id="ID:x")

    trailed.call(look)


def test_a_message_without_events_and_a_broker_without_a_trail(
    trailed: ManagedBroker, managed: ManagedBroker
) -> None:
    nothing = pyjms("broker", "trace", "ID:x", "--url", trailed.url)
    assert nothing.exit_code == 3
    none = pyjms("broker", "trace", "ID:x", "--url", managed.url)
    assert none.exit_code == 1
    assert "has no trail (add the plug-in message_trail to broker.yaml)" in none.stderr
    assert pyjms("broker", "trace", "--url", trailed.url).exit_code == 2
