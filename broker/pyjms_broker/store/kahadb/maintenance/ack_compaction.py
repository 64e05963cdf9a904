"""Moves acknowledgements out of segments that hold nothing else.

A segment whose messages are all removed stays as long as older segments do whose messages it
acknowledges: one old message that nobody consumes would keep the whole journal since. When
`compact_acks_after_no_gc` cleanups in a row have deleted nothing, the acknowledgements of the
oldest such segment are appended again, and it can be deleted. That writes little: a remove
record is a fraction of its message.

A segment is left alone if it also ends transactions or destinations that older segments begin,
or has subscription or update records: their order against other records matters. So it is if one
of the removed message ids is in use again, since a later remove record would remove the new
message. (activemq-persistence K18)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio.to_thread

from pyjms._logger import get_logger
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaPrepareCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaCommand, KahaTransactionInfo
from pyjms_broker.store.kahadb.index import TopicIndex
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import destination_field, remove_record
from pyjms_broker.store.kahadb.settings import KahaDBSettings

from pyjms_broker.store.kahadb.trace_records import TRANSACTION, parse_trace  # isort: skip

__all__ = ["AckCompaction", "movable_acks"]

logger = get_logger(__name__)

_MAX_TARGETS: Final = 16
"""How many segments are read to find out where a transaction began."""
_NEVER_MOVED: Final = (
    KahaRemoveDestinationCommand,
    KahaSubscriptionCommand,
    KahaUpdateMessageCommand,
)


class AckCompaction:
    """Counts the cleanups that deleted nothing, and moves acknowledgements when it is due."""

    def __init__(self, db: MessageDatabase, settings: KahaDBSettings) -> None:
        self._db = db
        self._settings = settings
        self._without_gc = 0
        self._end = 0

    def note(self, *, freed: bool) -> None:
        """Record whether a cleanup deleted anything."""
        end = self._db.journal.segments()[-1:]
        grown = end != [self._end]
        self._end = end[0] if end else 0
        if freed or (grown and not self._settings.compact_acks_ignores_store_growth):
            self._without_gc = 0
        else:
            self._without_gc += 1

    def is_due(self) -> bool:
        """Return whether enough cleanups in a row have deleted nothing."""
        settings = self._settings
        return (
            settings.enable_ack_compaction and self._without_gc >= settings.compact_acks_after_no_gc
        )

    async def run(self, candidates: Iterable[int]) -> int | None:
        """Move the acknowledgements of the first of the segments that allows it.

        Returns its number: it can be deleted once the new records are durable. None: no segment
        allows it.
        """
        self._without_gc = 0
        for file_id in candidates:
            db = self._db
            targets = sorted(db.index.segments.targets(file_id) & set(db.journal.segments()))
            removes = await anyio.to_thread.run_sync(self._read, file_id, targets)
            if removes is None or self._ids_in_use(removes, file_id):
                continue
            for remove in removes:
                self._move(remove, file_id)
            logger.info("Moved %d acknowledgements out of segment %d", len(removes), file_id)
            return file_id
        return None

    def _move(self, remove: KahaRemoveMessageCommand, file_id: int) -> None:
        keys = [remove.subscription_key]
        index = self._db.index.lookup(remove.destination)
        if isinstance(index, TopicIndex) and index.find(remove.message_id) is None:
            # A retroactive subscription added in between did not get it, but would in a replay.
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

    def _ids_in_use(self, removes: list[KahaRemoveMessageCommand], file_id: int) -> bool:
        """Return whether one of the message ids is in use again."""
        for remove in removes:
            index = self._db.index.lookup(remove.destination)
            entry = None if index is None else index.find(remove.message_id)
            if entry is not None and (remove.subscription_key is None or entry.file_id > file_id):
                return True
        return False

    def _read(self, file_id: int, targets: list[int]) -> list[KahaRemoveMessageCommand] | None:
        begun: set[KahaTransactionInfo] = set()
        commands = self._commands(file_id)
        if any(isinstance(c, KahaCommitCommand | KahaRollbackCommand) for c in commands):
            if len(targets) > _MAX_TARGETS:
                return None
            for target in targets:
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
) -> list[KahaRemoveMessageCommand] | None:
    """Return the effective remove commands of a segment; None: it has other effects, too.

    `begun` are the transactions that have records in older segments.
    """
    open_removes: dict[KahaTransactionInfo, list[KahaRemoveMessageCommand]] = {}
    found: list[KahaRemoveMessageCommand] = []
    for command in commands:
        info = _info(command)
        if info is not None and info in begun:
            return None
        if isinstance(command, KahaCommitCommand):
            found += open_removes.pop(command.transaction_info, [])
        elif isinstance(command, KahaRollbackCommand):
            open_removes.pop(command.transaction_info, None)
        elif info is not None:
            removes = open_removes.setdefault(info, [])
            if isinstance(command, KahaRemoveMessageCommand):
                removes.append(command)
        elif isinstance(command, KahaRemoveMessageCommand):
            found.append(command)
        elif isinstance(command, _NEVER_MOVED) or _is_transaction_trace(command):
            return None
    return None if open_removes else found


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
