"""`mock://name`: a transport without a peer, for tests, and a listener that records.

A test reads what was sent through a MockTransport and decides what comes back; `find(name)` returns
the one behind a URL, which answers every request with a plain Response. `RecordingListener` is the
receiving end of any transport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import Transport
from pyjms.transport.inbox import Inbox
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.options import check_known
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command, Response

C = TypeVar("C")
T = TypeVar("T")


class MockTransport(Transport[C]):
    """Records sent commands in `sent`, in order, and delivers the commands given by the test.

    `respond` returns the commands with which the peer responds to each command sent; by default
    it does not respond. `deliver` delivers a command that is not a response.
    """

    def __init__(
        self, name: str = "mock", respond: Callable[[C], Iterable[C]] | None = None
    ) -> None:
        self.name = name
        self.respond: Callable[[C], Iterable[C]] = respond or (lambda _: ())
        self.sent: list[C] = []
        self.stopped: bool = False
        self.full: bool = False
        """Set it to make the transport congested until `drain()` is awaited."""
        self._inbox: Inbox[C] | None = None
        self._error: Exception | None = None

    async def start(self) -> None:
        self._inbox = Inbox(self._deliver, self._on_end, f"pyjms mock://{self.name}")
        self._inbox.start()

    async def stop(self) -> None:
        self.stopped = True
        if self._inbox is not None:
            await self._inbox.stop()

    def oneway(self, command: C) -> None:
        inbox = self._usable()
        self.sent.append(command)
        for response in self.respond(command):
            inbox.put(response)

    def deliver(self, command: C) -> None:
        """Deliver `command` as if the peer had sent it."""
        self._usable().put(command)

    def fail(self, error: Exception | None = None) -> None:
        """Break the connection, after the queued commands have been delivered."""
        failure = error or ConnectionFailedException(f"{self.remote_address}: broken by the test")
        self._usable().end(failure)

    @property
    def congested(self) -> bool:
        return self.full

    async def drain(self) -> None:
        self.full = False

    def pause_reading(self) -> None:
        self._usable().pause()

    def resume_reading(self) -> None:
        self._usable().resume()

    @property
    def remote_address(self) -> str:
        return f"mock://{self.name}"

    def _usable(self) -> Inbox[C]:
        if self._inbox is None or self.stopped or self._error is not None:
            why = self._error or ("stopped" if self.stopped else "not started")
            raise ConnectionFailedException(f"Cannot use {self.remote_address}: {why}")
        return self._inbox

    def _deliver(self, commands: deque[C]) -> None:
        inbox = self._usable()
        while commands and not inbox.is_paused:
            self.listener.on_command(commands.popleft())

    def _on_end(self, error: Exception) -> None:
        self._error = error
        if not self.stopped:
            self.listener.on_exception(error)


class RecordingListener(Generic[C]):
    """Records the commands and the failure that a transport reports, and waits for them."""

    def __init__(self) -> None:
        self.commands: list[C] = []
        self.errors: list[Exception] = []
        self._unread: list[C] = []
        self._changed = anyio.Event()

    def on_command(self, command: C) -> None:
        self.commands.append(command)
        self._unread.append(command)
        self._notify()

    def on_exception(self, error: Exception) -> None:
        self.errors.append(error)
        self._notify()

    async def next(self, kind: type[T]) -> T:
        """Return the next command of this kind; wait for it."""
        while True:
            for index, command in enumerate(self._unread):
                if isinstance(command, kind):
                    del self._unread[index]
                    return command
            await self._changed.wait()

    async def error(self) -> Exception:
        """Return the error that ended the transport; wait for it."""
        while not self.errors:
            await self._changed.wait()
        return self.errors[0]

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


_mocks: WeakValueDictionary[str, MockTransport[Command]] = WeakValueDictionary()


def plain_response(command: Command) -> Iterable[Command]:
    """Return a Response if `command` requires one."""
    return (Response(command.command_id),) if command.response_required else ()


def mock_transport(uri: TransportURI) -> RequestTransport:
    """Return a ResponseCorrelator around a new MockTransport, for `mock://name`.

    Raises:
        ConfigurationException: the URL has options.
    """
    check_known(uri, set())
    mock = _mocks[uri.location] = MockTransport(uri.location, plain_response)
    return ResponseCorrelator(mock)


def find(name: str) -> MockTransport[Command]:
    """Return the latest MockTransport created for `mock://name`, while it is in use.

    Raises:
        KeyError: there is none.
    """
    return _mocks[name]
