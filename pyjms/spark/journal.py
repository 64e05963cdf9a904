"""The batch source `jms-journal`: the records of journal files, or their pending messages.

Options: `path` (folders, separated by commas: KahaDB's, or a data folder above it), `view`
(`records` or `messages`), `destination`, `command` (names, separated by commas), `since`, `until`,
`partitionBytes` (the size of a task's share), `storeOpenWireVersion`, `pushdown` (`true` requires
`spark.sql.python.filterPushdown.enabled`, which `spark_session` sets). Torn and damaged parts are
skipped. (spark-pipeline 3.4, 5 C)

Spark 4.3 applies the filter of the first use of a `load()` to all later uses of the same frame,
even to those without a filter; so `pushdown` is for a frame that is used once. The options that
filter are not affected.

The files of a journal, including its archive, are divided among tasks. Nothing is locked or
written, as the folder may be in use by a running broker. A file that the broker deletes between
planning and reading is reported as missing. (spark-pipeline 5 C; activemq-persistence K19, K27)

Pending messages are those added and not removed. The records of a transaction, local or prepared,
take effect with its commit; those of a transaction that was never committed have none. A message on
a topic is pending for each durable subscription that has not acknowledged it. (activemq-persistence
K15, K22, K31)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyjms.errors import ConfigurationException, JMSException
from pyjms.spark.rows import (
    MESSAGE_COLUMNS,
    arrow_batch,
    arrow_schema,
    ddl,
    message_values,
    tolerant_values,
)
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import (
    DestinationType,
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import (
    STORE_OPENWIRE_VERSION,
    decode_message,
    from_kaha_destination,
    from_transaction_info,
)
from pyjms.wire.kahadb.journal import Location, segment_name, segment_number
from pyjms.wire.kahadb.segments import JournalRecord, SegmentReader, Skipped, read_located

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_ARCHIVE = "data-archive"


class Segment(NamedTuple):
    """A journal file: its path, its number and its size in bytes."""

    path: str
    file_id: int
    size: int


class Slice(NamedTuple):
    """The records of a segment that start in the range from `start` to before `end`."""

    path: str
    file_id: int
    start: int
    end: int


def segments(folders: Iterable[str]) -> list[Segment]:
    """Return the journal files of folders, of `kahadb` below them and of archives, by number.

    A file that is in a folder and also in its archive counts once.

    Raises:
        ConfigurationException: a folder does not exist, or contains no journal.
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
        for start in range(0, segment.size, bytes_each)
    ]


