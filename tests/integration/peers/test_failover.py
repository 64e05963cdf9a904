"""`failover:` on each broker: transactions and XA branches whose connections are cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.transport.uri import TransportURI
from tests.kit.failures.cut_branches import cut_while_transferring_in_branches
from tests.kit.failures.cut_transfers import check, cut_while_transferring, texts
from tests.kit.failures.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.servers.java_brokers import ARTEMIS_SETTINGS
from tests.kit.servers.peers import Peer, maven_broker

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def artemis_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an Artemis without a limit of attempts.

    It counts a message that was prefetched over a connection that is lost as delivered, and moves
    it to the dead letters after ten (docs/peers.md).
    """
    settings = {**ARTEMIS_SETTINGS, "attempts": "-1"}
    yield from maven_broker("artemis", request, tmp_path_factory, settings)


@pytest.fixture
async def proxy(peer: Peer) -> AsyncIterator[CuttingProxy]:
    """A proxy of the broker, whose dead-letter queue is empty."""
    await texts(ConnectionFactory(peer.url), peer.dead_letters.physical_name)
    port = TransportURI.parse(peer.url).port
    assert port is not None
    async with cutting_proxy(port) as proxy:
        yield proxy


async def test_nothing_is_lost_or_committed_twice_by_cuts(proxy: CuttingProxy, peer: Peer) -> None:
    with anyio.fail_after(240):
        account = await cut_while_transferring(
            proxy, peer.url, 20, 30, 4, dead_letters=peer.dead_letters.physical_name
        )
    check(account, 20)


async def test_branches_are_moved_once_in_spite_of_cuts(proxy: CuttingProxy, peer: Peer) -> None:
    with anyio.fail_after(240):
        account = await cut_while_transferring_in_branches(
            proxy, peer.url, 20, 30, 4, dead_letters=peer.dead_letters.physical_name
        )
    check(account, 20)
