"""The work of `export` and `import`: between a message file and a store's directory or a broker.

A directory is exported through a read-only snapshot. An import into a directory keeps ids,
timestamps and headers; a running broker is browsed and sent to by a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from pyjms.client.factory import ConnectionFactory
from pyjms.client.messages import command_of, from_command
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.ids import IdGenerator
from pyjms.wire.kahadb.frames import decode_subscription_info, from_kaha_destination
from pyjms.wire.kahadb.journal import segment_name
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference, OperationContext, SubscriptionKey
from pyjms_broker.cli.message_file import BadLine, FileMessage, FileSubscription, MessageFileWriter
from pyjms_broker.filters.transactions import LocalTransaction
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, TopicIndex
from pyjms_broker.store.kahadb.tools.journal_directory import Snapshot, offline_settings

_PAGE: Final = 1000


@dataclass
class Exported:
    """The result of an export."""

    destinations: int = 0
    problems: list[str] = field(default_factory=list)
    prepared: int = 0
    """Prepared transactions; the file has the messages they acknowledge, not those they add."""


def message_count(snapshot: Snapshot, is_selected: Callable[[Destination], bool]) -> int:
    """Return the number of messages in the selected destinations."""
    return sum(destination.count for _, destination in _select(snapshot, is_selected))


def export_folder(
    folder: Path,
    snapshot: Snapshot,
    writer: MessageFileWriter,
    *,
    is_selected: Callable[[Destination], bool],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Exported:
    """Write the messages of the selected destinations, each in arrival order."""
    found = Exported()
    files = JournalFiles(folder)
    for destination, part in _select(snapshot, is_selected):
        found.destinations += 1
        keys = _write_subscriptions(snapshot, writer, destination, part)
        after = None
        while page := part.page(after, _PAGE):
            for entry in page:
                try:
                    message = snapshot.format.stored_message(files.read(entry.location).payload)
                    message.destination = destination
                    writer.message(message, _pending(part, entry, keys))
                except JMSException as error:
                    location = f"{segment_name(entry.file_id)}:{entry.offset}"
                    found.problems.append(
                        f"{location}: {entry.message_id} of {destination}: {error}"
                    )
            after = page[-1].position
            on_messages(len(page))
    found.prepared = _count_prepared(snapshot, is_selected)
    return found


def _select(
    snapshot: Snapshot, is_selected: Callable[[Destination], bool]
) -> list[tuple[Destination, DestinationIndex]]:
    parts = [(from_kaha_destination(d.destination), d) for d in snapshot.index.destinations()]
    return sorted((pair for pair in parts if is_selected(pair[0])), key=lambda pair: str(pair[0]))


def _write_subscriptions(
    snapshot: Snapshot, writer: MessageFileWriter, topic: Destination, part: DestinationIndex
) -> dict[str, SubscriptionKey]:
    """Write a topic's durable subscriptions; return their names by the journal's keys."""
    keys: dict[str, SubscriptionKey] = {}
    if isinstance(part, TopicIndex):
        for text, known in sorted(part.subscriptions.items()):
            info = decode_subscription_info(known.info, snapshot.format.version)
            key = SubscriptionKey(info.client_id or "", info.subscription_name or "")
            destination = info.subscribed_destination or info.destination or topic
            subscription = StoredSubscription(key, destination, info.selector, info.no_local)
            writer.subscription(topic, subscription)
            keys[text] = key
    return keys


def _pending(
    part: DestinationIndex, entry: IndexEntry, keys: dict[str, SubscriptionKey]
) -> list[SubscriptionKey] | None:
    if not isinstance(part, TopicIndex):
        return None
    return [key for text, key in keys.items() if part.is_pending(text, entry.position)]


def _count_prepared(snapshot: Snapshot, is_selected: Callable[[Destination], bool]) -> int:
    """Return the number of prepared transactions that affect the selected destinations."""
    return sum(
        transaction.prepared
        and any(
            is_selected(from_kaha_destination(operation.destination))
            for operation in transaction.operations
        )
        for transaction in snapshot.replay.transactions.values()
    )


BATCH: Final = 1000
"""Maximum number of messages in a transaction."""
BATCH_BYTES: Final = 16 << 20
"""Total message size above which a transaction is committed."""


@dataclass
class Imported:
    """The result of an import."""

    messages: int = 0
    subscriptions: int = 0
    duplicates: int = 0
    """Messages whose id is already in the store."""
    unwanted: int = 0
    """Messages of topics without a durable subscription, which nobody would receive."""
    expired: int = 0
    problems: list[BadLine] = field(default_factory=list)


class _NamedDestination:
    """The destination of an imported message; stores need only its name."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.base = self


