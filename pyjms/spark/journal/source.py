"""The batch source `jms-journal`: records, or the messages that are there, of journal files.

Options: `path` (folders, separated by commas: KahaDB's, or a data folder above it), `view`
(`records` or `messages`), `destination`, `command`, `since`, `until` (what is wanted, the first
two with commas), `partitionBytes` of a task's share, `storeOpenWireVersion`, `pushdown` (`true`
with `spark.sql.python.filterPushdown.enabled`, which our session sets).
Torn and damaged parts are passed over. (spark-pipeline 3.4, 5 C)

Spark 4.3 keeps what the first filter left for all other uses of the same `load()`, even for those
without a filter: `pushdown` is for a frame that is used once. The options have no such trap.
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

__all__ = ["JournalDataSource"]

_ROWS_A_BATCH: Final = 2000
_PARTITION_BYTES: Final = 8 * 1024 * 1024
_MESSAGES_A_PARTITION: Final = 20_000
_VIEWS: Final = {"records": RECORDS, "messages": MESSAGES}
_KNOWN: Final = (
    "path", "view", "destination", "command", "since", "until", "partitionBytes",
    "storeOpenWireVersion", "pushdown",
)  # fmt: skip
_OPTIONS: Final = frozenset(name.lower() for name in _KNOWN)


class Settings(NamedTuple):
    """The options, read."""

    folders: tuple[str, ...]
    view: str
    partition_bytes: int
    version: int
    pushdown: bool
    wanted: RecordFilter = ALL


class SlicePartition(InputPartition):
    """A task's share of the records."""

    def __init__(self, part: Slice) -> None:
        super().__init__(part)
        self.part = part


class PendingPartition(InputPartition):
    """A task's share of the messages: where each one's record lies, by file."""

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
    """A row a record."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wanted = settings.wanted

    def partitions(self) -> Sequence[InputPartition]:
        settings = self._settings
        found = segments(settings.folders)
        return [SlicePartition(part) for part in slices(found, settings.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SlicePartition)
        wanted, version = self._wanted, self._settings.version
        rows = (record_row(record, wanted, version) for record in read_slice(partition.part))
        return _batches((row for row in rows if row is not None), RECORDS)


class FilteringReader(RecordsReader):
    """The same, which passes over what the query's filters leave out.

    A class of its own: Spark refuses readers with this method unless push-down is switched on.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self._wanted = apply_filters(filters, self._settings.wanted)
        return filters  # Spark checks every one again


class MessagesReader(DataSourceReader):
    """A row a message that is there. The whole journal is read once for it, by the driver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        found = segments(self._settings.folders)
        if len(self._settings.folders) > 1 and len({s.file_id for s in found}) < len(found):
            raise ConfigurationException(
                "jms-journal: view=messages takes one journal at a time",
                hint="load each folder by itself and make a union",
            )
        pending = PendingMessages()
        paths = {}
        for segment in found:
            paths[segment.file_id] = segment.path
            pending.feed(read_slice(Slice(segment.path, segment.file_id, 0, segment.size)))
        there = sorted(
            ((paths[p.location.file_id], p) for p in pending), key=lambda x: x[1].location
        )
        return [
            PendingPartition(there[at : at + _MESSAGES_A_PARTITION])
            for at in range(0, len(there), _MESSAGES_A_PARTITION)
        ] or [PendingPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PendingPartition)
        return _batches(self._rows(partition.messages), MESSAGES)

    def _rows(self, messages: Sequence[tuple[str, Pending]]) -> Iterator[tuple[object, ...]]:
        wanted = self._settings.wanted
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
            if wanted.takes_message(values):
                yield (pending.subscription, *values)


def read_options(options: Mapping[str, str]) -> Settings:
    """Read the options.

    Raises:
        ConfigurationException: one is unknown, missing, or cannot be read.
    """
    unknown = {name.lower() for name in options} - _OPTIONS
    if unknown:
        raise ConfigurationException(
            f"jms-journal: unknown option {', '.join(sorted(unknown))}",
            hint=f"known are {', '.join(_KNOWN)}",
        )
    path = options.get("path", "")
    if not path:
        raise ConfigurationException("jms-journal: option path is missing", hint='load("DIR")')
    view = options.get("view", "records")
    if view not in _VIEWS:
        raise ConfigurationException(
            f"jms-journal: option view is {view!r}; records and messages are known"
        )
    pushdown = options.get("pushdown", "false").lower()
    if pushdown not in {"true", "false"}:
        raise ConfigurationException(f"jms-journal: option pushdown is {pushdown!r}: true or false")
    return Settings(
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
            f"jms-journal: option {name} is {text!r}, which is no time",
            hint="write 2026-11-21T18:00:00Z",
        ) from None
    return micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = options.get(name) or options.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigurationException(
            f"jms-journal: option {name} is {text!r}, which is no number from {least} on"
        )
    return int(text)


def _batches(
    rows: Iterator[tuple[object, ...]], columns: Sequence[tuple[str, str]]
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    some: list[tuple[object, ...]] = []
    for row in rows:
        some.append(row)
        if len(some) == _ROWS_A_BATCH:
            yield arrow_batch(some, schema)
            some.clear()
    if some:
        yield arrow_batch(some, schema)
