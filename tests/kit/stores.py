"""A started store of any kind, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.completion import wait_for
from broker.api.context import ConnectionContext
from broker.api.message import MessageReference
from pyjms.jms.destination import Destination, Queue
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map
from tests.kit.store_factories import FACTORIES, StoreFactory

QUEUE = Queue("Q")
PRODUCER = ProducerId("ID:host-1", 1, 1)


def as_destination(where: Destination) -> Any:
    place = SimpleNamespace(destination=where)
    place.base = place
    return place


class Opened:
    """A started adapter and what tests do with it."""

    def __init__(self, factory: StoreFactory, directory: Path) -> None:
        self.persistent: bool = factory.persistent
        self._factory = factory
        self._directory = directory
        self.adapter: Any = None

    done = staticmethod(wait_for)

    def make(self) -> Any:
        """A new adapter in the same place, not started."""
        return self._factory.make(self._directory)

    async def start(self) -> None:
        self.adapter = self.make()
        await self.adapter.start()

    async def restart(self) -> None:
        """Stop the adapter and start a new one in its place."""
        await self.adapter.stop()
        await self.start()

    # -- messages

    @staticmethod
    def reference(
        number: int,
        where: Destination = QUEUE,
        *,
        text: str | None = None,
        priority: int = 4,
        properties: dict[str, object] | None = None,
        body: bytes = b"",
        producer: ProducerId = PRODUCER,
    ) -> MessageReference:
        """A message of this number; `text`, or the number, is its JMSType."""
        message = ActiveMQTextMessage(
            producer_id=producer,
            destination=where,
            message_id=MessageId(None, producer, number, 100 + number),
            persistent=True,
            type=text or str(number),
            priority=priority,
            response_required=True,
            content=body or None,
        )
        if properties:
            message.marshalled_properties = encode_map(properties)
        return MessageReference(message, as_destination(where))

    def queue(self, name: str = "Q", *, prioritized: bool = False) -> Any:
        return self.adapter.queue_message_store(Queue(name), prioritized)

    async def send(self, store: Any, *numbers: int, **options: Any) -> list[MessageReference]:
        """Add messages, wait until they are safe, and show them."""
        references = [self.reference(n, store.destination, **options) for n in numbers]
        for reference in references:
            await wait_for(store.add_message(ConnectionContext(), reference))
            assert reference.position is not None
            store.mark_visible(reference)
        return references

    async def remove(self, store: Any, *references: MessageReference) -> None:
        for reference in references:
            await wait_for(store.remove_message(self.answering(), reference))

    @staticmethod
    def answering() -> ConnectionContext:
        """The context of an acknowledgement whose client waits."""
        context = ConnectionContext()
        context.wants_answer = True
        return context

    @staticmethod
    def within(xid: TransactionId) -> ConnectionContext:
        """The context of a command in this transaction."""
        context = ConnectionContext()
        context.transaction = SimpleNamespace(xid=xid)  # type: ignore[assignment]
        return context

    @staticmethod
    def local(number: int = 1) -> LocalTransactionId:
        return LocalTransactionId(number, ConnectionId("ID:host-1"))

    @staticmethod
    def xa(number: int = 1) -> XATransactionId:
        return XATransactionId(7, b"g" + bytes((number,)), b"b" + bytes((number,)))

    @staticmethod
    def texts(store: Any, limit: int = 1000, after: Any = None, skip: Any = ()) -> list[str]:
        return [m.message.type for m in store.next_messages(after, limit, skip)]

    @staticmethod
    def subscription_texts(store: Any, key: Any, limit: int = 1000, after: Any = None) -> list[str]:
        return [m.message.type for m in store.next_subscription_messages(key, after, limit)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with all stores, or with those that the fixtures it asks for are about."""
    names = metafunc.fixturenames
    if "factory" in names:
        factories = [
            pytest.param(factory, marks=factory.marks, id=factory.name)
            for factory in FACTORIES
            if ("kept" not in names or factory.persistent)
            and ("volatile" not in names or not factory.persistent)
        ]
        metafunc.parametrize("factory", factories, indirect=True)


@pytest.fixture
def factory(request: pytest.FixtureRequest) -> StoreFactory:
    found: StoreFactory = request.param
    reason = found.skip_reason()
    if reason:
        pytest.skip(reason)
    return found


@pytest.fixture
async def opened(factory: StoreFactory, tmp_path: Path) -> AsyncIterator[Opened]:
    """A started store of each kind."""
    opened = Opened(factory, tmp_path / "store")
    await opened.start()
    yield opened
    await opened.adapter.stop()


@pytest.fixture
async def kept(opened: Opened) -> Opened:
    """A started store of each kind that survives a restart."""
    return opened


@pytest.fixture
async def volatile(opened: Opened) -> Opened:
    """A started store of each kind that does not survive a restart."""
    return opened