class _Batch:
    """One transaction of the import."""

    def __init__(self, adapter: KahaDBPersistenceAdapter, number: int, connection: str) -> None:
        self.references: list[MessageReference] = []
        self._size = 0
        self._adapter = adapter
        xid = LocalTransactionId(number, ConnectionId(connection))
        store = adapter.transaction_store()
        self._transaction = LocalTransaction(xid, store, lambda _transaction: None)
        self._context = OperationContext(xid)

    @property
    def is_full(self) -> bool:
        """Whether the batch should be committed."""
        return len(self.references) >= BATCH or self._size >= BATCH_BYTES

    def add(self, found: FileMessage, known: Iterable[SubscriptionKey]) -> None:
        """Add a message; `known` subscriptions not listed in it have acknowledged it."""
        message = found.message
        destination = message.destination
        assert destination is not None, "every message in a file has one"
        message.persistent = True
        message.response_required = True
        named = cast("BrokerDestination", _NamedDestination(destination))
        reference = MessageReference(message, named)
        self.references.append(reference)
        self._size += reference.size
        if not destination.is_topic:
            queue = self._adapter.queue_message_store(destination)
            queue.add_message(self._context, reference)
            return
        topic = self._adapter.topic_message_store(destination)
        topic.add_message(self._context, reference)
        if found.subscriptions is not None:
            for key in known:
                if key not in found.subscriptions:
                    topic.acknowledge(self._context, key, reference)

    async def commit(self, found: Imported) -> None:
        await wait_for(self._transaction.commit(one_phase=True))
        for reference in self.references:
            position = reference.position
            if position is None:
                found.duplicates += 1
            elif position.arrival:
                found.messages += 1
            else:
                found.unwanted += 1


