"""What the connection to the other broker cannot carry is dead-lettered, and the bridge goes on."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded, network
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

__all__ = ["network"]

ORDERS = Queue("orders")
DEAD = Queue("ActiveMQ.DLQ")
LIMIT = 20_000


async def two_brokers(network: Network, direction: str) -> tuple[BrokerService, BrokerService]:
    """Return a broker that forwards, over frames of at most `LIMIT`, and the other one."""
    source, target = network.broker("a"), network.broker("b")
    connecting, accepting = (target, source) if direction == "reverse" else (source, target)
    connector = accepting.add_connector(f"tcp://127.0.0.1:0?wireFormat.maxFrameSize={LIMIT}")
    await network.start(accepting)
    connecting.add_network_connector(
        f"static:({connector.connect_uri})",
        NetworkConnectorAttributes(duplex=direction != "plain"),
    )
    await network.start(connecting)
    return source, target


async def send(client: RawClient, text: str, *, persistent: bool) -> None:
    message = client.text(await client.producer(), ORDERS, text)
    message.persistent = persistent
    await client.request(message)


UNWRITABLE, REFUSED = 2 * LIMIT, LIMIT - 1000


@pytest.mark.fact("activemq-broker L8")
@pytest.mark.parametrize(
    ("direction", "size"),
    [
        *((direction, UNWRITABLE) for direction in ("plain", "duplex", "reverse")),
        *((direction, REFUSED) for direction in ("plain", "duplex")),
    ],
)
async def test_the_bridge_forwards_the_next_message(
    network: Network, direction: str, size: int
) -> None:
    source, target = await two_brokers(network, direction)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await send(sender, "x" * size, persistent=True)
    await send(sender, "x" * size, persistent=False)
    await send(sender, "next", persistent=True)
    assert b"next" in ((await receiver.message()).content or b"")
    reader = await network.client(source)
    await reader.consumer(DEAD)
    letter = await reader.message()
    assert len(letter.content or b"") > size
    assert b"bytes" in (letter.marshalled_properties or b"")
    await reader.nothing_dispatched()
    assert source.networks.joined
