"""A transport without a peer: a test reads what was sent and says what comes back.

`mock://name` makes one; `find(name)` gets it. By default it answers every request with a
plain Response. `RecordingListener` is the other end: it keeps what any transport brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import RequestTransport, Transport
from pyjms.transport.correlator import ResponseCorrelator
from pyjms.transport.inbox import Inbox
from pyjms.transport.options import check_known
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command, Response

__all__ = ["Answer", "MockTransport", "RecordingListener", "find", "mock_transport"]

C = TypeVar("C", bound=Command)

Answer = Callable[[Command], Iterable[Command]]
"""What the peer says to a command."""

_mocks: WeakValueDictionary[str, MockTransport] = WeakValueDictionary()


def plain_response(command: Command) -> Iterable[Command]:
    """A Response to what asks for one."""
    return (Response(command.command_id),) if command.response_required else ()


class MockTransport(Transport):
    """Keeps what is sent in `sent`, in order; brings what `answer` and `deliver` say."""

    def __init__(self, name: str = "mock", answer: Answer = plain_response) -> None:
        self.name = name
        self.answer = answer
        self.sent: list[Command] = []
        self.stopped = False
        self.full = False
        """Set it to make the transport congested until the next turn of the loop."""
        self._inbox: Inbox[Command] | None = None
        self._error: Exception | None = None

    async def start(self) -> None:
        self._inbox = Inbox(self.listener.on_command, self._ended, f"pyjms mock://{self.name}")
        self._inbox.start()

    async def stop(self) -> None:
        self.stopped = True
        if self._inbox is not None:
            await self._inbox.stop()

    def oneway(self, command: Command) -> None:
        inbox = self._usable()
        self.sent.append(command)
        for answer in self.answer(command):
            inbox.put(answer)

    def deliver(self, command: Command) -> None:
        """Let `command` come from the peer."""
        self._usable().put(command)

    def fail(self, error: Exception | None = None) -> None:
        """Let the connection break, after what waits was delivered."""
        failure = error or ConnectionFailedException(f"{self.remote_address}: broken by the test")
        self._usable().end(failure)

    @property
    def congested(self) -> bool:
        return self.full

    async def drained(self) -> None:
        self.full = False

    def pause_reading(self) -> None:
        self._usable().pause()

    def resume_reading(self) -> None:
        self._usable().resume()

    @property
    def remote_address(self) -> str:
        return f"mock://{self.name}"

    def _usable(self) -> Inbox[Command]:
        if self._inbox is None or self.stopped or self._error is not None:
            why = self._error or ("stopped" if self.stopped else "not started")
            raise ConnectionFailedException(f"Cannot use {self.remote_address}: {why}")
        return self._inbox

    def _ended(self, error: Exception) -> None:
        self._error = error
        if not self.stopped:
            self.listener.on_exception(error)


def mock_transport(uri: TransportURI) -> RequestTransport:
    """The chain for `mock://name`: a ResponseCorrelator around a new MockTransport."""
    check_known(uri, set())
    mock = _mocks[uri.location] = MockTransport(uri.location)
    return ResponseCorrelator(mock)


def find(name: str) -> MockTransport:
    """The newest MockTransport made for `mock://name`, while somebody uses it.

    Raises:
        KeyError: there is none.
    """
    return _mocks[name]


class RecordingListener:
    """Keeps the commands and errors that a transport brings, and waits for them."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.errors: list[Exception] = []
        self._unread: list[Command] = []
        self._changed = anyio.Event()

    def on_command(self, command: Command) -> None:
        self.commands.append(command)
        self._unread.append(command)
        self._note()

    def on_exception(self, error: Exception) -> None:
        self.errors.append(error)
        self._note()

    async def next(self, kind: type[C]) -> C:
        """The next command of that kind, of those not asked for yet; waits for it."""
        while True:
            for index, command in enumerate(self._unread):
                if isinstance(command, kind):
                    del self._unread[index]
                    return command
            await self._changed.wait()

    async def error(self) -> Exception:
        """The error that ended the transport; waits for it."""
        while not self.errors:
            await self._changed.wait()
        return self.errors[0]

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
