"""Brokers of the same name in a network: they work as in ActiveMQ, with a warning in the log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.clients.raw import RawClient
from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_programs import JavaProgram, java_program
from tests.kit.waiting import until

__all__ = ["java_program"]

ORDERS = Queue("orders")
NAME = "activemq"
AT_ONCE = "initialReconnectDelay=5&useExponentialBackOff=false"
WARNING = f"has the same name as this one, {NAME}"
REFUSED = f"another broker of the network may be named {NAME}"


@pytest.fixture(params=["ours", pytest.param("activemq", marks=pytest.mark.activemq)])
def namesake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a broker of that name in a separate process."""
    if request.param == "ours":
        config = tmp_path / "broker.yaml"
        config.write_text(
            f"broker_name: {NAME}\npersistent: false\nconnectors: [{{uri: 'tcp://127.0.0.1:0'}}]\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "pyjms_broker", "--config", str(config)]
    else:
        program: JavaProgram = request.getfixturevalue("java_program")
        sources = Path(__file__).parent / "program"
        command = [*program(sources), "NetworkBroker", str(tmp_path / "data"), "0"]
    log = tmp_path / "namesake.log"
    with started(command, log) as child:
        yield accepted_url(child, log).split("?")[0]


@pytest.mark.parametrize("duplex", [False, True], ids=["simplex", "duplex"])
async def test_a_bridge_to_a_namesake_works_and_the_log_warns(
    namesake: str, network: Network, duplex: bool, caplog: pytest.LogCaptureFixture
) -> None:
    service = BrokerService(NAME, persistent=False)
    service.add_network_connector(
        f"static:({namesake})?{AT_ONCE}", NetworkConnectorAttributes(name="nc", duplex=duplex)
    )
    await network.start(service)
    assert caplog.text.count(WARNING) == 1
    here, there = await network.client(service), RawClient(create_transport(namesake))
    await there.open()
    await network.enter(there)
    await there.consumer(ORDERS)
    await until(lambda: forwarded(service))
    await here.send(ORDERS, "to the namesake")
    await there.message(60)


@pytest.mark.parametrize("duplex", [False, True], ids=["simplex", "duplex"])
async def test_two_brokers_of_one_name_cannot_both_join_a_third(
    network: Network, duplex: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As in ActiveMQ the second one is refused, since both have the same client id there."""
    hub = network.broker("hub")
    door = hub.add_connector("tcp://127.0.0.1:0")
    await network.start(hub)
    first = RawClient(create_transport(door.connect_uri))
    await first.open(f"nc_{NAME}_outbound")  # the bridge of a broker of that name
    second = BrokerService(NAME, persistent=False)
    connector = second.add_network_connector(
        f"static:({door.connect_uri})?{AT_ONCE}",
        NetworkConnectorAttributes(name="nc", duplex=duplex),
    )
    await second.start()
    network.at_the_end(second.stop)
    await until(lambda: REFUSED in caplog.text)
    assert "already connected" in caplog.text
    assert connector.bridges == []
    await first.close()
    await until(lambda: connector.bridges)
