"""The batch source `jms-journal`: the records of journal files, or their pending messages.

Its options are in `pyjms.spark.options`. `columns` names those that are decoded, since Spark does
not tell a Python source which ones a query needs. Nor are filters taken from queries: Spark 4.3
applies that of the first use of a `load()` to all later uses of the frame, even to those without
one; so options filter. Torn and damaged parts are skipped. (spark-pipeline 3.4, 5 C)

The files of a journal, including its archive, are divided among tasks. Nothing is locked or
written, as the folder may be in use by a running broker. A file that the broker deletes between
planning and reading is reported as missing. (spark-pipeline 5 C; activemq-persistence K19, K27)

Pending messages are those added and not removed. The records of a transaction, local or prepared,
take effect with its commit; those of a transaction that was never committed have none. A message on
a topic is pending for each durable subscription that has not acknowledged it. (activemq-persistence
K15, K22, K31)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyjms.errors import ConfigurationException, nearest_name
from pyjms.spark.options import read_journal_options
from pyjms.spark.rows import MESSAGE_COLUMNS, Columns, arrow_schema, message_batch, warn_of_damage
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION
from pyjms.wire.kahadb.journal import Location, segment_name, segment_number
from pyjms.wire.kahadb.record_columns import (
    ADD,
    RecordColumns,
    RecordFields,
    decode_transaction,
    destination_text,
)
from pyjms.wire.kahadb.segments import (
    JournalRecord,
    SegmentReader,
    Skipped,
    read_located,
    read_record,
)
from pyjms.wire.openwire.message_columns import MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa


_ARCHIVE = "data-archive"


class Segment(NamedTuple):
    """A journal file: its path, its number, its size in bytes, and where to start in it."""

    path: str
    file_id: int
    size: int
    start: int = 0


class Slice(NamedTuple):
    """The records of a segment that start in the range from `start` to before `end`."""

    path: str
    file_id: int
    start: int
    end: int


def segments(folders: Iterable[str]) -> list[Segment]:
    """Return the journal files of folders, of `kahadb` below them and of archives, by number.

    A file that is in a folder and also in its archive counts once.
    """
    found: dict[tuple[str, int], Segment] = {}
    for name in folders:
        home = Path(name)
        if not home.is_dir():
            raise ConfigurationException(
                f"jms-journal: {home} is not a folder",
                hint="set option path to the folder with the files db-N.log",
            )
        if not any(_files(home)) and (home / "kahadb").is_dir():
            home = home / "kahadb"
        files = [*_files(home / _ARCHIVE), *_files(home)]
        if not files:
            raise ConfigurationException(
                f"jms-journal: {home} contains no db-N.log",
                hint="set option path to a KahaDB folder, or the data folder above it",
            )
        for segment in files:
            found[str(home), segment.file_id] = segment
    return [found[key] for key in sorted(found)]


def slices(found: Iterable[Segment], bytes_each: int) -> list[Slice]:
    """Divide the segments into slices of at most `bytes_each`, none across two segments."""
    return [
        Slice(segment.path, segment.file_id, start, min(start + bytes_each, segment.size))
        for segment in found
        for start in range(segment.start, segment.size, bytes_each)
    ]


def _between(
    found: Iterable[Segment], start: tuple[int, int] | None, end: tuple[int, int] | None
) -> Iterator[Segment]:
    """Yield the segments, or their parts, from one location to before another."""
    for segment in found:
        low = 0 if start is None or segment.file_id > start[0] else start[1]
        high = segment.size if end is None or segment.file_id < end[0] else end[1]
        is_inside = (start is None or segment.file_id >= start[0]) and (
            end is None or segment.file_id <= end[0]
        )
        if is_inside and low < min(high, segment.size):
            yield segment._replace(start=low, size=min(high, segment.size))


def read_slice(part: Slice, skipped: list[Skipped] | None = None) -> Iterator[JournalRecord]:
    """Yield the records of a slice; torn and damaged parts are skipped and added to `skipped`."""
    for data, base, offsets in read_batches(part, skipped):
        for offset in offsets:
            record = read_record(data, Location(part.file_id, offset - base))
            yield JournalRecord(Location(part.file_id, offset), record.payload)


def read_batches(
    part: Slice, skipped: list[Skipped] | None = None
) -> Iterator[tuple[bytes, int, Sequence[int]]]:
    """Yield the batches of a slice: bytes, their offset, and those of the slice's records in them.

    Raises:
        FileNotFoundError: the file was deleted.
        OSError: it cannot be read.
    """
    with Path(part.path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        reader = SegmentReader(data, part.file_id, start=part.start)
        try:
            for batch in reader.batches():
                base, offsets = batch.location.offset, batch.offsets
                if base >= part.end:
                    break
                low = bisect_left(offsets, part.start)
                high = bisect_left(offsets, part.end)
                if low < high:
                    yield data[base : batch.end], base, offsets[low:high]
        finally:
            reader.release()
        if skipped is not None:
            skipped += reader.skipped


def _files(folder: Path) -> Iterator[Segment]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        number = segment_number(path.name)
        if number is None or path.name != segment_name(number):
            continue
        size = path.stat().st_size
        if size:
            yield Segment(str(path), number, size)


RECORDS: Final = (
    ("file_id", "int"),
    ("offset", "long"),
    ("size", "int"),
    ("command", "string"),
    ("transaction", "string"),
    ("subscription", "string"),
    ("error", "string"),
    *MESSAGE_COLUMNS,
)
"""The columns of `view=records`; `error` says why a record or its message could not be read."""
MESSAGES: Final = (("subscription", "string"), *MESSAGE_COLUMNS)
"""The columns of `view=messages`; a message of a topic has a row per subscription."""


class RecordFilter(NamedTuple):
    """The records to read; None: all. Times are in microseconds, both inclusive."""

    commands: frozenset[str] | None = None
    destinations: frozenset[str] | None = None
    earliest: int | None = None
    latest: int | None = None


ALL: Final = RecordFilter()


_TOPICS: Final = ("topic://", "temp-topic://")
_KEPT_TRANSACTIONS: Final = 1024


class Pending(NamedTuple):
    """A message that was not consumed: the location of its record, and its subscription."""

    location: Location
    subscription: str | None


class _Operation(NamedTuple):
    """An add or a remove; its destination is a text, of which there is one for all records."""

    location: Location
    is_add: bool
    destination: str
    message_id: str
    subscription: str | None


class PendingMessages:
    """Replays all records in their order and yields the pending messages. Not thread-safe."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, Location]] = {}
        self._waiting: dict[str, dict[str, dict[str, None]]] = {}
        self._open: dict[KahaTransactionInfo, list[_Operation]] = {}
        self._transactions: dict[bytes, KahaTransactionInfo] = {}
        self._fields = RecordFields()

    def feed(self, records: Iterable[JournalRecord]) -> None:
        """Apply records."""
        fields = self._fields
        for location, payload in records:
            if fields.read(payload, 0, len(payload)):
                name = str(fields.found_id, "ascii")
                self._apply(
                    _Operation(
                        location,
                        payload[0] == ADD,
                        fields.found_destination,
                        name,
                        fields.found_key,
                    ),
                    None if fields.found_transaction is None else self._transaction(fields),
                )
            else:
                self._apply_command(location, decode_command(payload))

    def __iter__(self) -> Iterator[Pending]:
        for destination, messages in self._messages.items():
            waiting = self._waiting.get(destination)
            if not destination.startswith(_TOPICS):
                for location in messages.values():
                    yield Pending(location, None)
            elif waiting:
                for subscription, names in waiting.items():
                    for name in names:
                        yield Pending(messages[name], subscription)

    def _apply_command(self, location: Location, command: KahaCommand) -> None:
        """Apply a command other than the usual adds and removes."""
        destination = destination_text(command) or ""
        match command:
            case KahaAddMessageCommand(message_id=name, transaction_info=transaction):
                self._apply(_Operation(location, True, destination, name, None), transaction)
            case KahaRemoveMessageCommand(
                message_id=name, subscription_key=key, transaction_info=transaction
            ):
                self._apply(_Operation(location, False, destination, name, key), transaction)
            case KahaUpdateMessageCommand(message=updated):
                messages = self._messages.get(destination, {})
                if updated.message_id in messages:
                    messages[updated.message_id] = location
            case KahaCommitCommand(transaction_info=transaction):
                for operation in self._open.pop(transaction, ()):
                    self._apply(operation, None)
            case KahaRollbackCommand(transaction_info=transaction):
                self._open.pop(transaction, None)
            case KahaRemoveDestinationCommand():
                self._messages.pop(destination, None)
                self._waiting.pop(destination, None)
            case KahaSubscriptionCommand():
                self._subscribe(destination, command)

    def _transaction(self, fields: RecordFields) -> KahaTransactionInfo:
        key = fields.transaction_field
        found = self._transactions.get(key)
        if found is None:
            if len(self._transactions) >= _KEPT_TRANSACTIONS:
                self._transactions.clear()
            found = self._transactions[key] = decode_transaction(key)
        return found

    def _apply(self, operation: _Operation, transaction: KahaTransactionInfo | None) -> None:
        if transaction is not None:
            self._open.setdefault(transaction, []).append(operation)
        elif operation.is_add:
            self._add(operation)
        else:
            self._remove(operation)

    def _add(self, operation: _Operation) -> None:
        destination = operation.destination
        if destination.startswith(_TOPICS):
            waiting = self._waiting.get(destination)
            if not waiting:
                return
            for names in waiting.values():
                names[operation.message_id] = None
        self._messages.setdefault(destination, {})[operation.message_id] = operation.location

    def _remove(self, operation: _Operation) -> None:
        name = operation.message_id
        waiting = self._waiting.get(operation.destination)
        if operation.subscription is not None and waiting is not None:
            waiting.get(operation.subscription, {}).pop(name, None)
            if any(name in names for names in waiting.values()):
                return
        self._messages.get(operation.destination, {}).pop(name, None)

    def _subscribe(self, destination: str, command: KahaSubscriptionCommand) -> None:
        waiting = self._waiting.setdefault(destination, {})
        messages = self._messages.get(destination, {})
        if command.subscription_info is None:
            for name in waiting.pop(command.subscription_key, {}):
                if not any(name in names for names in waiting.values()):
                    messages.pop(name, None)
        elif command.subscription_key not in waiting:
            initial = messages if command.retroactive else {}
            waiting[command.subscription_key] = dict.fromkeys(initial)


