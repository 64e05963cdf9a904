"""The harness of the contract tests of stores: a started adapter, messages, contexts, helpers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import (
    MessageReference,
    OperationContext,
    Position,
    Positions,
    SubscriptionKey,
)
from pyjms_broker.store.api import (
    MessageStore,
    PersistenceAdapter,
    StoredSubscription,
    StoreState,
    TopicMessageStore,
)

__all__ = ["AdapterContract", "AdapterFactory", "StoreHarness"]

AdapterFactory: TypeAlias = Callable[[], PersistenceAdapter]
"""Returns a new adapter, not started; always for the same data."""

QUEUE = Queue("Q")
T = Topic("T")
KEY, OTHER = SubscriptionKey("me", "s"), SubscriptionKey("me", "t")
PRODUCER = commands.ProducerId("ID:host-1", 1, 1)


def _as_destination(destination: Destination) -> Any:
    region_destination = SimpleNamespace(destination=destination)
    region_destination.base = region_destination
    return region_destination


class StoreHarness:
    """A started adapter, and the operations that the tests need."""

    def __init__(self, make_adapter: AdapterFactory) -> None:
        self._make_adapter = make_adapter
        self.adapter: Any = None

    @property
    def persistent(self) -> bool:
        """Whether a restart keeps messages: False if the adapter says `is_volatile`."""
        return not getattr(self.adapter, "is_volatile", False)

    done: Final = staticmethod(wait_for)

    def make(self) -> Any:
        """Return a new adapter for the same data, not started."""
        return self._make_adapter()

    async def start(self) -> None:
        """Make an adapter and start it."""
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
        producer: commands.ProducerId = PRODUCER,
    ) -> Any:
        """Return a MessageReference; its JMSType is `text`, by default `number`."""
        message = commands.ActiveMQTextMessage(
            producer_id=producer,
            destination=where,
            message_id=commands.MessageId(None, producer, number, 100 + number),
            persistent=True,
            type=text or str(number),
            priority=priority,
            response_required=True,
            content=body or None,
        )
        if properties:
            message.marshalled_properties = encode_map(properties)
        return MessageReference(message, _as_destination(where))

    def queue(self, name: str = "Q", *, prioritized: bool = False) -> Any:
        """Return the store of a queue."""
        return self.adapter.queue_message_store(Queue(name), prioritized)

    async def send(self, store: Any, *numbers: int, **options: Any) -> list[Any]:
        """Add messages, wait until they are durable, and make them visible."""
        references = [self.reference(n, store.destination, **options) for n in numbers]
        for reference in references:
            await wait_for(store.add_message(OperationContext(), reference))
            assert reference.position is not None
            store.mark_visible(reference)
        return references

    async def remove(self, store: MessageStore, *references: MessageReference) -> None:
        """Remove messages and wait until that is durable."""
        for reference in references:
            await wait_for(store.remove_message(self.synchronous(), reference))

    @staticmethod
    def synchronous() -> OperationContext:
        """Return the context of an acknowledgement whose client waits for a response."""
        return OperationContext(response_required=True)

    @staticmethod
    def within(xid: commands.TransactionId) -> OperationContext:
        """Return the context of a command in this transaction."""
        return OperationContext(xid)

    @staticmethod
    def local(number: int = 1) -> commands.LocalTransactionId:
        """Return the id of a local transaction."""
        return commands.LocalTransactionId(number, commands.ConnectionId("ID:host-1"))

    @staticmethod
    def xa(number: int = 1) -> commands.XATransactionId:
        """Return the id of an XA transaction."""
        return commands.XATransactionId(7, b"g" + bytes((number,)), b"b" + bytes((number,)))

    async def prepare_branch(self) -> Any:
        """Prepare a branch that adds 3 to Q, acknowledges 1 on Q, and 11 on T for KEY."""
        queue, topic = self.queue(), self.adapter.topic_message_store(T)
        first, _ = await self.send(queue, 1, 2)
        for key in (KEY, OTHER):
            await self.done(topic.add_subscription(StoredSubscription(key, T), False))
        (published,) = await self.send(topic, 11)
        xid = self.xa()
        inside = self.within(xid)
        added = self.reference(3)
        queue.add_message(inside, added)
        queue.remove_message(inside, first)
        topic.acknowledge(inside, KEY, published)
        await self.done(self.adapter.transaction_store().prepare(xid))
        assert self.texts(queue) == ["2"]
        assert self.subscription_texts(topic, KEY) == []
        assert self.subscription_texts(topic, OTHER) == ["11"]
        return xid, added

    @staticmethod
    def texts(
        store: MessageStore, limit: int = 1000, after: Position | None = None, skip: Positions = ()
    ) -> list[str | None]:
        """Return the JMSTypes of a page of messages."""
        return [m.message.type for m in store.next_messages(after, limit, skip)]

    @staticmethod
    def subscription_texts(
        store: TopicMessageStore,
        key: SubscriptionKey,
        limit: int = 1000,
        after: Position | None = None,
    ) -> list[str | None]:
        """Return the JMSTypes of a page of a subscription's messages."""
        return [m.message.type for m in store.next_subscription_messages(key, after, limit)]


