"""The real client on the real broker over vm://, in virtual time, and what Spring did there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker

KINDS = {
    "DefaultMessageListenerContainer": DefaultMessageListenerContainer,
    "SimpleMessageListenerContainer": SimpleMessageListenerContainer,
}


class Diary:
    """Records deliveries as `text#count`, with `*` when redelivered, and their times."""

    def __init__(self, clock: _clock.Clock) -> None:
        self.clock = clock
        self.deliveries: list[str] = []
        self.times: list[float] = []
        self.errors: list[Exception] = []
        self.exceptions: list[Exception] = []
        self.failing: dict[str, int] = {}
        self._changed = anyio.Event()

    async def __call__(self, message: Any) -> None:
        mark = "*" if message.redelivered else ""
        self.deliveries.append(f"{message.text}#{message.delivery_count}{mark}")
        self.times.append(self.clock.now())
        self._wake()
        if self.failing.get(message.text, 0):
            self.failing[message.text] -= 1
            raise RuntimeError(message.text)

    def on_error(self, error: Exception) -> None:
        self.errors.append(error)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def gaps(self, text: str) -> list[float]:
        times = [t for t, d in zip(self.times, self.deliveries, strict=True) if d.startswith(text)]
        return [round(b - a, 3) for a, b in pairwise(times)]


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as virtual:
        yield virtual


@pytest.fixture
async def broker(clock: VirtualClock) -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as embedded:
        yield embedded


@pytest.fixture
def factory(broker: EmbeddedTestBroker) -> ConnectionFactory:
    return ConnectionFactory(broker.url)


@pytest.fixture
def template(broker: EmbeddedTestBroker) -> JmsTemplate:
    """Sends with a separate factory."""
    return JmsTemplate(ConnectionFactory(broker.url), receive_timeout=0.5)


@pytest.fixture
async def diary(clock: VirtualClock) -> Diary:
    return Diary(clock)


@pytest.fixture
async def build(factory: ConnectionFactory) -> AsyncIterator[Callable[..., Any]]:
    """`build(listener, kind=..., **properties)`: a container, shut down after the test."""
    built: list[Any] = []

    def make(
        listener: Any, kind: str = "DefaultMessageListenerContainer", **properties: Any
    ) -> Any:
        if "destination" not in properties:
            properties.setdefault("destination_name", "q")
        connection_factory = properties.pop("connection_factory", factory)
        built.append(KINDS[kind](connection_factory, message_listener=listener, **properties))
        return built[-1]

    yield make
    for container in built:
        await container.shutdown(1)


@pytest.fixture
def left(template: JmsTemplate) -> Callable[[str], Any]:
    """`await left("q")`: consume and return the remaining messages of the queue."""

    async def take(name: str) -> list[Any]:
        messages = []
        while (message := await template.receive(name)) is not None:
            messages.append(message)
        return messages

    return take
