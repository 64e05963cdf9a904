"""Export from a store's directory to a message file: read-only, through a snapshot; blocking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.files import JournalFiles
from pyjms.wire.kahadb.frames import decode_subscription_info, from_kaha_destination
from pyjms.wire.kahadb.journal import segment_name
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.service.transfer.message_file import MessageFileWriter
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.kahadb.index import DestinationIndex, IndexEntry, TopicIndex
from pyjms_broker.store.kahadb.tools.snapshot import Snapshot

__all__ = ["Exported", "export_folder", "message_count"]

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
    return sum(destination.count for _, destination in _selected(snapshot, is_selected))


def export_folder(
    folder: Path,
    snapshot: Snapshot,
    writer: MessageFileWriter,
    *,
    is_selected: Callable[[Destination], bool],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Exported:
    """Write the messages of the selected destinations, each in arrival order.

    Raises:
        OSError: the journal cannot be read, or the file cannot be written.
    """
    found = Exported()
    files = JournalFiles(folder)
    for destination, part in _selected(snapshot, is_selected):
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
    found.prepared = _prepared(snapshot, is_selected)
    return found


def _selected(
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


def _prepared(snapshot: Snapshot, is_selected: Callable[[Destination], bool]) -> int:
    """Return the number of prepared transactions that affect the selected destinations."""
    return sum(
        transaction.prepared
        and any(
            is_selected(from_kaha_destination(operation.destination))
            for operation in transaction.operations
        )
        for transaction in snapshot.replay.transactions.values()
    )
