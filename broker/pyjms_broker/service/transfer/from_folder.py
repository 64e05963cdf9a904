"""From a store's folder to a message file. Reads only, through a snapshot. Blocks."""

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
    """What went into the file, and what could not."""

    destinations: int = 0
    problems: list[str] = field(default_factory=list)
    prepared: int = 0
    """Prepared transactions: what they add is not in the file, what they take is."""


def message_count(snapshot: Snapshot, wanted: Callable[[Destination], bool]) -> int:
    """Return how many messages the wanted destinations have."""
    return sum(destination.count for _, destination in _wanted(snapshot, wanted))


def export_folder(
    folder: Path,
    snapshot: Snapshot,
    writer: MessageFileWriter,
    *,
    wanted: Callable[[Destination], bool],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Exported:
    """Write what the wanted destinations have, each in its order.

    Raises:
        OSError: the journal cannot be read, or the file not written to.
    """
    found = Exported()
    files = JournalFiles(folder)
    for destination, part in _wanted(snapshot, wanted):
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
                    place = f"{segment_name(entry.file_id)}:{entry.offset}"
                    found.problems.append(f"{place}: {entry.message_id} of {destination}: {error}")
            after = page[-1].position
            on_messages(len(page))
    found.prepared = _prepared(snapshot, wanted)
    return found


def _wanted(
    snapshot: Snapshot, wanted: Callable[[Destination], bool]
) -> list[tuple[Destination, DestinationIndex]]:
    parts = [(from_kaha_destination(d.destination), d) for d in snapshot.index.destinations()]
    return sorted((pair for pair in parts if wanted(pair[0])), key=lambda pair: str(pair[0]))


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


def _prepared(snapshot: Snapshot, wanted: Callable[[Destination], bool]) -> int:
    """Return how many prepared transactions add or take messages of wanted destinations."""
    return sum(
        transaction.prepared
        and any(
            wanted(from_kaha_destination(operation.destination))
            for operation in transaction.operations
        )
        for transaction in snapshot.replay.transactions.values()
    )
