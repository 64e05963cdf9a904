"""Brokers of the scheme `fake:` that exist in a test only: up or down, and every attempt recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.transport import registry
from pyjms.transport.mock import MockTransport, plain_response
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.options import check_known
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command, ConnectionInfo, ExceptionResponse, Throwable


class FakeTransport(MockTransport[Command]):
    """A connection to one of them."""

    def __init__(self, brokers: FakeBrokers, uri: TransportURI) -> None:
        super().__init__(uri.location, self.answer)
        self.brokers = brokers
        self.options = dict(uri.options)
        self.is_broken = False
        """Set it to have sending fail before the failure is reported."""

    async def start(self) -> None:
        self.brokers.attempts.append((self.name, _clock.now() - self.brokers.since))
        if self.brokers.fail_next > 0 or self.name in self.brokers.down:
            self.brokers.fail_next -= 1
            raise ConnectionFailedException(f"{self.name} is down")
        await super().start()
        self.brokers.connections.append(self)

    def oneway(self, command: Command) -> None:
        if self.is_broken:
            raise ConnectionFailedException(f"{self.name} is lost")
        super().oneway(command)

    def answer(self, command: Command) -> Iterable[Command]:
        if not isinstance(command, ConnectionInfo):
            return plain_response(command)
        announced = self.brokers.announced.get(self.name, ())
        if self.name in self.brokers.refusing:
            refusal = Throwable("javax.jms.InvalidClientIDException", "in use")
            return [*announced, ExceptionResponse(command.command_id, refusal)]
        return [*announced, *plain_response(command)]


class FakeBrokers:
    """All brokers of a test."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.refusing: set[str] = set()
        """Those that accept connections but refuse the client."""
        self.announced: dict[str, list[Command]] = {}
        """What each of them sends before the response to ConnectionInfo."""
        self.fail_next = 0
        """How many attempts fail, whatever their broker."""
        self.since = 0.0
        self.attempts: list[tuple[str, float]] = []
        """The broker and the time of each attempt."""
        self.connections: list[FakeTransport] = []
        """The connections that were made, oldest first."""

    @property
    def open(self) -> list[str]:
        """The brokers to which there is a connection now."""
        return [connection.name for connection in self.connections if not connection.stopped]

    def lose(self, index: int = -1) -> None:
        """Break a connection; times count from now."""
        self.since = _clock.now()
        self.attempts.clear()
        self.connections[index].fail()

    def transport(self, uri: TransportURI) -> RequestTransport:
        check_known(uri, {"x"})
        return ResponseCorrelator(FakeTransport(self, uri))


@pytest.fixture
def brokers() -> Iterator[FakeBrokers]:
    found = FakeBrokers()
    registry.register("fake", found.transport)
    yield found
    registry.register("fake", None)