Q, R, ADAPTER_T = Queue("Q"), Queue("R"), Topic("T")


ADAPTER_KEY = SubscriptionKey("me", "s")


ADAPTER_OTHER = commands.ProducerId("ID:host-2", 1, 1)


@pytest.mark.anyio
class AdapterContract:
    """The contract of persistence adapters as a whole."""

    async def test_destinations_are_listed(self, harness: StoreHarness) -> None:
        """`destinations` returns the destinations with content (activemq-persistence S1)."""
        adapter = harness.adapter
        assert adapter.destinations() == set()
        for name in ("Q", "R"):
            await harness.send(harness.queue(name), 1)
        topic = adapter.topic_message_store(ADAPTER_T)
        await harness.done(
            topic.add_subscription(StoredSubscription(ADAPTER_KEY, ADAPTER_T), False)
        )
        assert adapter.destinations() == {Q, R, ADAPTER_T}
        adapter.remove_message_store(R)
        assert adapter.destinations() == {Q, ADAPTER_T}
        if harness.persistent:
            await harness.restart()
            assert harness.adapter.destinations() == {Q, ADAPTER_T}
            assert harness.texts(harness.queue()) == ["1"]
        assert harness.texts(harness.queue("R")) == []

    async def test_a_transaction_spans_destinations(self, harness: StoreHarness) -> None:
        """One transaction store groups the calls of a context (activemq-persistence S1)."""
        transactions = harness.adapter.transaction_store()
        assert harness.adapter.transaction_store() is transactions
        one, other = harness.queue("Q"), harness.queue("R")
        (old,) = await harness.send(one, 1)
        ends = ((harness.local(1), transactions.rollback), (harness.local(2), None))
        for number, (xid, rollback) in enumerate(ends, 2):
            inside = harness.within(xid)
            added = [harness.reference(number, Q), harness.reference(number, R)]
            for store, reference in zip((one, other), added, strict=True):
                store.add_message(inside, reference)
            one.remove_message(inside, old)
            assert (harness.texts(one), harness.texts(other)) == (["1"], [])
            await harness.done(rollback(xid) if rollback else transactions.commit(xid, False))
        for store, reference in zip((one, other), added, strict=True):
            store.mark_visible(reference)
        assert (harness.texts(one), harness.texts(other)) == (["3"], ["3"])

    async def test_last_sequence_numbers_survive(self, harness: StoreHarness) -> None:
        """The last sequence numbers survive removals and restarts (activemq-persistence S1)."""
        adapter = harness.adapter
        assert adapter.last_broker_sequence_id == 0
        assert adapter.last_producer_sequence_id(ADAPTER_OTHER) == -1
        queue, second = harness.queue("Q"), harness.queue("R")
        references = await harness.send(queue, 4, 7)
        await harness.send(second, 5, producer=ADAPTER_OTHER)
        await harness.remove(queue, *references)
        for restart in (False, True):
            if restart:
                if not harness.persistent:
                    break
                await harness.adapter.checkpoint()
                await harness.restart()
            found = [
                harness.adapter.last_producer_sequence_id(producer)
                for producer in (ADAPTER_OTHER, references[0].message.producer_id)
            ]
            # in memory, the queues' own audit detects what a producer sends again
            assert found == ([5, 7] if harness.persistent else [-1, -1])
            assert harness.adapter.last_broker_sequence_id == 107

    async def test_size_checkpoint_and_deletion(self, harness: StoreHarness) -> None:
        """`size`, `checkpoint` and `delete_all_messages` work together.

        (activemq-persistence S1)
        """
        queue = harness.queue()
        await harness.send(queue, *range(1, 30), body=bytes(2000))
        await harness.adapter.checkpoint()
        assert harness.adapter.state is StoreState.RUNNING
        assert harness.texts(queue, limit=2) == ["1", "2"]
        if not harness.persistent:
            assert harness.adapter.size == 0
            return
        elsewhere = not harness.adapter.directory.exists()  # on a database server, as in ActiveMQ
        assert harness.adapter.size == 0 if elsewhere else harness.adapter.size > 29 * 2000
        await harness.adapter.stop()
        adapter = harness.adapter = harness.make()
        await adapter.delete_all_messages()
        await adapter.start()
        assert adapter.destinations() == set()
        await harness.restart()
        assert harness.adapter.destinations() == set()
        assert harness.texts(harness.queue()) == []
