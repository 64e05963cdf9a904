"""Network connectors and bridges: contents of the pages, and effects of their forms."""

from __future__ import annotations

import re
from html import unescape

import pytest

from pyjms.jms.destination import Queue
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.waiting import until
from tests.kit.web.console import Console, console_of, notice_of


def row_of(text: str, header: str) -> list[str]:
    """Return the cells of the row with that header, as text."""
    row = text.partition(f'<th scope="row">{header}</th>')[2].partition("</tr>")[0]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in cells]


@pytest.mark.fact("activemq-edges W3")
async def test_network_connectors_are_on_the_page_of_connections(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="defaults")
    others = {
        "message_ttl": 3,
        "consumer_ttl": 2,
        "dynamic_only": True,
        "conduit_subscriptions": False,
        "bridge_temp_destinations": False,
        "decrease_network_consumer_priority": True,
    }
    network.link(source, target, name="others", **others)
    await network.start(target, source)
    async with console_of(source) as console:
        text = await console.text("connections")
        assert re.findall(
            r'<th scope="col"[^>]*>([^<]+)', text.partition("Network connectors</h2>")[2]
        ) == [
            *("Name", "State", "Operations", "Message TTL", "Consumer TTL", "Dynamic only"),
            *("Conduit subscriptions", "Bridge temps", "Decrease priorities", "Dispatch async"),
        ]
        shown = ["1 bridge", "Stop", "1", "1", "no", "yes", "yes", "no", "yes"]
        assert row_of(text, "defaults") == shown
        shown = ["1 bridge", "Stop", "3", "2", "yes", "no", "no", "yes", "yes"]
        assert row_of(text, "others") == shown


@pytest.mark.fact("activemq-edges W3")
async def test_the_page_network_shows_the_bridges_of_both_ends(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="to-b", duplex=True)
    await network.start(target, source)
    client, there = await network.client(source), await network.client(target)
    await there.consumer(Queue("q"))
    await until(lambda: forwarded(source))
    await client.send(Queue("q"), "one", "two")
    (bridge,) = source.networks.bridges
    await until(lambda: bridge.dequeue_count == 2)
    async with console_of(source) as here, console_of(target) as other:
        text = await here.text("network")
        assert re.findall(r'<th scope="col"[^>]*>([^<]+)', text) == [
            *("Remote broker", "Remote address", "Network connector", "Created by duplex"),
            *("Messages enqueued", "Messages dequeued", "Operations"),
        ]
        shown = [bridge.remote_address, "to-b", "no", "2", "2", "Reset counters"]
        assert row_of(text, target.broker_name) == shown
        (reverse,) = target.networks.bridges
        shown = [reverse.remote_address, "to-b", "yes", "0", "0", "Reset counters"]
        assert row_of(await other.text("network"), source.broker_name) == shown
        view = re.search(r'name="view" value="([^"]+)"', text)
        assert view is not None
        reset = await here.act("reset-bridge", view=unescape(view[1]))
        assert notice_of(reset) == f"The counters of the bridge to {target.broker_name} were reset."
        assert row_of(reset.text, target.broker_name)[3:5] == ["0", "0"]


async def test_a_network_connector_is_stopped_and_started(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="to-b")
    await network.start(target, source)
    async with console_of(source) as console:
        stopped = await console.act("stop-network-connector", name="to-b")
        assert "to-b is stopped" in notice_of(stopped)
        cells = row_of(stopped.text, "to-b")
        assert (cells[0], cells[1]) == ("stopped", "Start")
        assert source.networks.bridges == []
        assert "No bridge to another broker is open now" in await console.text("network")
        started = await console.act("start-network-connector", name="to-b")
        assert "to-b connects to its remote brokers" in notice_of(started)
        await until(lambda: source.networks.bridges)
        cells = row_of(await console.text("connections"), "to-b")
        assert (cells[0], cells[1]) == ("1 bridge", "Stop")


async def test_a_remote_broker_that_cannot_be_reached_is_a_warning(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="to-b")
    await source.start()
    async with console_of(source) as console:
        await until(lambda: source.networks.connectors[0].missing_bridges)
        text = unescape(await console.text("warnings"))
        assert "No bridge" in text
        assert f"there is none to vm://{target.broker_name}" in text
        await console.act("stop-network-connector", name="to-b")
        assert "No bridge" not in await console.text("warnings")
    await source.stop()


async def test_what_is_not_there_is_an_error_with_a_hint(console: Console) -> None:
    missing = notice_of(await console.act("stop-network-connector", name="to-c"))
    assert missing.startswith("There is no network connector to-c")
    assert "What to do" in missing
    name = "org.apache.activemq:type=Broker,brokerName=demo"
    assert "is not the name of a bridge" in notice_of(await console.act("reset-bridge", view=name))
    below = f"{name},connector=networkConnectors,networkConnectorName=x,networkBridge=y"
    assert "There is no bridge" in notice_of(await console.act("reset-bridge", view=below))
