"""Import from a message file into a store's directory, keeping ids, timestamps and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pyjms._ids import IdGenerator
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConnectionId, LocalTransactionId
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference, OperationContext, SubscriptionKey
from pyjms_broker.service.transfer.message_file import BadLine, FileMessage, FileSubscription
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.tools.rebuilding import offline_settings
from pyjms_broker.transaction.base import LocalTransaction

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination

__all__ = ["BATCH", "BATCH_BYTES", "Imported", "import_into_folder", "why_not_importable"]

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
    *,
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Imported:
    """Import a file's messages into a store, which is created if missing.

    The caller must hold the store lock. Messages whose id is already in the store are skipped, so
    a file can be imported again after an error. Existing subscriptions are not changed.

    Raises:
        ResourceAllocationException: the store cannot be opened or written.
        TransactionRolledBackException: writing a transaction failed.
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
