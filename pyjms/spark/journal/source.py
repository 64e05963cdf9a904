"""The batch source `jms-journal`: the records of journal files, or their pending messages.

Options: `path` (folders, separated by commas: KahaDB's, or a data folder above it), `view`
(`records` or `messages`), `destination`, `command` (names, separated by commas), `since`, `until`,
`partitionBytes` (the size of a task's share), `storeOpenWireVersion`, `pushdown` (`true` requires
`spark.sql.python.filterPushdown.enabled`, which `spark_session` sets). Torn and damaged parts are
skipped. (spark-pipeline 3.4, 5 C)

Spark 4.3 applies the filter of the first use of a `load()` to all later uses of the same frame,
even to those without a filter; so `pushdown` is for a frame that is used once. The options that
filter are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyjms.errors import ConfigurationException
from pyjms.spark.columns import arrow_batch, arrow_schema, ddl, tolerant_values
from pyjms.spark.journal.pending import Pending, PendingMessages
from pyjms.spark.journal.rows import (
    ALL,
    MESSAGES,
    RECORDS,
    RecordFilter,
    apply_filters,
    micros,
    record_row,
)
from pyjms.spark.journal.segments import Slice, read_slice, segments, slices
from pyjms.wire.kahadb.codec import decode_command
from pyjms.wire.kahadb.commands import KahaAddMessageCommand, KahaUpdateMessageCommand
from pyjms.wire.kahadb.files import read_located
from pyjms.wire.kahadb.frames import STORE_OPENWIRE_VERSION, decode_message

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["OPTION_NAMES", "JournalDataSource", "read_options"]

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
