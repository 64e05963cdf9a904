"""KahaDB stores in folders, and the command line run on them."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQTextMessage,
    MessageId,
    ProducerId,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference, OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.processes.command_line import pyjms_broker_command

PROPERTIES = {
    "boolean": True,
    "byte": Byte(-1),
    "short": Short(300),
    "int": 7,
    "long": Long(7),
    "float": Float(0.5),
    "double": 1.25,
    "text": "gr\u00fc\u00df \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "char": Char("c"),
    "none": None,
    "map": {"a": [1, Long(2), b"\x00\xff"]},
}
SUBSCRIPTIONS = [SubscriptionKey("c", "one"), SubscriptionKey("c", "two")]


def reference(number: int, where: Destination, **fields: Any) -> MessageReference:
    properties = fields.pop("properties", None)
    kind = fields.pop("kind", ActiveMQTextMessage)
    producer = ProducerId("ID:host-1-2", 1, 3)
    fields.setdefault("content", encode_text(f"body of {number}"))
    message = kind(
        producer_id=producer,
        destination=where,
        message_id=MessageId(None, producer, number, 100 + number),
        persistent=True,
        response_required=True,
        timestamp=1_700_000_000_000 + number,
        **fields,
    )
    if properties:
        message.marshalled_properties = encode_map(properties)
    place = SimpleNamespace(destination=where)
    place.base = place
    return MessageReference(message, place)  # type: ignore[arg-type]


class Store:
    """An open store in a folder."""

    def __init__(self, adapter: KahaDBPersistenceAdapter) -> None:
        self.adapter = adapter

    async def send(self, where: Destination, *numbers: int, **fields: Any) -> list[Any]:
        store = self.of(where)
        references = [reference(n, where, **fields) for n in numbers]
        for each in references:
            await wait_for(store.add_message(OperationContext(), each))
            store.mark_visible(each)
        return references

    async def remove(self, where: Destination, *references: MessageReference) -> None:
        context = OperationContext(response_required=True)
        for each in references:
            await wait_for(self.of(where).remove_message(context, each))

    async def subscribe(self, topic: Topic, key: SubscriptionKey, selector: str | None) -> None:
        subscription = StoredSubscription(key, topic, selector)
        await wait_for(
            self.adapter.topic_message_store(topic).add_subscription(subscription, False)
        )

    async def acknowledge(self, topic: Topic, key: SubscriptionKey, each: Any) -> None:
        context = OperationContext(response_required=True)
        await wait_for(self.adapter.topic_message_store(topic).acknowledge(context, key, each))

    async def prepare(self, where: Destination, add: int, remove: MessageReference) -> None:
        xid = XATransactionId(7, b"global", b"branch")
        context = OperationContext(xid)
        self.of(where).add_message(context, reference(add, where))
        self.of(where).remove_message(context, remove)
        await wait_for(self.adapter.transaction_store().prepare(xid))

    def of(self, where: Destination) -> Any:
        if where.is_topic:
            return self.adapter.topic_message_store(where)
        return self.adapter.queue_message_store(where)


class Folder:
    """A folder with a store that is closed, except while `work` runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def adapter(self, **options: Any) -> KahaDBPersistenceAdapter:
        journal = JournalSettings(max_file_length=4096, preallocation_scope=PreallocationScope.NONE)
        return KahaDBPersistenceAdapter(
            self.path,
            KahaDBSettings(
                journal=journal,
                checkpoint_interval=0,
                cleanup_interval=0,
                cleanup_on_stop=False,
                fail_if_locked=True,
                **options,
            ),
        )

    def open(self, work: Callable[[Store], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            adapter = self.adapter()
            await adapter.start()
            try:
                return await work(Store(adapter))
            finally:
                await adapter.stop()

        return anyio.run(run)

    def index_files(self) -> list[Path]:
        return sorted(self.path.glob("pyjms-index.db*"))

    def contents(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.path.iterdir() if p.is_file()}


async def fill(store: Store) -> None:
    """Fill a store: several segments, a dead letter, subscriptions, a prepared transaction branch."""
    orders, news, dead = Queue("orders.new"), Topic("news"), Queue("ActiveMQ.DLQ")
    await store.send(dead, 1)
    first, second, *rest = await store.send(orders, *range(10, 40))
    await store.remove(orders, *rest[:-3])
    for key, selector in zip(SUBSCRIPTIONS, ("a = 1", None), strict=True):
        await store.subscribe(news, key, selector)
    sent = await store.send(news, 50, 51, 52)
    await store.acknowledge(news, SUBSCRIPTIONS[0], sent[0])
    await store.acknowledge(news, SUBSCRIPTIONS[1], sent[1])
    await store.send(
        orders,
        60,
        kind=ActiveMQBytesMessage,
        content=b"\x00\xff bytes",
        properties=PROPERTIES,
        correlation_id="c\u00e9",
        reply_to=TemporaryQueue("ID:x:1"),
        original_destination=Topic("VirtualTopic.a"),
        type="t",
        group_id="g",
        group_sequence=3,
        priority=7,
        expiration=4_000_000_000_000,
        user_id="someone",
        redelivery_counter=2,
        broker_in_time=5,
    )
    await store.prepare(orders, 70, second)
    assert first.position is not None


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The folder of a store that is not there yet: `<data>/kahadb`."""
    return Folder(tmp_path / "data" / "kahadb")


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The store that each test gets a copy of."""
    folder = Folder(tmp_path_factory.mktemp("filled") / "data" / "kahadb")
    folder.open(fill)
    return folder


@pytest.fixture
def filled(folder: Folder, filled_once: Folder) -> Folder:
    shutil.copytree(filled_once.path, folder.path)
    return folder


@pytest.fixture
def pyjms_broker() -> Callable[..., Any]:
    """Runs a command and returns its result."""
    return pyjms_broker_command