_ROWS_PER_BATCH: Final = 2000
_PARTITION_BYTES: Final = 8 * 1024 * 1024
_MESSAGES_PER_PARTITION: Final = 20_000
_VIEWS: Final = {"records": RECORDS, "messages": MESSAGES}


class JournalOptions(NamedTuple):
    """The options of the format."""

    folders: tuple[str, ...]
    view: str
    columns: Columns
    partition_bytes: int
    version: int
    record_filter: RecordFilter = ALL
    start: tuple[int, int] | None = None
    """The file and offset of the first record; None: the first there is."""
    end: tuple[int, int] | None = None
    """The file and offset before which the records end."""


class SlicePartition(InputPartition):
    """A task's share of the records."""

    def __init__(self, part: Slice) -> None:
        super().__init__(part)
        self.part = part


class PendingPartition(InputPartition):
    """A task's share of the pending messages: the file and location of each record."""

    def __init__(self, messages: Sequence[tuple[str, Pending]]) -> None:
        super().__init__(len(messages))
        self.messages = messages


def reader_of(options: Mapping[str, str]) -> DataSourceReader:
    """Return the reader of a view."""
    settings = read_options(options)
    if settings.view == "messages":
        return MessagesReader(settings)
    return RecordsReader(settings)


class RecordsReader(DataSourceReader):
    """Reads one row per record."""

    def __init__(self, settings: JournalOptions) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        settings = self._settings
        found = _between(segments(settings.folders), settings.start, settings.end)
        return [SlicePartition(part) for part in slices(found, settings.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SlicePartition)
        settings, wanted = self._settings, self._settings.record_filter
        names = [name for name, _ in settings.columns]
        messages = MessageColumns(names, None, wanted.earliest, wanted.latest)
        columns = RecordColumns(
            names, messages, settings.version, wanted.commands, wanted.destinations
        )
        schema = arrow_schema(settings.columns)
        columns.file_id = partition.part.file_id
        for data, base, offsets in read_batches(partition.part):
            at = 0
            while at < len(offsets):
                room = _ROWS_PER_BATCH - messages.count
                columns.add_records(data, base, offsets[at : at + room])
                at += room
                if messages.count >= _ROWS_PER_BATCH:
                    yield message_batch(messages, schema, columns.take())
        if messages.count:
            yield message_batch(messages, schema, columns.take())


class MessagesReader(DataSourceReader):
    """Reads one row per pending message. The driver reads the whole journal once for it."""

    def __init__(self, settings: JournalOptions) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        found = segments(self._settings.folders)
        if len(self._settings.folders) > 1 and len({s.file_id for s in found}) < len(found):
            raise ConfigurationException(
                "jms-journal: view=messages reads one journal at a time, but path names several",
                hint="load each folder by itself and combine them with union",
            )
        pending = PendingMessages()
        paths = {}
        for segment in found:
            paths[segment.file_id] = segment.path
            pending.feed(read_slice(Slice(segment.path, segment.file_id, 0, segment.size)))
        pending_messages = sorted(
            ((paths[p.location.file_id], p) for p in pending), key=lambda x: x[1].location
        )
        return [
            PendingPartition(pending_messages[at : at + _MESSAGES_PER_PARTITION])
            for at in range(0, len(pending_messages), _MESSAGES_PER_PARTITION)
        ] or [PendingPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PendingPartition)
        settings, wanted = self._settings, self._settings.record_filter
        if wanted.commands is not None and "addMessage" not in wanted.commands:
            return
        names = [name for name, _ in settings.columns]
        messages = MessageColumns(
            names, warn_of_damage, wanted.earliest, wanted.latest, wanted.destinations
        )
        columns = RecordColumns(names, messages, settings.version)
        schema = arrow_schema(settings.columns)
        located = partition.messages
        records = read_located((path, pending.location) for path, pending in located)
        for (_, pending), record in zip(located, records, strict=True):
            columns.add_pending(record.payload, pending.subscription)
            if messages.count == _ROWS_PER_BATCH:
                yield message_batch(messages, schema, columns.take())
        if messages.count:
            yield message_batch(messages, schema, columns.take())


def read_options(options: Mapping[str, str]) -> JournalOptions:
    """Read the options."""
    given = read_journal_options(options)
    view = given.get("view", "records")
    wanted = (given.get(name) for name in ("commands", "destinations", "earliest", "latest"))
    return JournalOptions(
        given["folders"],
        view,
        _columns(given.get("columns", ""), _VIEWS[view]),
        given.get("partition_bytes", _PARTITION_BYTES),
        given.get("version", STORE_OPENWIRE_VERSION),
        RecordFilter(*wanted),
        given.get("start"),
        given.get("end"),
    )


def _columns(text: str, known: Columns) -> Columns:
    """Return the columns that are named, in the order given; all if none is."""
    kinds = dict(known)
    chosen: dict[str, str] = {}
    for name in filter(None, map(str.strip, text.split(","))):
        if name not in kinds:
            near = nearest_name(name, kinds)
            raise ConfigurationException(
                f"jms-journal: option columns names {name}, which is not a column of this view",
                hint=f"did you mean {near}?" if near else f"the columns are {', '.join(kinds)}",
            )
        chosen[name] = kinds[name]
    return tuple(chosen.items()) or known
