"""Random work that nobody waits for, against lists; with restarts in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Topic
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.jdbc.journaled import JournaledJDBCPersistenceAdapter
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC

T = Topic("T")
KEYS = [SubscriptionKey("me", name) for name in "st"]
SETTINGS = JDBCSettings(max_rows=7)


class Model:
    """A queue and a topic with two subscriptions, and what should be in them."""

    def __init__(self, store: Any, rng: random.Random) -> None:
        self.store = store
        self.rng = rng
        self.number = 0
        self.queue: list[Any] = []
        self.pending: dict[SubscriptionKey, list[Any]] = {}
        self.open()

    def open(self) -> None:
        self.queues = self.store.queue()
        self.topics = self.store.adapter.topic_message_store(T)

    # -- what can happen

    def add(self, where: Any, context: OperationContext) -> Any:
        self.number += 1
        reference = self.store.reference(self.number, where.destination)
        where.add_message(context, reference)
        return reference

    def send(self) -> None:
        reference = self.add(self.queues, OperationContext())
        self.queues.mark_visible(reference)
        self.queue.append(reference)

    def publish(self) -> None:
        reference = self.add(self.topics, OperationContext())
        self.topics.mark_visible(reference)
        for messages in self.pending.values():
            messages.append(reference)

    def remove(self) -> None:
        if self.queue:
            reference = self.queue.pop(self.rng.randrange(len(self.queue)))
            self.queues.remove_message(OperationContext(), reference)

    def acknowledge(self) -> None:
        key = self.rng.choice(KEYS)
        messages = self.pending.get(key)
        if messages:
            # mostly the first
            index = 0 if self.rng.random() < 0.7 else self.rng.randrange(len(messages))
            self.topics.acknowledge(OperationContext(), key, messages.pop(index))

    def subscribe(self) -> None:
        key = self.rng.choice(KEYS)
        if key not in self.pending:
            retroactive = self.rng.random() < 0.5
            self.topics.add_subscription(StoredSubscription(key, T), retroactive)
            self.pending[key] = self.live() if retroactive else []

    def unsubscribe(self) -> None:
        if self.rng.random() < 0.2:
            key = self.rng.choice(KEYS)
            self.topics.delete_subscription(key)
            self.pending.pop(key, None)

    def purge(self) -> None:
        if self.rng.random() < 0.1:
            self.queues.remove_all_messages(OperationContext())
            self.queue.clear()
        elif self.rng.random() < 0.1:
            self.topics.remove_all_messages(OperationContext())
            for messages in self.pending.values():
                messages.clear()

    def transact(self) -> None:
        prepared = self.rng.random() < 0.5
        xid = self.store.xa() if prepared else self.store.local()
        context = self.store.within(xid)
        sent, published = self.add(self.queues, context), self.add(self.topics, context)
        removed = self.queue[:1]
        for reference in removed:
            self.queues.remove_message(context, reference)
        acknowledged = [(key, messages[0]) for key, messages in self.pending.items() if messages]
        for key, reference in acknowledged:
            self.topics.acknowledge(context, key, reference)
        transactions = self.store.adapter.transaction_store()
        if prepared:
            transactions.prepare(xid)
        if self.rng.random() < 0.3:
            transactions.rollback(xid)
            return
        transactions.commit(xid, prepared)
        self.queues.mark_visible(sent)
        self.topics.mark_visible(published)
        self.queue = [*self.queue[len(removed) :], sent]
        for key, messages in self.pending.items():
            if (key, messages[0] if messages else None) in acknowledged:
                messages.pop(0)
            messages.append(published)

    # -- what should be

    def live(self) -> list[Any]:
        found = {id(r): r for messages in self.pending.values() for r in messages}
        return sorted(found.values(), key=lambda r: r.position)

    def check(self) -> None:
        assert self.store.texts(self.queues) == [r.message.type for r in self.queue]
        assert self.queues.message_count == len(self.queue)
        assert self.queues.message_size == sum(r.size for r in self.queue)
        for key in KEYS:
            expected = [r.message.type for r in self.pending.get(key, [])]
            assert self.store.subscription_texts(self.topics, key) == expected
            assert self.topics.subscription_message_count(key) == len(expected)
        assert self.store.texts(self.topics) == [r.message.type for r in self.live()]
        assert self.topics.message_count == len(self.live())


ACTIONS = {
    "send": 6,
    "publish": 6,
    "remove": 5,
    "acknowledge": 9,
    "subscribe": 3,
    "unsubscribe": 2,
    "purge": 2,
    "transact": 3,
}


def journaled(directory: Path) -> JournaledJDBCPersistenceAdapter:
    journal = JournalSettingsJDBC(journal_log_file_size=32 * 1024)
    return JournaledJDBCPersistenceAdapter(directory, SETTINGS, journal_settings=journal)


@pytest.mark.parametrize("make", [None, journaled], ids=["jdbc", "journaled"])
@pytest.mark.parametrize("seed", range(6))
async def test_random_work(open_store: Callable[..., Any], make: Any, seed: int) -> None:
    store = await open_store(make, max_rows=7)
    rng = random.Random(seed)
    model = Model(store, rng)
    for _ in range(8):
        for _ in range(rng.randrange(30)):
            (action,) = rng.choices([*ACTIONS], [*ACTIONS.values()])
            getattr(model, action)()
        if rng.random() < 0.5:
            model.check()
        if rng.random() < 0.3:
            await store.adapter.checkpoint()
        elif rng.random() < 0.3:
            await store.restart()
            model.open()
    model.check()
    await store.restart()
    model.open()
    model.check()
