"""A KahaDB store in a separate folder, random operations on it, and its complete state."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference, OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.recovery import OUR_INDEX
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.stores.simulated_disk import SimulatedDisk

QUEUES = [Queue("A"), Queue("B"), Queue("C")]
TOPIC = Topic("T")
KEYS = [SubscriptionKey("c", "one"), SubscriptionKey("c", "two")]


def message(number: int, where: Destination, **fields: Any) -> MessageReference:
    properties = fields.pop("properties", None)
    producer = ProducerId("ID:p", fields.pop("producer", 1), 1)
    command = ActiveMQTextMessage(
        producer_id=producer,
        destination=where,
        message_id=MessageId(None, producer, number, number),
        persistent=True,
        type=str(number),
        response_required=True,
        **fields,
    )
    if properties:
        command.marshalled_properties = encode_map(properties)
    place = SimpleNamespace(destination=where)
    place.base = place
    return MessageReference(command, place)  # type: ignore[arg-type]


def within(xid: Any) -> OperationContext:
    return OperationContext(xid)


def settings(**options: Any) -> KahaDBSettings:
    journal = {
        "max_file_length": 4096,
        "preallocation_scope": PreallocationScope.NONE,
        **options.pop("journal", {}),
    }
    defaults = {"checkpoint_interval": 0, "cleanup_interval": 0, "cleanup_on_stop": False}
    return KahaDBSettings(journal=JournalSettings(**journal), **{**defaults, **options})


class Home:
    """A folder and the adapter that has it open, if any."""

    done = staticmethod(wait_for)
    message = staticmethod(message)
    within = staticmethod(within)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.adapter: Any = None

    async def open(self, **options: Any) -> Any:
        disk = options.pop("disk", None)
        more = {} if disk is None else {"disk": disk}
        self.adapter = KahaDBPersistenceAdapter(self.directory, settings(**options), **more)
        await self.adapter.start()
        return self.adapter

    async def close(self) -> None:
        if self.adapter is not None:
            await self.adapter.stop()

    async def reopen(self, **options: Any) -> Any:
        await self.close()
        return await self.open(**options)

    def delete_index(self) -> None:
        for path in self.directory.glob(f"{OUR_INDEX}*"):
            path.unlink()

    async def rebuild(self, **options: Any) -> Any:
        """Open it again without its index."""
        await self.close()
        self.delete_index()
        await self.open(**options)
        assert self.adapter.rebuilt
        return self.adapter

    async def send(self, store: Any, *numbers: int, **fields: Any) -> list[MessageReference]:
        references = [message(n, store.destination, **fields) for n in numbers]
        for reference in references:
            await wait_for(store.add_message(OperationContext(), reference))
            store.mark_visible(reference)
        return references

    async def remove(self, store: Any, *references: MessageReference) -> None:
        for reference in references:
            await wait_for(store.remove_message(OperationContext(), reference))
        await wait_for(self.adapter.journal.barrier(sync=False))

    def state(self) -> dict[str, Any]:
        """Return everything that can be read from the adapter."""
        adapter = self.adapter
        index = adapter._require_open().index
        found: dict[str, Any] = {
            "sequence": adapter.last_broker_sequence_id,
            "producers": dict(index.producers.items()),
            "recovered": sorted(
                (str(x.xid), [m.type for _, m in x.added], [m.message.type for *_, m in x.removed])
                for x in adapter.transaction_store().recovered_transactions()
            ),
        }
        for destination in sorted(adapter.destinations(), key=str):
            topic = isinstance(destination, Topic)
            make = adapter.topic_message_store if topic else adapter.queue_message_store
            store = make(destination)
            found[str(destination)] = {
                "epoch": store.epoch,
                "last": store.last_arrival,
                "count": store.message_count,
                "size": store.message_size,
                "duplicates": sorted(
                    d
                    for f in store._index.duplicates.counts_by_segment()
                    for d in store._index.duplicates.recorded_in(f)
                ),
                "messages": [
                    (tuple(m.position), m.message.type, m.message.raw)
                    for m in store.next_messages(None, 100_000)
                ],
            }
            if topic:
                found[str(destination)]["subscriptions"] = {
                    s.key: (
                        s,
                        store.subscription_message_count(s.key),
                        [
                            (tuple(m.position), m.message.type)
                            for m in store.next_subscription_messages(s.key, None, 100_000)
                        ],
                    )
                    for s in store.subscriptions()
                }
        return found


class Driver:
    """Calls the store at random, in the order that a broker may call it."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.number = 0
        self.live: dict[Destination, list[MessageReference]] = {q: [] for q in QUEUES}
        self.news: list[MessageReference] = []
        self.open: dict[Any, tuple[list[MessageReference], list[MessageReference]]] = {}
        self.prepared: set[Any] = set()
        self.recovered: set[Any] = set()

    def queue(self) -> Any:
        return self.home.adapter.queue_message_store(self.random.choice(QUEUES))

    def topic(self) -> Any:
        return self.home.adapter.topic_message_store(TOPIC)

    def next(self, where: Destination) -> MessageReference:
        self.number += 1
        dice = self.random
        properties = {"_AMQ_DUPL_ID": str(dice.randrange(40))} if dice.random() < 0.2 else None
        return message(
            self.number,
            where,
            properties=properties,
            content=bytes(dice.randrange(400)),
            producer=dice.randrange(1, 4),
        )

    async def step(self) -> None:
        actions: list[tuple[Callable[[], Any], int]] = [
            (self.add, 10),
            (self.take, 10),
            (self.publish, 4),
            (self.acknowledge, 6),
            (self.begin, 3),
            (self.end, 3),
            (self.subscribe, 1),
            (self.change, 1),
            (self.purge, 1),
        ]
        chosen = self.random.choices([a for a, _ in actions], [w for _, w in actions])[0]
        await chosen()

    async def add(self) -> None:
        store = self.queue()
        reference = self.next(store.destination)
        await wait_for(store.add_message(OperationContext(), reference))
        if reference.position is not None:
            store.mark_visible(reference)
            self.live[store.destination].append(reference)

    async def take(self) -> None:
        store = self.queue()
        live = self.live[store.destination]
        if live:
            at = 0 if self.random.random() < 0.7 else self.random.randrange(len(live))
            store.remove_message(OperationContext(), live.pop(at))

    async def publish(self) -> None:
        store = self.topic()
        reference = self.next(TOPIC)
        await wait_for(store.add_message(OperationContext(), reference))
        if reference.position is not None:
            store.mark_visible(reference)
            self.news.append(reference)

    async def acknowledge(self) -> None:
        store = self.topic()
        for key in KEYS:
            found = store.next_subscription_messages(key, None, 3)
            if found and self.random.random() < 0.8:
                stored = self.random.choice(found)
                reference = message(1, TOPIC)
                reference.message_id = stored.message.message_id
                store.acknowledge(OperationContext(), key, reference)

    async def begin(self) -> None:
        number = self.number = self.number + 1
        xid: Any = LocalTransactionId(number, ConnectionId("ID:c"))
        if self.random.random() < 0.5:
            xid = XATransactionId(7, str(number).encode(), b"b")
        added, removed = [], []
        for _ in range(self.random.randrange(1, 8)):
            store = self.queue()
            live = self.live[store.destination]
            if live and self.random.random() < 0.5:
                reference = live.pop(0)
                store.remove_message(within(xid), reference)
                removed.append(reference)
            else:
                reference = self.next(store.destination)
                store.add_message(within(xid), reference)
                added.append(reference)
        self.open[xid] = (added, removed)

    async def end(self) -> None:
        if not self.open:
            return
        xid = self.random.choice(list(self.open))
        transactions = self.home.adapter.transaction_store()
        if isinstance(xid, XATransactionId) and xid not in self.prepared:
            await wait_for(transactions.prepare(xid))
            self.prepared.add(xid)
            return
        added, removed = self.open.pop(xid)
        if self.random.random() < 0.7:
            await wait_for(transactions.commit(xid, xid in self.prepared))
            for reference in added:
                where = destination_of(reference)
                if xid in self.recovered:  # its references are not the store's
                    reference.position = transactions.position_of(where, reference.message_id)
                if reference.position is not None:
                    self.home.adapter.queue_message_store(where).mark_visible(reference)
                    self.live[where].append(reference)
        else:
            await wait_for(transactions.rollback(xid))
            for reference in removed:
                self.live[destination_of(reference)].append(reference)

    async def subscribe(self) -> None:
        store, key = self.topic(), self.random.choice(KEYS)
        if store.lookup_subscription(key) is None:
            subscription = StoredSubscription(key, TOPIC, f"a = {self.number}")
            await wait_for(store.add_subscription(subscription, self.random.random() < 0.3))
        elif self.random.random() < 0.3:
            await wait_for(store.delete_subscription(key))

    async def change(self) -> None:
        store = self.queue()
        live = self.live[store.destination]
        if live:
            reference = self.random.choice(live)
            reference.message.redelivery_counter = 1
            await wait_for(store.update_message(reference))

    async def purge(self) -> None:
        store = self.queue()
        busy = any(
            r.message.destination == store.destination
            for xid in self.prepared & self.open.keys()
            for r in self.open[xid][1]
        )
        if self.random.random() < 0.2 and not busy:
            await wait_for(store.remove_all_messages(OperationContext()))
            self.live[store.destination].clear()

    def forget_open(self) -> None:
        """A restart rolls back unprepared transactions."""
        self.recovered |= self.prepared
        for xid in [xid for xid in self.open if xid not in self.prepared]:
            _, removed = self.open.pop(xid)
            for reference in removed:
                self.live[destination_of(reference)].append(reference)


def destination_of(reference: MessageReference) -> Destination:
    destination = reference.message.destination
    assert destination is not None
    return destination


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    home = Home(tmp_path / "kahadb")
    yield home
    await home.close()


@pytest.fixture
def driver() -> type[Driver]:
    return Driver


@pytest.fixture
def simulated_disk() -> type[SimulatedDisk]:
    """Makes disks in memory that lose power."""
    return SimulatedDisk