def read_slice(part: Slice, skipped: list[Skipped] | None = None) -> Iterator[JournalRecord]:
    """Yield the records of a slice; torn and damaged parts are skipped and added to `skipped`.

    Raises:
        FileNotFoundError: the file was deleted.
        OSError: it cannot be read.
    """
    with Path(part.path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        reader = SegmentReader(data, part.file_id, start=part.start)
        try:
            for record in reader.records():
                if record.location.offset >= part.end:
                    break
                yield record
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


_OWN: Final = (
    ("file_id", "int"),
    ("offset", "long"),
    ("size", "int"),
    ("command", "string"),
    ("transaction", "string"),
    ("subscription", "string"),
    ("error", "string"),
)
RECORDS: Final = (*_OWN, *MESSAGE_COLUMNS)
"""The columns of `view=records`; `error` says why a message could not be read."""
MESSAGES: Final = (("subscription", "string"), *MESSAGE_COLUMNS)
"""The columns of `view=messages`; a message of a topic has a row per subscription."""

_NO_MESSAGE: Final = (None,) * len(MESSAGE_COLUMNS)
_AT: Final = {name: index for index, (name, _) in enumerate(MESSAGE_COLUMNS)}


class RecordFilter(NamedTuple):
    """The records to read; None: all. Times are in microseconds, both inclusive."""

    commands: Collection[str] | None = None
    destinations: Collection[str] | None = None
    earliest: int | None = None
    latest: int | None = None

    def accepts(self, command: str, destination: str | None) -> bool:
        """Return whether records of this kind and destination match."""
        return (self.commands is None or command in self.commands) and (
            self.destinations is None or destination in self.destinations
        )

    def accepts_time(self, timestamp: int | None) -> bool:
        """Return whether a message with this timestamp matches."""
        if self.earliest is None and self.latest is None:
            return True
        return (
            timestamp is not None
            and (self.earliest is None or timestamp >= self.earliest)
            and (self.latest is None or timestamp <= self.latest)
        )

    def accepts_message(self, values: Sequence[Any]) -> bool:
        """Return whether a message matches, given the values of its columns."""
        destination, timestamp = values[_AT["destination"]], values[_AT["timestamp"]]
        return self.accepts("addMessage", destination) and self.accepts_time(timestamp)


ALL: Final = RecordFilter()


def record_row(
    record: JournalRecord, record_filter: RecordFilter, version: int = STORE_OPENWIRE_VERSION
) -> tuple[object, ...] | None:
    """Return the record as a row of RECORDS; None: it does not match.

    A record or message that cannot be read becomes a row with an `error`.
    """
    own = (record.location.file_id, record.location.offset, record.size)
    try:
        command = decode_command(record.payload)
        name, found = _command_name(command), _find(command)
        destination = None if found is None else from_kaha_destination(found).qualified_name
    except JMSException as error:
        return (*own, None, None, None, str(error), *_NO_MESSAGE)
    if not record_filter.accepts(name, destination):
        return None
    head = (*own, name, _transaction(command), getattr(command, "subscription_key", None))
    try:
        values = _message(command, destination, version)
    except JMSException as error:
        return (*head, str(error), *_destination_only(command, destination))
    if not record_filter.accepts_time(values[_AT["timestamp"]]):
        return None
    return (*head, None, *values)


def _message(command: KahaCommand, destination: str | None, version: int) -> tuple[Any, ...]:
    added = command.message if isinstance(command, KahaUpdateMessageCommand) else command
    if not isinstance(added, KahaAddMessageCommand):
        return _destination_only(command, destination)
    message = decode_message(added.message, version)
    return message_values(message, None, message.redelivery_counter)


def _destination_only(command: KahaCommand, destination: str | None) -> tuple[Any, ...]:
    values: list[Any] = list(_NO_MESSAGE)
    values[_AT["destination"]] = destination
    values[_AT["message_id"]] = getattr(command, "message_id", None)
    return tuple(values)


def _find(command: KahaCommand) -> KahaDestination | None:
    if isinstance(command, KahaUpdateMessageCommand):
        return command.message.destination
    found = getattr(command, "destination", None)
    return found if isinstance(found, KahaDestination) else None


def _command_name(command: KahaCommand) -> str:
    """Return `addMessage` for a KahaAddMessageCommand, and so on. (activemq-persistence K7)"""
    name = type(command).__name__.removeprefix("Kaha").removesuffix("Command")
    return name[0].lower() + name[1:]


def _transaction(command: KahaCommand) -> str | None:
    info = getattr(command, "transaction_info", None)
    return str(from_transaction_info(info)) if isinstance(info, KahaTransactionInfo) else None


def apply_filters(filters: Collection[Any], record_filter: RecordFilter = ALL) -> RecordFilter:
    """Return a record filter narrowed by those filters of a query that it can represent."""
    for found in filters:
        column = ".".join(getattr(found, "attribute", ()))  # a Not filter has no `attribute`
        step = _FILTERS.get((type(found).__name__, column))
        if step is not None:
            record_filter = step(record_filter, found.value)
    return record_filter


def _and(before: Collection[str] | None, these: Collection[str]) -> Collection[str]:
    return frozenset(these) if before is None else frozenset(before) & frozenset(these)


def micros(value: datetime) -> int:
    """Return a time in microseconds since 1970, as in Arrow."""
    moment = value.astimezone(UTC)
    return round(moment.timestamp() * 1_000_000)


def _from(record_filter: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return record_filter._replace(
        earliest=bound if record_filter.earliest is None else max(bound, record_filter.earliest)
    )


def _until(record_filter: RecordFilter, value: datetime) -> RecordFilter:
    bound = micros(value)
    return record_filter._replace(
        latest=bound if record_filter.latest is None else min(bound, record_filter.latest)
    )


_FILTERS: Final[dict[tuple[str, str], Callable[[RecordFilter, Any], RecordFilter]]] = {
    ("EqualTo", "command"): lambda w, v: w._replace(commands=_and(w.commands, {v})),
    ("In", "command"): lambda w, v: w._replace(commands=_and(w.commands, v)),
    ("EqualTo", "destination"): lambda w, v: w._replace(destinations=_and(w.destinations, {v})),
    ("In", "destination"): lambda w, v: w._replace(destinations=_and(w.destinations, v)),
    ("EqualTo", "timestamp"): lambda w, v: _until(_from(w, v), v),
    ("GreaterThan", "timestamp"): _from,
    ("GreaterThanOrEqual", "timestamp"): _from,
    ("LessThan", "timestamp"): _until,
    ("LessThanOrEqual", "timestamp"): _until,
}
"""The filters by which records are skipped; Spark applies all of them again."""


_TOPICS: Final = (DestinationType.TOPIC, DestinationType.TEMP_TOPIC)


class Pending(NamedTuple):
    """A message that was not consumed: the location of its record, and its subscription."""

    location: Location
    subscription: str | None


class PendingMessages:
    """Replays all records in their order and yields the pending messages. Not thread-safe."""

    def __init__(self) -> None:
        self._messages: dict[KahaDestination, dict[str, Location]] = {}
        self._waiting: dict[KahaDestination, dict[str, dict[str, None]]] = {}
        self._open: dict[KahaTransactionInfo, list[tuple[Location, KahaCommand]]] = {}
        self._handlers: dict[type[KahaCommand], Callable[[Location, Any], None]] = {
            KahaAddMessageCommand: self._add,
            KahaUpdateMessageCommand: self._update,
            KahaRemoveMessageCommand: self._remove,
            KahaCommitCommand: self._commit,
            KahaRollbackCommand: self._rollback,
            KahaRemoveDestinationCommand: self._remove_destination,
            KahaSubscriptionCommand: self._subscribe,
        }

    def feed(self, records: Iterable[JournalRecord]) -> None:
        """Apply records.

        Raises:
            KahaDBFormatError: a record is not a KahaDB command.
        """
        for record in records:
            command = decode_command(record.payload)
            handler = self._handlers.get(type(command))
            if handler is not None:
                handler(record.location, command)

    def __iter__(self) -> Iterator[Pending]:
        for destination, messages in self._messages.items():
            waiting = self._waiting.get(destination)
            if destination.type not in _TOPICS:
                for location in messages.values():
                    yield Pending(location, None)
            elif waiting:
                for subscription, names in waiting.items():
                    for name in names:
                        yield Pending(messages[name], subscription)

    def _add(self, location: Location, command: KahaAddMessageCommand) -> None:
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._add_message(location, command)

    def _add_message(self, location: Location, command: KahaAddMessageCommand) -> None:
        destination = command.destination
        if destination.type in _TOPICS:
            waiting = self._waiting.get(destination)
            if not waiting:
                return
            for names in waiting.values():
                names[command.message_id] = None
        self._messages.setdefault(destination, {})[command.message_id] = location

    def _update(self, location: Location, command: KahaUpdateMessageCommand) -> None:
        messages = self._messages.get(command.message.destination, {})
        if command.message.message_id in messages:
            messages[command.message.message_id] = location

    def _remove(self, location: Location, command: KahaRemoveMessageCommand) -> None:
        if command.transaction_info is not None:
            self._open.setdefault(command.transaction_info, []).append((location, command))
        else:
            self._remove_message(command)

    def _remove_message(self, command: KahaRemoveMessageCommand) -> None:
        messages = self._messages.get(command.destination, {})
        waiting = self._waiting.get(command.destination)
        if command.subscription_key is not None and waiting is not None:
            waiting.get(command.subscription_key, {}).pop(command.message_id, None)
            if any(command.message_id in names for names in waiting.values()):
                return
        messages.pop(command.message_id, None)

    def _commit(self, _location: Location, command: KahaCommitCommand) -> None:
        for location, operation in self._open.pop(command.transaction_info, ()):
            if isinstance(operation, KahaAddMessageCommand):
                self._add_message(location, operation)
            elif isinstance(operation, KahaRemoveMessageCommand):
                self._remove_message(operation)

    def _rollback(self, _location: Location, command: KahaRollbackCommand) -> None:
        self._open.pop(command.transaction_info, None)

    def _remove_destination(
        self, _location: Location, command: KahaRemoveDestinationCommand
    ) -> None:
        self._messages.pop(command.destination, None)
        self._waiting.pop(command.destination, None)

    def _subscribe(self, _location: Location, command: KahaSubscriptionCommand) -> None:
        waiting = self._waiting.setdefault(command.destination, {})
        messages = self._messages.get(command.destination, {})
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
OPTION_NAMES: Final = (
    "path", "view", "destination", "command", "since", "until", "partitionBytes",
    "storeOpenWireVersion", "pushdown",
)  # fmt: skip
_OPTIONS: Final = frozenset(name.lower() for name in OPTION_NAMES)


class JournalOptions(NamedTuple):
    """The options of the format."""

    folders: tuple[str, ...]
    view: str
    partition_bytes: int
    version: int
    pushdown: bool
    record_filter: RecordFilter = ALL


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


class JournalDataSource(DataSource):
    """`spark.read.format("jms-journal").option("path", DIR).load()`."""

    @classmethod
    def name(cls) -> str:
        return "jms-journal"

    def schema(self) -> str:
        return ddl(_VIEWS[read_options(self.options).view])

    def reader(self, schema: StructType) -> DataSourceReader:
        settings = read_options(self.options)
        if settings.view == "messages":
            return MessagesReader(settings)
        return FilteringReader(settings) if settings.pushdown else RecordsReader(settings)


class RecordsReader(DataSourceReader):
    """Reads one row per record."""

    def __init__(self, settings: JournalOptions) -> None:
        self._settings = settings
        self._filter = settings.record_filter

    def partitions(self) -> Sequence[InputPartition]:
        settings = self._settings
        found = segments(settings.folders)
        return [SlicePartition(part) for part in slices(found, settings.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SlicePartition)
        record_filter, version = self._filter, self._settings.version
        rows = (record_row(record, record_filter, version) for record in read_slice(partition.part))
        return _batches((row for row in rows if row is not None), RECORDS)


class FilteringReader(RecordsReader):
    """Reads one row per record, and skips records by the filters of the query.

    It is a separate class because Spark rejects readers with `pushFilters` unless push-down is
    enabled.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self._filter = apply_filters(filters, self._settings.record_filter)
        return filters  # Spark applies all of them again


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
        return _batches(self._rows(partition.messages), MESSAGES)

    def _rows(self, messages: Sequence[tuple[str, Pending]]) -> Iterator[tuple[object, ...]]:
        record_filter = self._settings.record_filter
        for (_, pending), record in zip(
            messages,
            read_located((path, pending.location) for path, pending in messages),
            strict=True,
        ):
            command = decode_command(record.payload)
            if isinstance(command, KahaUpdateMessageCommand):
                command = command.message
            assert isinstance(command, KahaAddMessageCommand)
            message = decode_message(command.message, self._settings.version)
            values = tolerant_values(message, None, message.redelivery_counter)
            if record_filter.accepts_message(values):
                yield (pending.subscription, *values)


def read_options(options: Mapping[str, str]) -> JournalOptions:
    """Read the options.

    Raises:
        ConfigurationException: an option is unknown, missing or not valid.
    """
    unknown = {name.lower() for name in options} - _OPTIONS
    if unknown:
        raise ConfigurationException(
            f"jms-journal: unknown option {', '.join(sorted(unknown))}",
            hint=f"the options are {', '.join(OPTION_NAMES)}",
        )
    path = options.get("path", "")
    if not path:
        raise ConfigurationException("jms-journal: option path is missing", hint='load("DIR")')
    view = options.get("view", "records")
    if view not in _VIEWS:
        raise ConfigurationException(
            f"jms-journal: option view is {view!r}; write records or messages"
        )
    pushdown = options.get("pushdown", "false").lower()
    if pushdown not in {"true", "false"}:
        raise ConfigurationException(
            f"jms-journal: option pushdown is {pushdown!r}; write true or false"
        )
    return JournalOptions(
        tuple(part.strip() for part in path.split(",") if part.strip()),
        view,
        _number(options, "partitionBytes", _PARTITION_BYTES, 1),
        _number(options, "storeOpenWireVersion", STORE_OPENWIRE_VERSION, 1),
        pushdown == "true",
        RecordFilter(
            _names(options.get("command", "")),
            _names(options.get("destination", ""), "queue://"),
            _time(options, "since"),
            _time(options, "until"),
        ),
    )


def _names(text: str, prefix: str = "") -> frozenset[str] | None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return frozenset(name if "://" in name else prefix + name for name in names) or None


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationException(
            f"jms-journal: option {name} is {text!r}, which is not a time",
            hint="write for example 2026-11-21T18:00:00Z",
        ) from None
    return micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = options.get(name) or options.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigurationException(
            f"jms-journal: option {name} is {text!r}, not a whole number of at least {least}"
        )
    return int(text)


def _batches(
    rows: Iterator[tuple[object, ...]], columns: Sequence[tuple[str, str]]
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    chunk: list[tuple[object, ...]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_PER_BATCH:
            yield arrow_batch(chunk, schema)
            chunk.clear()
    if chunk:
        yield arrow_batch(chunk, schema)