async def import_into_folder(
    folder: Path,
    lines: Iterable[FileMessage | FileSubscription | BadLine],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Imported:
    """Import a file's messages into a store, which is created if missing.

    The caller must hold the store lock. Messages whose id is already in the store are skipped, so
    a file can be imported again after an error. Existing subscriptions are not changed.
    """
    adapter = KahaDBPersistenceAdapter(folder, offline_settings(folder))
    await adapter.start()
    try:
        return await _import(adapter, lines, on_messages)
    finally:
        await adapter.stop()


async def _import(
    adapter: KahaDBPersistenceAdapter,
    lines: Iterable[FileMessage | FileSubscription | BadLine],
    on_messages: Callable[[int], None],
) -> Imported:
    found = Imported()
    connection = IdGenerator().generate()
    known: dict[Destination, list[SubscriptionKey]] = {}
    number = 1
    batch = _Batch(adapter, number, connection)
    for line in lines:
        if isinstance(line, BadLine):
            found.problems.append(line)
        elif isinstance(line, FileSubscription):
            known.setdefault(line.topic, []).append(line.subscription.key)
            found.subscriptions += await _subscribe(adapter, line)
        elif (reason := why_not_importable(line)) is not None:
            found.problems.append(BadLine(line.line, reason))
        else:
            assert line.message.destination is not None, "every message in a file has one"
            batch.add(line, known.get(line.message.destination, ()))
            if batch.is_full:
                await batch.commit(found)
                on_messages(len(batch.references))
                number += 1
                batch = _Batch(adapter, number, connection)
    await batch.commit(found)
    on_messages(len(batch.references))
    return found


async def _subscribe(adapter: KahaDBPersistenceAdapter, line: FileSubscription) -> int:
    store = adapter.topic_message_store(line.topic)
    if store.lookup_subscription(line.subscription.key) is not None:
        return 0
    await wait_for(store.add_subscription(line.subscription, retroactive=False))
    return 1


def why_not_importable(line: FileMessage) -> str | None:
    """Return the reason why a message cannot be sent to its destination; None if it can."""
    destination = line.message.destination
    if destination is None or destination.is_temporary:
        return f"destination: {destination} is temporary: it was deleted with its connection"
    if destination.is_pattern or destination.is_composite:
        return f"destination: {destination} is not a single destination"
    return None


async def export_broker(
    factory: ConnectionFactory,
    queues: Sequence[Queue],
    writer: MessageFileWriter,
    on_messages: Callable[[int], None] = lambda _count: None,
) -> list[str]:
    """Browse the queues, which may be patterns, and write their messages.

    Returns the problems of messages that could not be written. A browser may return only part of a
    long queue (max_browse_page_size, in ActiveMQ maxBrowsePageSize).
    """
    problems: list[str] = []
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        for number, queue in enumerate(queues):
            browser = await session.create_browser(queue)
            async for message in browser:
                command = command_of(message)
                where = command.destination
                if where is None or any(matches(before, where) for before in queues[:number]):
                    continue
                try:
                    writer.message(command)
                except JMSException as error:
                    problems.append(f"{command.message_id} of {where}: {error}")
                on_messages(1)
            await browser.close()
    return problems


async def import_into_broker(
    factory: ConnectionFactory,
    lines: Iterable[FileMessage | FileSubscription | BadLine],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Imported:
    """Send a file's messages as persistent ones in transactions, and create its subscriptions.

    The messages get new ids and timestamps but keep their remaining time to live; expired ones are
    skipped.
    """
    found = Imported()
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await factory.create_connection())
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer()
        count = size = 0
        for line in lines:
            if isinstance(line, BadLine):
                found.problems.append(line)
                continue
            if isinstance(line, FileSubscription):
                await _remote_subscribe(factory, line, found)
                continue
            message = line.message
            reason = why_not_importable(line)
            remaining = message.expiration - _clock.time_ms() if message.expiration > 0 else 0
            if reason is not None:
                found.problems.append(BadLine(line.line, reason))
                continue
            if message.expiration > 0 and remaining <= 0:
                found.expired += 1
                continue
            await producer.send(
                from_command(message),
                destination=message.destination,
                delivery_mode=DeliveryMode.PERSISTENT,
                priority=message.priority,
                time_to_live=remaining / 1000,
            )
            count += 1
            size += len(message.content or b"") + len(message.marshalled_properties or b"")
            if count >= BATCH or size >= BATCH_BYTES:
                await session.commit()
                found.messages += count
                on_messages(count)
                count = size = 0
        await session.commit()
        found.messages += count
        on_messages(count)
    return found


async def _remote_subscribe(
    factory: ConnectionFactory, line: FileSubscription, found: Imported
) -> None:
    """Create a durable subscription without consuming messages."""
    subscription = line.subscription
    topic = subscription.destination
    assert isinstance(topic, Topic), "durable subscriptions exist only on topics"
    try:
        async with await factory.create_connection() as connection:
            await connection.set_client_id(subscription.key.client_id)
            session = await connection.create_session()
            consumer = await session.create_durable_subscriber(
                topic,
                subscription.key.subscription_name,
                subscription.selector,
                no_local=subscription.no_local,
            )
            await consumer.close()
    except JMSException as error:
        found.problems.append(BadLine(line.line, str(error)))
    else:
        found.subscriptions += 1
