"""The contract of broker connectors, as tests: start, stop, limits, and the ends of connections.

A connector registered under the entry point `broker.connectors` should pass them. Subclass
`ConnectorContract`, define its fixture `connector` and its two methods; for an example, see
docs/extending-broker.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.runtime import clock as _clock
from pyjms.support.embedded_broker import embedded_broker

__all__ = ["ConnectorContract"]

_PATIENCE = 20
"""Seconds of real time to wait for an expected event."""


@pytest.mark.anyio
class ConnectorContract(ABC):
    """Tests of a connector whose clients connect to it through a byte stream."""

    @pytest.fixture
    async def host(self) -> AsyncIterator[Any]:
        """A running broker in memory, the owner of the connector."""
        broker: Any = embedded_broker()
        await broker.start()
        try:
            yield broker.service
        finally:
            await broker.stop()

    @pytest.fixture
    def connector(self, host: Any) -> Any:
        """Return a connector of `host`, not started, on any free port of this machine.

        It is a `pyjms_broker.connector.TransportConnector`, of which the tests use `connections`,
        `connect_uri`, `maximum_connections`, `start` and `stop`.
        """
        raise NotImplementedError("define the fixture connector(host)")

    @abstractmethod
    async def connect(self, connector: Any) -> ByteStream:
        """Open a client's connection to the started connector."""

    @abstractmethod
    async def request(self, client: Any) -> None:
        """Send a request that the broker must confirm, and wait for the confirmation."""

    @pytest.fixture
    async def running(self, connector: Any) -> AsyncIterator[Any]:
        await connector.start()
        try:
            yield connector
        finally:
            await connector.stop()

    async def test_a_second_start_is_ignored(self, running: Any) -> None:
        uri = running.connect_uri
        await running.start()
        assert running.connect_uri == uri
        async with await self.connect(running) as client:
            await self.request(client)

    async def test_a_client_is_counted_until_it_leaves(self, running: Any) -> None:
        async with await self.connect(running) as client:
            await self.request(client)
            assert len(running.connections) == 1
        await _until_empty(running)

    async def test_clients_are_served_side_by_side(self, running: Any) -> None:
        async with await self.connect(running) as one, await self.connect(running) as two:
            await self.request(two)
            await self.request(one)
            assert len(running.connections) == 2

    async def test_the_number_of_connections_is_limited(self, running: Any) -> None:
        running.maximum_connections = 1
        async with await self.connect(running) as client:
            await self.request(client)
            async with await self.connect(running) as refused:
                with (
                    _in_time(),
                    pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)),
                ):
                    await refused.receive()
            await self.request(client)

    async def test_a_stop_disconnects_the_clients_and_waits_for_their_ends(
        self, running: Any
    ) -> None:
        async with await self.connect(running) as client:
            await self.request(client)
            with _in_time():
                await running.stop()
            assert not running.connections
            with _in_time():
                await _read_to_the_end(client)
        await running.stop()  # idempotent

    async def test_it_can_be_started_again(self, running: Any) -> None:
        await running.stop()
        await running.start()
        async with await self.connect(running) as client:
            await self.request(client)


@contextmanager
def _in_time() -> Iterator[None]:
    with _clock.SystemClock().timeout(_PATIENCE) as scope:
        yield
    assert not scope.cancelled_caught, f"nothing happened within {_PATIENCE} seconds"


async def _read_to_the_end(client: ByteStream) -> None:
    try:
        while True:  # data sent before the end of the stream may still arrive
            await client.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


async def _until_empty(connector: Any) -> None:
    with _in_time():
        while connector.connections:
            await _clock.sleep(0.01)
