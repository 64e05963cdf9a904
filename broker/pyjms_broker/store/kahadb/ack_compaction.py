"""Compaction of acknowledgements: they are moved out of segments that hold nothing else.

A segment whose messages are all removed is kept as long as it acknowledges messages of older
segments that are kept: one old message that nobody consumes would keep all later segments. When
`compact_acks_after_no_gc` cleanups in a row have deleted nothing, the acknowledgements of the
oldest such segment are appended again, and the segment can be deleted. That writes little, because
a remove record is a fraction of the size of its message. While senders wait because the store has
reached its limit, this is done once a second, regardless of earlier cleanups. ActiveMQ does not do
that: its senders wait for ten cleanups, five minutes by default, for each segment.

An update (a message is marked as redelivered) and the message's previous record refer to each
other: a removal refers to the update, and without the update the message would come back. If the
message has been removed, a remove record also replaces the update. ActiveMQ does not compact such
segments, and therefore keeps most of the journal of a broker whose consumers occasionally fail.

A segment is not compacted if it also ends transactions or destinations that begin in older
segments, or has subscription records or updates in topics, because their order relative to other
records matters. Nor is it if one of the removed or updated message ids is in use again, because a
later remove record would remove that message, or if a message that was added in it now has its
record in another segment. One run reads a limited number of segments; the next run continues
behind them.
(activemq-persistence K18)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread

from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.kahadb.index import IndexEntry, TopicIndex
from pyjms_broker.store.kahadb.message_database import TOPIC_TYPES, MessageDatabase
from pyjms_broker.store.kahadb.records import (
    TRANSACTION,
    destination_field,
    parse_trace,
    remove_record,
)
from pyjms_broker.store.kahadb.settings import KahaDBSettings

logger = get_logger(__name__)

_MAX_TARGETS: Final = 16
"""The maximum number of segments read to find the beginning of a transaction."""
_MAX_READ: Final = 32
"""The maximum number of segments that one run reads."""
_NEVER_MOVED: Final = (KahaRemoveDestinationCommand, KahaSubscriptionCommand)


@dataclass(slots=True)
class Movable:
    """The effects of a segment that can be moved."""

    removes: list[KahaRemoveMessageCommand] = field(default_factory=list)
    added: list[tuple[KahaDestination, str]] = field(default_factory=list)
    """The messages that were added in the segment; none of them may still exist."""


class AckCompaction:
    """Counts cleanups that deleted nothing, and moves acknowledgements when that is due."""

    def __init__(self, db: MessageDatabase, settings: KahaDBSettings) -> None:
        self._db = db
        self._settings = settings
        self._without_gc = 0
        self._end = 0
        self._examined = 0
        """The last segment that was examined."""

    def note(self, *, freed: bool) -> None:
        """Record whether a cleanup deleted anything."""
        end = self._db.journal.segments()[-1:]
        grown = end != [self._end]
        self._end = end[0] if end else 0
        if freed or (grown and not self._settings.compact_acks_ignores_store_growth):
            self._without_gc = 0
        else:
            self._without_gc += 1

    def is_due(self, *, is_space_wanted: bool) -> bool:
        """Return whether space is wanted, or enough cleanups in a row have deleted nothing."""
        settings = self._settings
        return settings.enable_ack_compaction and (
            is_space_wanted or self._without_gc >= settings.compact_acks_after_no_gc
        )

    async def run(self, candidates: Iterable[int]) -> int | None:
        """Move the acknowledgements out of the first segment that allows it.

        Return its number: it can be deleted once the new records are durable. Return None if no
        examined segment allows it.
        """
        self._without_gc = 0
        db = self._db
        read = 0
        for file_id in sorted(candidates, key=lambda each: (each <= self._examined, each)):
            if read >= _MAX_READ:
                break
            self._examined = file_id
            targets = db.index.segments.targets(file_id) & set(db.journal.segments())
            earlier = sorted(target for target in targets if target < file_id)
            read += 1 + len(earlier)
            movable = await anyio.to_thread.run_sync(self._read, file_id, earlier)
            if movable is None or not self._is_allowed(movable, file_id):
                continue
            for remove in movable.removes:
                self._move(remove, file_id)
            logger.info(
                "Moved %d acknowledgements out of segment %d", len(movable.removes), file_id
            )
            return file_id
        return None

    def _move(self, remove: KahaRemoveMessageCommand, file_id: int) -> None:
        keys = [remove.subscription_key]
        index = self._db.index.lookup(remove.destination)
        if isinstance(index, TopicIndex) and index.find(remove.message_id) is None:
            # A retroactive subscription added in between would get the message in a replay.
            keys += [
                key
                for key, subscription in index.subscriptions.items()
                if subscription.file_id >= file_id and key != remove.subscription_key
            ]
        part = destination_field(remove.destination)
        segments = self._db.index.segments
        for key in keys:
            payload = remove_record(part, remove.message_id, key, ack=remove.ack)
            location = self._db.append(payload, lazy=True)
            for target in segments.targets(file_id):
                segments.add_reference(location.file_id, target)

    def _is_allowed(self, movable: Movable, file_id: int) -> bool:
        """Return whether moving the records would leave all existing messages unaffected."""
        return not self._ids_in_use(movable.removes, file_id) and not any(
            self._find(destination, message_id) for destination, message_id in movable.added
        )

    def _ids_in_use(self, removes: list[KahaRemoveMessageCommand], file_id: int) -> bool:
        """Return whether one of the message ids is in use again."""
        for remove in removes:
            entry = self._find(remove.destination, remove.message_id)
            if entry is not None and (remove.subscription_key is None or entry.file_id > file_id):
                return True
        return False

    def _find(self, destination: KahaDestination, message_id: str) -> IndexEntry | None:
        index = self._db.index.lookup(destination)
        return None if index is None else index.find(message_id)

    def _read(self, file_id: int, earlier: list[int]) -> Movable | None:
        begun: set[KahaTransactionInfo] = set()
        commands = self._commands(file_id)
        if any(isinstance(c, KahaCommitCommand | KahaRollbackCommand) for c in commands):
            if len(earlier) > _MAX_TARGETS:
                return None
            for target in earlier:
                begun |= {info for c in self._commands(target) if (info := _info(c)) is not None}
        return movable_acks(commands, begun)

    def _commands(self, file_id: int) -> list[KahaCommand]:
        found: list[KahaCommand] = []
        for record in self._db.journal.records_from(Location(file_id, 0)):
            if record.location.file_id != file_id:
                break
            found.append(decode_command(record.payload))
        return found


def movable_acks(
    commands: Iterable[KahaCommand], begun: set[KahaTransactionInfo]
) -> Movable | None:
    """Return the effects of a segment; None if some of them cannot be moved.

    `begun` contains the transactions that have records in older segments.
    """
    open_removes: dict[KahaTransactionInfo, list[KahaRemoveMessageCommand]] = {}
    movable = Movable()
    for command in commands:
        info = _info(command)
        if info is not None and info in begun:
            return None
        if isinstance(command, KahaAddMessageCommand):
            movable.added.append((command.destination, command.message_id))
        if isinstance(command, KahaCommitCommand):
            movable.removes += open_removes.pop(command.transaction_info, [])
        elif isinstance(command, KahaRollbackCommand):
            open_removes.pop(command.transaction_info, None)
        elif info is not None:
            removes = open_removes.setdefault(info, [])
            if isinstance(command, KahaRemoveMessageCommand):
                removes.append(command)
        elif isinstance(command, KahaRemoveMessageCommand):
            movable.removes.append(command)
        elif isinstance(command, KahaUpdateMessageCommand):
            message = command.message
            if message.transaction_info is not None or message.destination.type in TOPIC_TYPES:
                return None
            movable.removes.append(
                KahaRemoveMessageCommand(message.destination, message.message_id)
            )
        elif isinstance(command, _NEVER_MOVED) or _is_transaction_trace(command):
            return None
    return None if open_removes else movable


def _info(command: KahaCommand) -> KahaTransactionInfo | None:
    if isinstance(
        command,
        KahaAddMessageCommand
        | KahaRemoveMessageCommand
        | KahaPrepareCommand
        | KahaCommitCommand
        | KahaRollbackCommand,
    ):
        return command.transaction_info
    return None


def _is_transaction_trace(command: KahaCommand) -> bool:
    if not isinstance(command, KahaTraceCommand):
        return False
    trace = parse_trace(command.message)
    return trace is not None and trace.kind == TRANSACTION
