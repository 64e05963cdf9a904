"""Listener containers on the JMS provider in memory, and a record of what their listener got."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider, Waker


class Recorder(Waker):
    """What a listener got: `text#count`, with `*` when redelivered."""

    def __init__(self) -> None:
        super().__init__()
        self.deliveries: list[str] = []
        self.errors: list[BaseException] = []
        self.exceptions: list[BaseException] = []

    def note(self, message: Any) -> None:
        mark = "*" if message.redelivered else ""
        self.deliveries.append(f"{message.text}#{message.delivery_count}{mark}")
        self.wake()

    async def hear(self, message: Any) -> None:
        """`note` as a coroutine: stays on the loop."""
        self.note(message)

    def on_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.wake()

    def on_exception(self, error: BaseException) -> None:
        self.exceptions.append(error)
        self.wake()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until `condition()` holds; it is checked after each delivery and error."""
        while not condition():
            await self.changed.wait()


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """A clock that the test advances."""
    async with VirtualClock() as virtual:
        yield virtual


@pytest.fixture
async def jumping() -> AsyncIterator[VirtualClock]:
    """A clock that jumps ahead whenever everything waits."""
    async with VirtualClock(autojump=True) as virtual:
        yield virtual


@pytest.fixture
async def build(provider: JmsProvider) -> AsyncIterator[Callable[..., Any]]:
    """`build(listener, **properties)`: a container on queue "q", shut down after the test."""
    built: list[DefaultMessageListenerContainer] = []

    def make(listener: Any = None, **properties: Any) -> DefaultMessageListenerContainer:
        if "destination" not in properties:
            properties.setdefault("destination_name", "q")
        container = DefaultMessageListenerContainer(
            properties.pop("connection_factory", provider), message_listener=listener, **properties
        )
        built.append(container)
        return container

    yield make
    for container in built:
        with anyio.CancelScope(shield=True):
            await container.shutdown(0)
